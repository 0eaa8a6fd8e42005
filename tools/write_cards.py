"""Writes the table of cards into docs/GPU.md, as `redqueen recipes --cards` prints it.

python -m tools.write_cards
"""

from __future__ import annotations

import re
from pathlib import Path

from redqueen.cli.dry_run import cards_table

TARGET = Path(__file__).resolve().parents[1] / "docs" / "GPU.md"
TABLE = re.compile(r"^\| recipe \| 24 GB.*\n(?:\|.*\n)+", re.MULTILINE)
"""The table in the page."""


if __name__ == "__main__":
    page = TARGET.read_text(encoding="utf-8")
    TARGET.write_text(TABLE.sub(lambda _: cards_table(), page), encoding="utf-8")
    print(f"wrote {TARGET}")
