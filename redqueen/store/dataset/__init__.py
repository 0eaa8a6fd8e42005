"""The tasks of a run as rows of a data set: what is posed, what became of it, and which rows are wanted."""

# No import here may load torch: the archive is read at once (see `redqueen.cli.app`).

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict

from redqueen.method.prompts import taken_apart
from redqueen.method.seeds import is_reserved
from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import TaskRow
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import find_or_plain
from redqueen.tasks.kinds.work import WorkedText
from redqueen.tasks.programs.normal_form import hashed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One valid task of a run. Its fields are the columns of an exported file, in this order."""

    # The text below each field is the column's meaning.
    __pydantic_config__: ClassVar = ConfigDict(use_attribute_docstrings=True)

    run: str
    """The name of the run's folder."""
    id: str
    """The task's id in the run, as `redqueen show` prints it."""
    step: int
    """The step that it was written in, counted from 1."""
    kind: Kind
    """What is asked; the data set's card says it for each kind."""
    author: str
    """The teacher that wrote it; `own` of a task of yours, `seed` of a shipped one."""
    student: str
    """The student that it was posed to."""
    program: str
    """The program, which defines a function `f`. For an induction task it is an earlier task's or a seed's, and
    the student never sees it. A task with tests has any program that passes them, or an empty text."""
    inputs: tuple[str, ...]
    """Argument lists as Python literals: the text between the brackets of `f(...)`. An induction
    task has several. For a task with tests, they are the calls or inputs that
    the tests use: `add(2, 2)`, `stdin('1 2')`."""
    outputs: tuple[str, ...]
    """What the program returned in the sandbox for each of `inputs`, as Python literals."""
    message: str
    """What the function should do, in its author's words, if it is asked for; else empty."""
    shown: int
    """An induction task: the student sees this many of the pairs, from the first, and is judged on the rest, or with
    tests on all; else 0."""
    attempts: int
    """The attempts that were judged and paid."""
    solved: int
    """Those of `attempts` that were right."""
    solve_rate: float | None
    """`solved / attempts`, in sample: the student was trained on it. None without an attempt."""
    teacher_reward: float | None
    """What the teacher was paid; None after a fault of the machine, and for a fixed task, which no teacher wrote."""
    novel: bool
    """Whether its idea was new when it was written: in no seed, and in no task of its kind in the task bank."""
    shape: str
    """A hash of the program, equal for programs that are the same up to names and constants."""
    work: str = ""
    """What the student wrote on its way to its first right answer; empty without one, or in a prompt format without
    work."""
    answer: str = ""
    """That answer, as `redqueen show` prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks are exported."""

    kind: Kind | None = None
    """Only this kind; None: all."""
    solve_rate: tuple[float, float] | None = None
    """Only tasks with a solve rate from the first to the second number, both included."""
    distinct: bool = False
    """Whether only the first task is taken of each kind and shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSelection:
    """The tasks that are exported, oldest first, and how many are not."""

    records: tuple[TaskRecord, ...]
    total: int
    """All valid tasks of the run."""
    reserved: int
    """Left out: the program is similar to a reserved one, which models are only measured on."""
    filtered: int
    """Left out: another kind, or another solve rate."""
    repeated: int
    """Left out: a task of its kind and shape is there already."""


def read_tasks(run: Path) -> list[TaskRecord]:
    """Returns all valid tasks of a run, oldest first. Raises RunError if there is no such run."""
    directory = RunDirectory(run)
    prompts = directory.config().model.prompts
    with ArchiveReader(directory.archive) as archive:
        rows = archive.every(TaskRow)
        outcomes = {row[0]: row[1:] for row in archive.select(_OUTCOMES)}
        right: dict[str, str] = {task: text for task, text, _ in archive.select(_FIRST_RIGHT)}
    # A task may have the program of another one, and a shape takes a parse. So each program is parsed once.
    shapes = {(row.kind, row.program): "" for row in rows}
    for kind, program in shapes:
        shapes[kind, program] = find_or_plain(kind).language.shape(program) if program else ""
    # `runs/..` and `.` have no name of their own.
    name = run.resolve().name
    return [
        _record(
            name,
            row,
            # What has no program is told apart by its text.
            shapes[row.kind, row.program] or hashed(row.message),
            taken_apart(prompts, row.kind, right.get(row.id, "")),
            *outcomes[row.id],
        )
        for row in rows
    ]


# One pass over the tables instead of a question for each task. `count` leaves out what is NULL: an attempt that a fault
# of the machine has lost has no reward.
_OUTCOMES = (
    "SELECT tasks.id, matches.student, proposals.reward, count(attempts.reward), "
    "coalesce(sum(attempts.reward IS NOT NULL AND attempts.status = 'correct'), 0) "
    "FROM tasks JOIN proposals ON proposals.id = tasks.id JOIN matches ON matches.id = proposals.match "
    "LEFT JOIN attempts ON attempts.task = tasks.id GROUP BY tasks.id"
)
# The text beside `min(number)` is that attempt's.
_FIRST_RIGHT = (
    "SELECT task, text, min(number) FROM attempts WHERE status = 'correct' AND reward IS NOT NULL GROUP BY task"
)


def _record(
    run: str,
    row: TaskRow,
    program_shape: str,
    first_right: WorkedText,
    student: str,
    reward: float | None,
    attempts: int,
    solved: int,
) -> TaskRecord:
    task = row.task()
    return TaskRecord(
        run=run,
        id=row.id,
        step=row.step,
        kind=row.kind,
        author=row.author,
        student=student,
        program=row.program,
        inputs=tuple(pair.input for pair in task.pairs),
        outputs=tuple(pair.output for pair in task.pairs),
        message=row.message,
        shown=len(find_or_plain(row.kind).shown(task)),
        attempts=attempts,
        solved=solved,
        solve_rate=row.rho,
        teacher_reward=reward,
        novel=row.novel,
        shape=program_shape,
        work=first_right.work,
        answer=first_right.answer or "",
    )


def select(records: Iterable[TaskRecord], wanted: TaskFilter) -> TaskSelection:
    """Returns the tasks that are wanted. Those similar to a reserved program never are."""
    chosen: list[TaskRecord] = []
    seen: set[tuple[Kind, str]] = set()
    left_out: Counter[str] = Counter()
    every = list(records)
    programs = {(record.program, record.kind) for record in every}
    held_out = {program for program in programs if is_reserved(*program)}
    for record in every:
        # Reserved ones come first, so that their number does not depend on what else was asked for.
        if (record.program, record.kind) in held_out:
            left_out["reserved"] += 1
        elif not _fits(record, wanted):
            left_out["filtered"] += 1
        elif wanted.distinct and (record.kind, record.shape) in seen:
            left_out["repeated"] += 1
        else:
            seen.add((record.kind, record.shape))
            chosen.append(record)
    return TaskSelection(
        records=tuple(chosen),
        total=len(every),
        reserved=left_out["reserved"],
        filtered=left_out["filtered"],
        repeated=left_out["repeated"],
    )


def _fits(record: TaskRecord, wanted: TaskFilter) -> bool:
    if wanted.kind not in (None, record.kind):
        return False
    if wanted.solve_rate is None:
        return True
    low, high = wanted.solve_rate
    return record.solve_rate is not None and low <= record.solve_rate <= high
