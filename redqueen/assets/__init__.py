"""The warm-started adapters that ship with the package: this room's own, for Python, and those of other languages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redqueen.config import BUNDLED, ModelConfig
from redqueen.records import Kind
from redqueen.tasks.kinds import languages

WARM = Path(__file__).parent / "smollm2-135m-warm"
WARM_WORK = Path(__file__).parent / "smollm2-135m-work"


def warm_start(model: ModelConfig, kinds: Sequence[Kind]) -> Path | None:
    """Returns the shipped adapter's folder if it was made for this base and these prompts, else None.

    Of several languages the first decides.
    """
    if model.name != BUNDLED:
        return None
    # A warm start teaches one prompt format; for another base or format it would be a bad start.
    folders = languages(kinds)[0].warm_starts or {"completion": WARM, "work": WARM_WORK}
    folder = folders.get(model.prompts)
    return folder if folder is not None and folder.is_dir() else None
