"""`redqueen tasks import`: makes a seed file of tasks from elsewhere, each of which the sandbox has checked again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from redqueen.config import GameConfig, SandboxConfig
from redqueen.errors import UserError
from redqueen.jail import MAX_INPUTS, MAX_TEXT_BYTES, CodecError, canonical, parse_literal
from redqueen.jail.job import MAX_PROGRAM_BYTES
from redqueen.method.judging import judge_proposals
from redqueen.method.seeds import AUTHOR, is_reserved
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Proposal, Task, Verdict, Verifier
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.dataset.files import read_rows
from redqueen.store.directory import RunDirectory, write_text
from redqueen.store.files import printable, quoted
from redqueen.tasks.kinds.induction import NO_MESSAGE
from redqueen.tasks.programs.normal_form import fingerprint, normalise
from redqueen.tasks.python import ABDUCTION, DEDUCTION, INDUCTION, PYTHON
from redqueen.tasks.python.seeds import parse_block, write_block

# A file goes into a seed file and not into a run. A run is a function of its configuration, which names its seed file:
# tasks that were added to a task bank from outside would be lost when the run is played again.

# So many programs are handed to the verifier at once, so that a file of any length is read in bounded memory.
_BATCH = 256
_NAMED = 5
"""So many rows with one reason are named; of the others it is said how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row that has the form of a task."""

    number: int
    draft: Draft
    outputs: tuple[str, ...]
    """The outputs that the file claims; empty if it claims none."""

    @property
    def digest(self) -> bytes:
        """Equal for rows that say the same."""
        said = (self.draft.program, self.draft.inputs, self.draft.message, self.outputs)
        return hashlib.blake2b(repr(said).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _BadRowError(ValueError):
    """A row that is not taken; the message says why."""


def run_tasks_import(file: Path, out: Path, *, unsafe: bool) -> int:
    """Writes the seeds to `out` and lists what was refused; returns the exit code, 1 if the machine failed at a row.

    Raises UserError if the file cannot be read, if `out` exists or cannot be written, or if no row is left.
    """
    if RunDirectory(file).config_file.exists():
        raise UserError(
            f"{file} is a run: write its tasks with redqueen tasks export {quoted(file)} --out tasks.jsonl, then "
            "import that file"
        )
    if out.exists():
        raise UserError(f"{out} exists already: choose another name")
    # Before minutes of work.
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: the folder {out.parent} does not exist")
    refused: dict[int, str] = {}
    copies: Counter[int] = Counter()
    with LocalVerifier(SandboxConfig(unsafe_no_isolation=unsafe)) as verifier:
        programs = _programs(file, verifier, refused, copies)
        blocks = _blocks(programs, verifier, refused)
    console = PlainConsole(soft_wrap=True)
    for line in _refusals(refused, copies):
        console.print(line)
    taken = sum(1 + copies[number] for rows, _ in blocks for number in rows)
    every = taken + sum(1 + copies[number] for number in refused)
    if not blocks:
        raise UserError(f"{file}: none of {every} rows can be a seed, so nothing was written")
    try:
        write_text(out, "\n\n".join(block for _, block in blocks) + "\n")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    console.print(
        f"wrote {len(blocks)} seed programs to {out}, from {taken} of {every} rows: rows "
        "with the same program are one seed"
    )
    silent = sum(block.startswith(f"# {NO_MESSAGE}\n") for _, block in blocks)
    if silent:
        console.print(
            f"{silent} of them have no message, which {INDUCTION.name} tasks need: '{NO_MESSAGE}' stands there. With a "
            f"message in its place, {INDUCTION.name} can be played too"
        )
    # A task that only says "see the examples" teaches nobody, so the command that is offered leaves the kind out.
    kinds = f" game.kinds={DEDUCTION.name},{ABDUCTION.name}" if silent else ""
    console.print(f"train on them: redqueen train game.seeds={quoted(out)}{kinds}")
    return 1 if any(reason.startswith("infra_error") for reason in refused.values()) else 0


def _refusals(refused: dict[int, str], copies: Counter[int]) -> Iterator[str]:
    """Yields a line for each reason, with the rows that have it."""
    rows: dict[str, list[int]] = {}
    for number, reason in sorted(refused.items()):
        rows.setdefault(reason, []).append(number)
    for reason, numbers in rows.items():
        named = ", ".join(map(str, numbers[:_NAMED]))
        more = len(numbers[_NAMED:]) + sum(copies[number] for number in numbers)
        yield f"refused: row{'s' if len(numbers) > 1 else ''} {named}{f' and {more} more' if more else ''}: {reason}"


def _programs(
    file: Path, verifier: Verifier, refused: dict[int, str], copies: Counter[int]
) -> list[list[tuple[int, Task]]]:
    """Returns the valid rows with their numbers, those with one program together; notes why others are refused.

    Of equal rows the first alone is judged and returned; `copies` says how many more there are.
    """
    programs: dict[str, list[tuple[int, Task]]] = {}
    for batch in _batches(file, refused, copies):
        judged = judge_proposals(verifier, [_proposal(row.number, row.draft) for row in batch])
        for row, (verdict, task) in zip(batch, judged, strict=True):
            try:
                if task is None:
                    raise _BadRowError(_reason(verdict))
                _check(row, task)
            except _BadRowError as error:
                refused[row.number] = str(error)
            else:
                programs.setdefault(fingerprint(task.program), []).append((row.number, task))
    return list(programs.values())


def _batches(file: Path, refused: dict[int, str], copies: Counter[int]) -> Iterator[list[_Row]]:
    """Yields the different rows that have the form of a task; notes why others are refused."""
    batch: list[_Row] = []
    numbers: dict[bytes, int] = {}
    for number, fields in enumerate(read_rows(file), 1):
        try:
            row = _row(number, fields)
        except _BadRowError as error:
            refused[number] = str(error)
            continue
        first = numbers.setdefault(row.digest, number)
        if first == number:
            batch.append(row)
        else:
            copies[first] += 1
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _row(number: int, fields: dict[str, Any] | str) -> _Row:
    """Returns a row of a file as a draft. Raises _BadRowError if it has not the form of one."""
    if isinstance(fields, str):
        raise _BadRowError(fields)
    program = fields.get("program")
    if not isinstance(program, str):
        raise _BadRowError('"program" must be a text')
    if len(program) > MAX_PROGRAM_BYTES:
        raise _BadRowError(f'"program" is longer than {MAX_PROGRAM_BYTES:,} bytes')
    inputs = _texts(fields, "inputs")
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise _BadRowError(f'"inputs" must hold 1 to {MAX_INPUTS} argument lists')
    outputs = () if fields.get("outputs") is None else _texts(fields, "outputs")
    if outputs and len(outputs) != len(inputs):
        raise _BadRowError('"outputs" must be as many as "inputs"')
    message = fields.get("message") or ""
    if not isinstance(message, str):
        raise _BadRowError('"message" must be a text')
    if len(message) > MAX_TEXT_BYTES:
        raise _BadRowError(f'"message" is longer than {MAX_TEXT_BYTES:,} bytes')
    # Some editors write a mark in front of a file. Python skips it there, and refuses it in a text.
    program = program.removeprefix("\ufeff")
    # A seed's message is one line.
    message = printable(" ".join(message.split()))
    return _Row(number=number, draft=Draft(program, inputs, message), outputs=outputs)


def _texts(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name)
    texts: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise _BadRowError(f'"{name}" must be a list of texts')
    if any(len(text) > MAX_TEXT_BYTES for text in texts):
        raise _BadRowError(f'a text of "{name}" is longer than {MAX_TEXT_BYTES:,} bytes')
    return tuple(texts)


def _proposal(number: int, draft: Draft) -> Proposal:
    # Seeds are verified with all inputs, as in a run (`redqueen.method.self_play.verified_tasks`).
    return Proposal(id=f"row-{number}", kind=PYTHON.name, author=AUTHOR, step=0, draft=draft)


def _check(row: _Row, task: Task) -> None:
    """Raises _BadRowError if a valid row says something else than the sandbox, or may not be a seed."""
    if is_reserved(task.program):
        raise _BadRowError("the program is similar to a reserved one, which models are only measured on")
    for pair, claimed in zip(task.pairs, row.outputs, strict=False):
        try:
            same = canonical(parse_literal(claimed)) == canonical(parse_literal(pair.output))
        except CodecError as error:
            raise _BadRowError(f"its output for f({pair.input}) cannot be read: {error}") from None
        if not same:
            raise _BadRowError(f"f({pair.input}) gives {pair.output}, and the file says {claimed}")


def _blocks(
    programs: list[list[tuple[int, Task]]], verifier: Verifier, refused: dict[int, str]
) -> list[tuple[list[int], str]]:
    """Returns the seeds as they stand in the file, each with its rows' numbers; notes why others are refused."""
    candidates: list[tuple[list[int], str]] = []
    for rows in programs:
        numbers = [number for number, _ in rows]
        try:
            candidates.append((numbers, _block(_merged([task for _, task in rows]))))
        except ValueError as error:
            refused.update(dict.fromkeys(numbers, str(error)))
    # The text that is written is what a run will read and run, with all inputs in one interpreter. So it is judged too.
    judged = judge_proposals(verifier, [_proposal(numbers[0], parse_block(block)) for numbers, block in candidates])
    blocks: list[tuple[list[int], str]] = []
    for (numbers, block), (verdict, task) in zip(candidates, judged, strict=True):
        if task is None:
            refused.update(dict.fromkeys(numbers, _reason(verdict)))
        else:
            blocks.append((numbers, block))
    return blocks


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


def _block(draft: Draft) -> str:
    """Returns the seed as text. Raises ValueError if the program cannot be written as one."""
    try:
        return write_block(draft)
    except ValueError:
        # Written anew, a program has each of its texts in one line.
        return write_block(replace(draft, program=normalise(draft.program)))


def _reason(verdict: Verdict) -> str:
    return f"{verdict.status}: {verdict.detail}" if verdict.detail else verdict.status
