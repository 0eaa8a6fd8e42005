"""The cells that the seed programs cover, so that what a run adds to them is counted apart.

They are made by `tools/write_seed_cells.py`: measuring all seeds at the start of each run would take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

NAME = "cells.json"


@cache
def seed_cells() -> Mapping[str, frozenset[str]]:
    """Returns the cells of all seed programs, whether a run plants them or not, by the name of the coverage."""
    text = (resources.files("redqueen.tasks.python") / "seeds" / NAME).read_text(encoding="utf-8")
    return {name: frozenset(cells) for name, cells in json.loads(text).items()}
