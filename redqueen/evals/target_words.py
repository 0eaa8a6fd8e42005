"""What may stand for something to evaluate, checked by name before anything slow is imported."""

# No import here may load torch (see `redqueen.cli.app`).

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redqueen.errors import UserError
from redqueen.store.directory import exists

BASE = "base"
WARM_START = "warm-start"


def is_run(target: str) -> bool:
    """Returns whether a target is a run, and neither one of the words nor a PEFT folder."""
    return target not in (BASE, WARM_START) and (Path(target) / "checkpoints").is_dir()


def check_different(targets: Sequence[str]) -> None:
    """Raises UserError if a target is given twice: its members would count as twice as many."""
    seen: dict[str, str] = {}
    for target in targets:
        place = target if target in (BASE, WARM_START) else str(Path(target).resolve())
        if place in seen:
            raise UserError(
                f"{target} is given twice{f', also as {seen[place]}' * (seen[place] != target)}: leave one out"
            )
        seen[place] = target


def check_target(target: str, file: str = "") -> None:
    """Raises UserError if a target is neither one of the words nor a folder that has `file`."""
    if target not in (BASE, WARM_START) and not exists(Path(target) / file):
        raise UserError(f"{target} is neither a run nor a PEFT folder, nor one of the words {WARM_START} and {BASE}")
