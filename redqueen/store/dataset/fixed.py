"""The tasks of another run, or of an exported file, as the fixed tasks of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from redqueen.errors import UserError
from redqueen.method.seeds import OWN
from redqueen.records import Pair, Task
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.dataset.files import is_exported, read_rows
from redqueen.store.dataset.rows import TaskRecord
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import is_kind


def fixed_tasks(source: Path) -> list[Task]:
    """Returns the valid tasks of a run's folder, or the rows of a file of `redqueen tasks export`, in order.

    Raises UserError if there are none, or the first row that is no task, with its number.
    """
    if source.is_dir() and not is_exported(source):
        with ArchiveReader(RunDirectory(source).archive) as reader:
            tasks = [row.task() for row in reader.tasks()]
    else:
        tasks: list[Task] = []
        for number, row in enumerate(exported_rows(source), 1):
            tasks.append(replace(task_of(row, f"{source}, row {number}"), id=f"row-{number}", author=OWN))
    if not tasks:
        raise UserError(f"{source} holds no tasks")
    return tasks


def exported_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of an exported file. Raises UserError for a line that is none."""
    for number, row in enumerate(read_rows(file), 1):
        if isinstance(row, str):
            raise UserError(f"{file}, row {number}: {row}")
        yield row


def exported_tasks(file: Path) -> list[TaskRecord]:
    """Returns the tasks of an exported file, in order. Raises UserError for the first row that is none."""
    columns = TypeAdapter(TaskRecord)
    found: list[TaskRecord] = []
    for number, row in enumerate(exported_rows(file), 1):
        what = f"{file}, row {number}"
        task_of(row, what)
        try:
            found.append(columns.validate_python(row))
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(
                f"{what}, {first['loc'][0]}: {first['msg']}. Write the file by redqueen tasks export"
            ) from error
    return found


def task_of(row: Mapping[str, Any], what: str = "a row") -> Task:
    """Returns the task of a row of an exported file. Raises UserError, which begins with `what`, if the row is none."""
    kind = str(row.get("kind"))
    inputs = _texts(row.get("inputs"))
    outputs = _texts(row.get("outputs"))
    program = row.get("program")
    if not is_kind(kind) or not isinstance(program, str) or not inputs or len(inputs) != len(outputs):
        raise UserError(
            f"{what} is no task of redqueen tasks export: it needs kind, program, and as many inputs as outputs, and "
            f"has kind={kind!r}, {len(inputs)} inputs and {len(outputs)} outputs. To take programs from elsewhere: "
            "redqueen tasks import, then game.seeds=FILE"
        )
    return Task(
        id=str(row.get("id") or ""),
        kind=kind,
        author="",
        step=0,
        program=program.removeprefix("\ufeff"),
        pairs=tuple(Pair(given, output) for given, output in zip(inputs, outputs, strict=True)),
        message=str(row.get("message") or ""),
    )


def _texts(value: object) -> Sequence[str]:
    """Returns a list of texts, or nothing if it is none."""
    texts = cast(Sequence[object], value) if isinstance(value, list | tuple) else ()
    return cast(Sequence[str], texts) if all(isinstance(text, str) for text in texts) else ()
