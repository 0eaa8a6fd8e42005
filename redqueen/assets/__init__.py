"""Files that ship with the package: the warm-started adapter for the bundled base."""

from __future__ import annotations

from pathlib import Path

from redqueen.config import BUNDLED, ModelConfig

WARM = Path(__file__).parent / "smollm2-135m-warm"


def warm_start(model: ModelConfig) -> Path | None:
    """Returns the shipped adapter's folder if it was made for this base and these prompts, else None."""
    # A warm start teaches one prompt format; for another base or format it would be a bad start.
    return WARM if model.name == BUNDLED and model.prompts == "completion" and WARM.is_dir() else None
