"""Writes docs/reference/CONFIGURATION.md: every recipe and every setting, from the code's own docstrings.

python -m tools.write_keys
"""

from __future__ import annotations

import inspect
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel

from redqueen.config import Config
from redqueen.config.keys import FIRST, Key, describe
from redqueen.config.recipes import RECIPES

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "CONFIGURATION.md"
HEAD = """\
# Settings

A run starts from a recipe, and settings change it. Lists are written with commas, and a missing value as `none`:

    redqueen train population_4t4s learning.lr=5e-5 game.kinds=code_o,code_i run.steps=20
    redqueen init rlvr --out mine.toml              # or .yaml: every setting of a recipe with what it means
    redqueen train --config mine.toml run.steps=20  # the command line wins

`--dry-run --json` prints the whole configuration without training, and a run keeps it in `config.json`.
`redqueen recipes` and `redqueen keys` print what this page says; it is generated from the code by `python -m
tools.write_keys`.
The settings that are changed most often:
"""


def page() -> str:
    """Returns the page."""
    first = ", ".join(f"`{name}`" for name in FIRST)
    lines = [f"{HEAD}{first}.\n", "## Recipes", "", "| recipe | what it trains |", "|---|---|"]
    lines += [f"| `{name}` | {' '.join((inspect.getdoc(recipe) or '').split())} |" for name, recipe in RECIPES.items()]
    for section, keys in groupby(describe(Config), key=_section):
        kind = Config.model_fields[section].annotation
        is_section = isinstance(kind, type) and issubclass(kind, BaseModel)
        about = " ".join((inspect.getdoc(kind) or "").split()) if is_section else "For the whole run."
        lines += ["", f"## {section}", "", about, "", "| key | default | meaning |", "|---|---|---|"]
        lines += [_row(key) for key in keys]
    return "\n".join(lines) + "\n"


def _section(key: Key) -> str:
    return key.name.partition(".")[0]


def _row(key: Key) -> str:
    return f"| `{key.name}` | `{key.default or '-'}` | {key.meaning} |"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(f"wrote {TARGET}")
