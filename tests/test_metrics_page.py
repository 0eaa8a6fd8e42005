"""docs/reference/METRICS.md has the table of metrics, what is within each, and every column of run.sqlite."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from redqueen.engine.work import Work
from redqueen.records import ROLES
from redqueen.run.recording.measures import MEASURES
from redqueen.run.recording.metrics import METRICS, step_metrics
from redqueen.store.archive import TABLES, columns
from redqueen.tasks.python import NAMES
from tests.run.recording.steps import full
from tests.run.recording.test_held_out import answers
from tools import write_metrics

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "METRICS.md").read_text(encoding="utf-8")
DEFINITIONS, _, _REST = PAGE.partition("\n## `metrics.jsonl`\n")
LINE, _, ARCHIVE = _REST.partition("\n## `run.sqlite`\n")


def rows(text: str) -> dict[str, str]:
    """The names in the first cells of the tables, each with the other cell of its row."""
    found: dict[str, str] = {}
    for first, rest in re.findall(r"^\| (`[^|]*`) \| (.*) \|$", text, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", first), rest)
    return found


def test_the_reference_is_the_table_of_metrics() -> None:
    assert write_metrics.page(PAGE) == PAGE, "run python -m tools.write_metrics"
    assert list(rows(LINE)) == [metric.name for metric in METRICS]


def keys_within(value: object) -> set[str]:
    """The keys of the dictionaries in a value, at any depth."""
    keys: set[str] = set()
    if isinstance(value, dict):
        for name, inner in value.items():
            keys |= {name} | keys_within(inner)
    elif isinstance(value, list):
        for inner in value:
            keys |= keys_within(inner)
    return keys


def test_the_keys_within_a_key_are_named_beside_it() -> None:
    work = Work(sampled_tokens=1, sampling_s=1.0)
    step = replace(
        full(),
        work={"play": work},
        answers=tuple(answers("S0", True, False)),
        start=tuple(answers("start", True, True)),
    )
    # Names of what a run has: kinds, roles, members, phases, levels, a benchmark, statuses.
    of_the_run = {*NAMES, *ROLES, "T0", "S0", "S1", "total", "match", "play", "start", "reserved"}
    of_the_run |= {"correct", "wrong", "valid", "malformed", "infra_error"}
    # What the page defines before the reference: measures of complexity, coverages.
    of_the_run |= set(rows(DEFINITIONS))
    line = step_metrics(step)
    for metric in METRICS:
        # The line of a step without work does not have what is measured of it: single numbers.
        assert metric.name in line or metric.optional
        within = {key for key in keys_within(line.get(metric.name)) if not key.isdigit()}
        assert within - of_the_run <= set(re.findall(r"`(\w+)`", rows(LINE)[metric.name])), metric.name


def test_every_column_of_every_table_is_explained_and_no_other() -> None:
    tables, _, measures = ARCHIVE.partition("\n### `measures`")
    explained = {table: set(re.findall(r"`(\w+)`", row.partition(" | ")[2])) for table, row in rows(tables).items()}
    explained["measures"] = set()
    # What many tables have is said above them.
    shared = set(re.findall(r"`(\w+)`", tables.partition("\n| table")[0]))
    for name in rows(measures):
        # A name that ends in "_" is the beginning of one column for each measure.
        explained["measures"] |= {name + measure for measure in MEASURES} if name.endswith("_") else {name}
    actual = {table.name: {column.name for column in columns(table.row)} for table in TABLES}
    assert {table: names | (shared & actual[table]) for table, names in explained.items()} == actual
