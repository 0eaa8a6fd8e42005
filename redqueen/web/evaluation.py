"""What `redqueen eval` found out about the members of a run: the table that it left in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from redqueen.runs.directory import RunError
from redqueen.web.live_run import LiveRun


def evaluation(run: LiveRun) -> dict[str, object]:
    """Returns the newest evaluation, None if there was none. Raises RunError if it cannot be read."""
    path = run.directory.evaluation
    try:
        found = cast(Mapping[str, Any], json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {"evaluation": None, "command": f"redqueen eval {run.directory.path} base"}
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path} ({error}): remove it and evaluate again") from error
    return {"evaluation": found, "command": ""}
