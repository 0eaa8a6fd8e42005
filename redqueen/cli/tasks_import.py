"""`redqueen tasks import`: a person's tasks, checked by the sandbox, as a file that a run takes.

Programs with inputs become a seed file, which is text and can be edited. Prompts with tests and questions become a
tasks file. Neither goes into a run that is there: a run is a function of its configuration, which names the file.
"""

from __future__ import annotations

import json
from pathlib import Path

from redqueen.config import SandboxConfig
from redqueen.errors import UserError
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Task
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.dataset.files import PACKED, is_rows
from redqueen.store.dataset.forms import OwnTasks, load_own_tasks, seed_block
from redqueen.store.directory import RunDirectory, write_text
from redqueen.store.files import counted, quoted
from redqueen.tasks.kinds.induction import NO_MESSAGE
from redqueen.tasks.python import ABDUCTION, DEDUCTION, INDUCTION, PYTHON


def run_tasks_import(file: Path, out: Path, *, unsafe: bool) -> int:
    """Writes the tasks to `out`, and says what to do with them; returns the exit code, 1 if the machine lost a row.

    Raises UserError as `import_tasks` does, and for a run, or if `out` exists.
    """
    if RunDirectory(file).config_file.exists():
        raise UserError(
            f"{file} is a run: write its tasks with redqueen tasks export {quoted(file)} --out tasks.jsonl, then "
            "import that file"
        )
    if out.exists():
        raise UserError(f"{out} exists already: choose another name")
    # Before minutes of work.
    if out.suffix not in (".txt", ".jsonl"):
        raise UserError(f"{out}: what is imported is written as text: give a name in .txt for programs, else in .jsonl")
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: the folder {out.parent} does not exist")
    own, out = import_tasks(file, out, unsafe=unsafe)
    for line in _after_seeds(own, out) if _are_seeds(own) else _after_tasks(own, out):
        PlainConsole(soft_wrap=True).print(line)
    return 1 if own.machine_failed else 0


def imported_beside(file: Path) -> tuple[Path, Path]:
    """Returns the names beside a file that its programs, and its tasks, are imported to if no other name is given."""
    stem = file.name.removesuffix(PACKED if file.name.endswith(PACKED) else file.suffix)
    return file.with_name(f"{stem}.seeds.txt"), file.with_name(f"{stem}.tasks.jsonl")


def import_tasks(file: Path, out: Path | None, *, unsafe: bool) -> tuple[OwnTasks, Path]:
    """Writes a file's tasks to `out`, or beside it, and says what was found and refused; returns both.

    Raises UserError if the file cannot be read, if `out` cannot be written, or if no row is left.
    """
    with LocalVerifier(SandboxConfig(unsafe_no_isolation=unsafe)) as verifier:
        own = load_own_tasks(file, verifier)
    if not own.rows:
        raise UserError(f"{file} has no rows: write one JSON object a line")
    console = PlainConsole(soft_wrap=True)
    console.print(
        f"{file}: {counted(own.rows, 'row')}: {own.form.name}{f' (as {own.form.like})' if own.form.like else ''}"
    )
    for line in (*own.notes, *own.refusals):
        console.print(line)
    if not own.tasks:
        what = "a seed" if own.form.name == "programs with inputs" else "a task"
        raise UserError(f"{file}: no row of {own.rows} can be {what}, so nothing was written")
    seeds = _are_seeds(own)
    if out is None:
        out = imported_beside(file)[0 if seeds else 1]
    if not seeds and out.suffix != ".jsonl":
        raise UserError(f"{out}: tasks of the kind {own.tasks[0].kind} need a name that ends in .jsonl")
    if seeds and is_rows(out):
        # After minutes of work, and with a name that is right for other forms.
        out = out.with_suffix(".txt")
        console.print(f"programs with inputs become a file of seeds, which is text: it is {out}")
    try:
        write_text(out, _seed_file(own.tasks) if seeds else _tasks_file(own.tasks))
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    return own, out


def _are_seeds(own: OwnTasks) -> bool:
    return own.tasks[0].kind == PYTHON.name


def _seed_file(tasks: tuple[Task, ...]) -> str:
    return "\n\n".join(seed_block(task.draft) for task in tasks) + "\n"


def _tasks_file(tasks: tuple[Task, ...]) -> str:
    """Returns the tasks as rows that `game.tasks` reads, and `game.seeds` where they have programs."""
    lines: list[str] = []
    for task in tasks:
        inputs, outputs = [pair.input for pair in task.pairs], [pair.output for pair in task.pairs]
        row = {"id": task.id, "kind": task.kind, "message": task.message, "program": task.program}
        lines.append(json.dumps({**row, "inputs": inputs, "outputs": outputs}, ensure_ascii=False) + "\n")
    return "".join(lines)


def _after_seeds(own: OwnTasks, out: Path) -> list[str]:
    """Returns what is said of a seed file."""
    lines = [
        f"wrote {counted(len(own.tasks), 'seed program')} to {out}, from {own.taken} of {counted(own.rows, 'row')}: "
        "rows with the same program are one seed"
    ]
    silent = sum(task.message == NO_MESSAGE for task in own.tasks)
    if silent:
        lines.append(
            f"{silent} of them have no message, which {INDUCTION.name} tasks need: '{NO_MESSAGE}' stands there. With a "
            f"message in its place, {INDUCTION.name} can be played too"
        )
    # A task that only says "see the examples" teaches nothing, so the command that is offered leaves the kind out.
    kinds = f" game.kinds={DEDUCTION.name},{ABDUCTION.name}" if silent else ""
    return [*lines, f"train on them: redqueen train game.seeds={quoted(out)}{kinds}"]


def _after_tasks(own: OwnTasks, out: Path) -> list[str]:
    """Returns what is said of a tasks file."""
    kind = own.tasks[0].kind
    programs = sum(bool(task.program) for task in own.tasks)
    checked = f"; {programs} have a program that passes their tests" if kind == "code_t" else ""
    lines = [
        f"wrote {counted(len(own.tasks), 'task')} to {out}, from {own.taken} of {counted(own.rows, 'row')}{checked}",
        # The recipe is for answers of a line; a program or a worked answer is longer.
        f"students alone: redqueen train rlvr game.kinds={kind} game.tasks={quoted(out)} sampling.attempt_tokens=256",
    ]
    if kind == "code_t" and programs:
        lines.append(
            f"teachers vary them: redqueen train game.kinds={kind} game.seeds={quoted(out)} game.seed_lines=none"
        )
    return lines
