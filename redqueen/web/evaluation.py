"""What `redqueen eval` found out about the members of a run: the table that it left in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redqueen.runs.directory import RunError
from redqueen.runs.files import parse_json, read_plain
from redqueen.web.live_run import LiveRun


def evaluation(run: LiveRun) -> dict[str, object]:
    """Returns the newest evaluation, None if there was none. Raises RunError if it cannot be read."""
    path = run.directory.evaluation
    try:
        found: Any = parse_json(read_plain(path))
        if not isinstance(found, dict):
            raise ValueError("it holds no table")
    except FileNotFoundError:
        return {"evaluation": None, "command": f"redqueen eval {run.directory.path} base"}
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path} ({error}): remove it and evaluate again") from error
    return {"evaluation": cast(Mapping[str, Any], found), "command": ""}
