"""Texts that somebody else may have written, in Markdown and in YAML: as themselves, and never as markup."""

from __future__ import annotations

import json
import re


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
