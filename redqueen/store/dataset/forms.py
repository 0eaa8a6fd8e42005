"""A person's own tasks: read in any form that people publish, and checked by the jail where they have programs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from redqueen.config import GameConfig
from redqueen.jail import PROGRAMS, CodecError, canonical, parse_literal
from redqueen.method.judging import judge_proposals
from redqueen.method.seeds import is_reserved
from redqueen.records import Draft, Pair, Proposal, Task, Verdict, Verifier
from redqueen.store.archive.rows import BANK
from redqueen.store.dataset.files import read_rows
from redqueen.store.dataset.published import BadRowError, Form, OwnRow, form_of
from redqueen.store.files import counted
from redqueen.tasks.kinds import find
from redqueen.tasks.kinds.induction import NO_MESSAGE
from redqueen.tasks.programs.normal_form import fingerprint, normalise
from redqueen.tasks.python import PYTHON, parse_block, write_block
from redqueen.tasks.tested.tests import cases

# So many programs are handed to the verifier at once, so that a file of any length is read in bounded memory.
_BATCH = 256
_NAMED = 5
"""So many rows with one reason are named; of the others it is said how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTasks:
    """A person's tasks, as far as they can be posed."""

    form: Form
    """That of the file."""
    tasks: tuple[Task, ...]
    """Of the kind `python` (a program with all its inputs), `code_t` or `maths`; `row-3` is of row 3 of the file."""
    rows: int
    """Rows in the file."""
    taken: int
    """Rows that are in the tasks: those with one program are one task."""
    refused: Mapping[int, str]
    """Why rows are not taken, by their numbers, counted from 1."""
    copies: Mapping[int, int]
    """How often a row comes again, by the number of the first."""
    notes: tuple[str, ...]
    """What else a person should know, one line each."""

    @property
    def refusals(self) -> list[str]:
        """A line for each reason, with the rows that have it."""
        rows: dict[str, list[int]] = {}
        for number, reason in sorted(self.refused.items()):
            rows.setdefault(reason, []).append(number)
        lines: list[str] = []
        for reason, numbers in rows.items():
            named = ", ".join(map(str, numbers[:_NAMED]))
            more = len(numbers[_NAMED:]) + sum(self.copies.get(number, 0) for number in numbers)
            rows_said = f"row{'s' if len(numbers) > 1 else ''} {named}{f' and {more} more' if more else ''}"
            lines.append(f"refused: {rows_said}: {reason}")
        return lines

    @property
    def machine_failed(self) -> bool:
        """Whether the machine lost a row, so that another try may take it."""
        return any(reason.startswith("infra_error") for reason in self.refused.values())


def load_own_tasks(file: Path, verifier: Verifier) -> OwnTasks:
    """Reads a person's file and has its programs checked.

    Raises UserError if it cannot be read. There may be no tasks: then `refusals` says why.
    """
    reading = _Reading(file)
    programs: dict[str, list[Task]] = {}
    for batch in reading.batches():
        for row, task in _checked(batch, verifier, reading.refused):
            # Rows with one program are one task, unless each asks something else of it.
            name = fingerprint(task.program) if row.kind == PYTHON.name else task.id
            programs.setdefault(name, []).append(task)
    if reading.kind == PYTHON.name:
        tasks, taken = _as_seeds(list(programs.values()), verifier, reading.refused)
    else:
        tasks = [task for (task,) in programs.values()]
        taken = [int(task.id.removeprefix("row-")) for task in tasks]
    first_form = reading.form or Form(name="no form that is read here", columns=(), read=_no_row)
    return OwnTasks(
        form=first_form,
        tasks=tuple(tasks),
        rows=reading.rows,
        taken=sum(1 + reading.copies[number] for number in taken),
        refused=reading.refused,
        copies=reading.copies,
        notes=tuple(reading.notes()),
    )


def _no_row(_: Mapping[str, object]) -> OwnRow:
    raise BadRowError("of no form")


class _Reading:
    """A file as it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows = 0
        self.form: Form | None = None
        self.kind = ""
        self.refused: dict[int, str] = {}
        self.copies: Counter[int] = Counter()
        self._left_out: dict[str, list[int]] = {}

    def batches(self) -> Iterator[list[tuple[int, OwnRow]]]:
        """Yields the different rows that have the form of a task; notes why others are refused."""
        batch: list[tuple[int, OwnRow]] = []
        numbers: dict[bytes, int] = {}
        for number, fields in enumerate(read_rows(self.file), 1):
            self.rows = number
            try:
                row = self._row(fields)
            except BadRowError as error:
                self.refused[number] = str(error)
                continue
            said = repr(row).encode("utf-8", "surrogatepass")
            first = numbers.setdefault(hashlib.blake2b(said, digest_size=16).digest(), number)
            if first != number:
                self.copies[first] += 1
                continue
            for reason in row.left_out:
                self._left_out.setdefault(reason, []).append(number)
            batch.append((number, row))
            if len(batch) == _BATCH:
                yield batch
                batch = []
        yield batch

    def _row(self, fields: Mapping[str, object] | str) -> OwnRow:
        if isinstance(fields, str):
            raise BadRowError(fields)
        form = form_of(fields)
        row = form.read(fields)
        if self.form is None:
            self.form, self.kind = form, row.kind
        if row.kind != self.kind:
            raise BadRowError(f"it is of another form ({form.name}) than the rows before: give it a file of its own")
        return row

    def notes(self) -> Iterator[str]:
        """Yields what else should be known of the file."""
        if self._left_out:
            count = sum(map(len, self._left_out.values()))
            rows = sorted(set(chain.from_iterable(self._left_out.values())))
            reason = max(self._left_out, key=lambda text: len(self._left_out[text]))
            yield (
                f"left out: {counted(count, 'test')} of {counted(len(rows), 'row')} (first row {rows[0]}): "
                f"they cannot be judged here, for example: {reason}"
            )


def _checked(
    batch: Sequence[tuple[int, OwnRow]], verifier: Verifier, refused: dict[int, str]
) -> Iterator[tuple[OwnRow, Task]]:
    """Yields the rows that hold what they say, with their tasks; notes why others are refused."""
    waiting = list(batch)
    tried = 0
    while waiting:
        with_program = [(number, row) for number, row in waiting if row.programs and row.kind != "maths"]
        proposals = [
            _proposal(number, row.kind, Draft(row.programs[tried], row.inputs, row.message))
            for number, row in with_program
        ]
        judged = dict(zip([number for number, _ in with_program], judge_proposals(verifier, proposals), strict=True))
        again: list[tuple[int, OwnRow]] = []
        for number, row in waiting:
            try:
                task = _task(number, row, judged.get(number))
            except BadRowError as error:
                refused[number] = str(error)
                if tried + 1 < len(row.programs):
                    again.append((number, row))
            else:
                refused.pop(number, None)
                yield row, task
        waiting, tried = again, tried + 1


def _proposal(number: int, kind: str, draft: Draft) -> Proposal:
    # Programs are verified with all inputs, as seeds are in a run (`redqueen.method.planting.verified_tasks`).
    return Proposal(id=f"row-{number}", kind=kind, author=BANK, step=0, draft=draft)


def _task(number: int, row: OwnRow, judged: tuple[Verdict, Task | None] | None) -> Task:
    """Returns the task of a row, whose program, if it has one, has run. Raises BadRowError."""
    if judged is None:
        pairs = tuple(Pair(given, output) for given, output in zip(row.inputs, row.outputs, strict=True))
        program = row.programs[0] if row.programs else ""
        return Task(
            id=f"row-{number}", kind=row.kind, author=BANK, step=0, program=program, pairs=pairs, message=row.message
        )
    verdict, task = judged
    if task is None:
        raise BadRowError(_reason(verdict, row))
    if is_reserved(task.program):
        raise BadRowError("the program is similar to a reserved one, which models are only measured on")
    # Spelled anew, two tests may be one.
    spell = find(row.kind).language.spell_input
    claimed = {spell(given): output for given, output in zip(row.inputs, row.outputs, strict=False)}
    for pair in task.pairs:
        if pair.input in claimed:
            _compare(row.kind, pair, claimed[pair.input])
    return task


def _compare(kind: str, pair: Pair, claimed: str) -> None:
    """Raises BadRowError if a program gives something else than the row says."""
    call = find(kind).language.call(pair.input)
    try:
        if kind == PYTHON.name:
            same = canonical(parse_literal(claimed)) == canonical(parse_literal(pair.output))
        else:
            (case,) = cases([Pair(pair.input, claimed)], PROGRAMS.limits.output_bytes)
            same = case.accepts(pair.output)
    except CodecError as error:
        raise BadRowError(f"its output for {call} cannot be read: {error}") from None
    if not same:
        raise BadRowError(f"{_short(call)} gives {_short(pair.output)}, and the file says {_short(claimed)}")


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def _reason(verdict: Verdict, row: OwnRow | None = None) -> str:
    reason = f"{verdict.status}: {verdict.detail}" if verdict.detail else verdict.status
    if row is None or row.kind == PYTHON.name or verdict.status == "infra_error":
        return reason
    return f"its own program fails its tests: {reason}"


def _as_seeds(programs: list[list[Task]], verifier: Verifier, refused: dict[int, str]) -> tuple[list[Task], list[int]]:
    """Returns the programs as they stand in a seed file, and the rows in them; notes why others are refused."""
    candidates: list[tuple[list[int], str]] = []
    for tasks in programs:
        numbers = [int(task.id.removeprefix("row-")) for task in tasks]
        try:
            candidates.append((numbers, seed_block(_merged(tasks))))
        except ValueError as error:
            refused.update(dict.fromkeys(numbers, str(error)))
    # The text that is written is what a run will read and run, with all inputs in one interpreter. So it is judged too.
    drafts = [(numbers[0], parse_block(block)) for numbers, block in candidates]
    judged = judge_proposals(verifier, [_proposal(number, PYTHON.name, draft) for number, draft in drafts])
    made: list[Task] = []
    taken: list[int] = []
    for (numbers, _), (verdict, task) in zip(candidates, judged, strict=True):
        if task is None:
            refused.update(dict.fromkeys(numbers, _reason(verdict)))
        else:
            made.append(task)
            taken += numbers
    return made, taken


def _merged(tasks: list[Task]) -> Draft:
    """Returns one draft of all tasks on one program: its different inputs, and the first message that there is."""
    # A task of most kinds has one input, which is too few to show what a function does. One that shows examples has at
    # most so many, so a seed with more would only make prompts longer.
    most = GameConfig().max_inputs
    inputs = list(dict.fromkeys(pair.input for pair in tasks[0].pairs))
    for pair in chain.from_iterable(task.pairs for task in tasks[1:]):
        if len(inputs) < most and pair.input not in inputs:
            inputs.append(pair.input)
    message = next((task.message for task in tasks if task.message), NO_MESSAGE)
    return Draft(tasks[0].program, tuple(inputs), message)


def seed_block(draft: Draft) -> str:
    """Returns a seed as text. Raises ValueError if the program cannot be written as one."""
    try:
        return write_block(draft)
    except ValueError:
        # Written anew, a program has each of its texts in one line.
        return write_block(replace(draft, program=normalise(draft.program)))
