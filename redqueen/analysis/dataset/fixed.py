"""The tasks of another run, or of an exported file, as the fixed tasks of students alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from redqueen.analysis.dataset.files import read_rows
from redqueen.errors import UserError
from redqueen.kinds import is_kind
from redqueen.league.matchmaking import BANK
from redqueen.records import Pair, Task
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.directory import RunDirectory


def fixed_tasks(source: Path) -> list[Task]:
    """Returns the valid tasks of a run's folder, or the rows of a file of `redqueen tasks export`, in order.

    Raises UserError if there are none, or the first row that is no task, with its number.
    """
    run = RunDirectory(source)
    if run.archive.exists():
        with ArchiveReader(run.archive) as reader:
            tasks = [row.task() for row in reader.tasks()]
    else:
        tasks = [_task(number, row, source) for number, row in enumerate(read_rows(source), 1)]
    if not tasks:
        raise UserError(f"{source} holds no tasks")
    return tasks


def _task(number: int, row: dict[str, Any] | str, source: Path) -> Task:
    if isinstance(row, str):
        raise UserError(f"{source}, row {number}: {row}")
    kind = row.get("kind")
    program = row.get("program")
    inputs = _texts(row.get("inputs"))
    outputs = _texts(row.get("outputs"))
    if (
        not isinstance(kind, str)
        or not is_kind(kind)
        or not isinstance(program, str)
        or not inputs
        or len(inputs) != len(outputs)
    ):
        raise UserError(
            f"{source}, row {number} is no task of redqueen tasks export: it needs kind, program, inputs and outputs. "
            "To take programs from elsewhere: redqueen tasks import, then game.seeds=FILE"
        )
    return Task(
        id=f"row-{number}",
        kind=kind,
        author=BANK,
        step=0,
        program=program,
        pairs=tuple(Pair(input_text, output) for input_text, output in zip(inputs, outputs, strict=True)),
        message=str(row.get("message") or ""),
    )


def _texts(value: object) -> tuple[str, ...]:
    """Returns a list of texts, or nothing if it is none."""
    if not isinstance(value, list):
        return ()
    texts = cast(list[object], value)
    return tuple(text for text in texts if isinstance(text, str)) if all(isinstance(t, str) for t in texts) else ()
