"""The warm-started adapters that ship with the package: this room's own, for Python, and those of other languages."""

from __future__ import annotations

from pathlib import Path

from redqueen.config import BUNDLED, Config
from redqueen.kinds import languages

WARM = Path(__file__).parent / "smollm2-135m-warm"


def warm_start(config: Config) -> Path | None:
    """Returns the shipped adapter's folder if it was made for this base and these prompts, else None.

    Of several languages the first decides.
    """
    model = config.model
    own = languages(config.game.kinds)[0].warm_start
    folder = own or WARM
    # A warm start teaches one prompt format; for another base or format it would be a bad start.
    return folder if model.name == BUNDLED and model.prompts == "completion" and folder.is_dir() else None
