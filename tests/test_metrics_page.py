"""docs/METRICS.md lists every key of metrics.jsonl and every column of run.sqlite, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

from redqueen.runs.archive.schema import TABLES, columns
from redqueen.runs.metrics import StepMetrics

PAGE = (Path(__file__).parents[1] / "docs" / "METRICS.md").read_text(encoding="utf-8")
LINE, _, ARCHIVE = PAGE.partition("\n## `metrics.jsonl`\n")[2].partition("\n## `run.sqlite`\n")


def rows(text: str) -> dict[str, str]:
    """The names in the first cells of the tables, each with the other cell of its row."""
    found: dict[str, str] = {}
    for first, rest in re.findall(r"^\| (`[^|]*`) \| (.*) \|$", text, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", first), rest)
    return found


def keys_within(annotation: Any) -> set[str]:
    """The keys of the dictionaries with fixed keys that a value holds."""
    keys: set[str] = set()
    if is_typeddict(annotation):
        for name, part in get_type_hints(annotation).items():
            keys |= {name} | keys_within(part)
    for part in get_args(annotation):
        keys |= keys_within(part)
    return keys


def test_every_key_of_a_line_is_explained_and_no_other() -> None:
    assert rows(LINE).keys() == get_type_hints(StepMetrics).keys()


def test_the_keys_within_a_key_are_named_beside_it() -> None:
    explained = rows(LINE)
    for key, annotation in get_type_hints(StepMetrics).items():
        named = set(re.findall(r"`(\w+)`", explained[key]))
        assert keys_within(annotation) <= named, key


def test_every_column_of_every_table_is_explained_and_no_other() -> None:
    sections = dict(re.findall(r"^### `(\w+)`(.*?)(?=^##|\Z)", ARCHIVE, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {table.name for table in TABLES}
    for table in TABLES:
        assert rows(sections[table.name]).keys() == {column.name for column in columns(table.row)}, table.name
