"""What may stand for something to evaluate, checked by name before anything slow is imported."""

# No import here may load torch (see `redqueen.cli.app`).

from __future__ import annotations

from pathlib import Path

from redqueen.errors import UserError
from redqueen.store.directory import exists

BASE = "base"
WARM_START = "warm-start"


def check_target(target: str, file: str = "") -> None:
    """Raises UserError if a target is neither one of the words nor a folder that has `file`."""
    if target not in (BASE, WARM_START) and not exists(Path(target) / file):
        raise UserError(f"{target} is neither a run nor a PEFT folder, nor one of the words {WARM_START} and {BASE}")
