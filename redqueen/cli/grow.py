"""`redqueen grow`: what a file of one's own tasks holds, as settings of a run and as the first lines of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redqueen.cli.tasks_import import import_tasks, imported_beside
from redqueen.config import Config, EvalsConfig, GameConfig, PopulationConfig
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.method.planting import held_out_of, language_of_seeds
from redqueen.method.practice import posed_per_kind
from redqueen.method.seeds import seeds_of
from redqueen.method.task_bank import fingerprint_of, likeness_of
from redqueen.records import Task
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.dataset.files import fixed_tasks, is_exported, is_rows, read_rows
from redqueen.store.directory import RunDirectory
from redqueen.store.files import counted, quoted
from redqueen.tasks.kinds import find

SHORT = frozenset({"code_o", "code_i", "code_f"})
"""The kinds whose answers fit the recipe's limits. A whole program and a worked answer are longer."""


def grown(file: Path, overrides: Sequence[str], steps: int | None, model: str | None) -> Config:
    """Returns the recipe `grow` on a file: rows of tasks in any form, a run's folder, or seed programs.

    Rows as people publish them are imported first, into a file beside this one (docs/YOUR_TASKS.md). Raises UserError,
    which names the row or the line, if it cannot be read as one of these.
    """
    if not file.exists():
        raise UserError(f"{file} does not exist: give a file of tasks or programs (docs/YOUR_TASKS.md)")
    for word in overrides:
        key = word.partition("=")[0].strip().lstrip("-")
        if key in ("game.seeds", "game.tasks"):
            raise UserError(
                f"redqueen grow sets {key} to {file} itself: leave {key} out, or use redqueen train grow {word}"
            )
    if file.is_dir() and not is_exported(file) and not RunDirectory(file).config_file.exists():
        raise UserError(f"{file} is a folder, but not a run: give one file of tasks")
    # A wrong setting is told before minutes of work.
    configure(["grow", *overrides], steps, model)
    if not file.is_dir() and is_rows(file) and not _is_imported(file):
        file = _imported(file, unsafe="sandbox.unsafe_no_isolation=true" in overrides)
    own = [f"game.seeds={file}"]
    if file.is_dir() or is_rows(file):
        kinds = list(dict.fromkeys(task.kind for task in fixed_tasks(file)))
        own = [f"game.tasks={file}", f"game.kinds={','.join(kinds)}"]
        if not set(kinds) <= SHORT:
            own += ["sampling.attempt_tokens=256", "sampling.proposal_tokens=256"]
        if any(find(kind).generated for kind in kinds):
            # No teacher could say whether its own answer is right.
            own += ["population.teachers=0"]
    return configure(["grow", *own, *overrides], steps, model)


def _is_imported(file: Path) -> bool:
    """Returns whether the first row is one of `redqueen tasks export` or `redqueen tasks import`."""
    first = next(iter(read_rows(file)), None)
    return isinstance(first, dict) and {"kind", "program", "inputs", "outputs"} <= first.keys()


def _imported(file: Path, *, unsafe: bool) -> Path:
    """Returns the file that the rows are imported to, or were before."""
    for before in imported_beside(file):
        if not before.exists():
            continue
        if before.stat().st_mtime < file.stat().st_mtime:
            raise UserError(
                f"{file.name} is newer than {before}, which was imported from it: delete that to import {file.name} "
                f"again, or grow from it as it is: redqueen grow {quoted(before)}"
            )
        PlainConsole(soft_wrap=True).print(f"{before} is there already: delete it to import {file.name} again")
        return before
    _, out = import_tasks(file, None, unsafe=unsafe)
    PlainConsole(soft_wrap=True).print(f"imported to {out}")
    return out


def introduce_own(game: GameConfig, evals: EvalsConfig, population: PopulationConfig, steps: int) -> None:
    """Prints what was found, what is held out, what a step has, and what is compared. Raises UserError."""
    console = PlainConsole(soft_wrap=True)
    source, tasks = _own_tasks(game)
    programs = {(likeness_of(task), fingerprint_of(task)) for task in tasks}
    alike = {likeness for likeness, _ in programs}
    noun = "different question" if all(find(kind).generated for kind in game.kinds) else "different program"
    held = held_out_of(programs, evals.held_out_share)
    held_out = sum(likeness in held for likeness, _ in programs)
    console.print(
        f"found: {counted(len(programs), noun)} in {source}, {len(alike)} up to names and constants; "
        f"they are posed as {', '.join(game.kinds)}"
    )
    held_out_line = f"held out: {held_out} of them; nothing is trained on these or on what is similar (evals.own)"
    if not held_out:
        held_out_line = (
            "held out: none, so nothing is measured on your own tasks. They are too few, or all similar up to names "
            "and constants, and similar ones stay together: give at least ten different ones"
        )
    console.print(held_out_line)
    own = posed_per_kind(game, population) * len(game.kinds)
    posed = f"{own} of your tasks"
    if population.teachers:
        posed += f" and up to {game.teacher_proposals * len(game.kinds)} that a teacher makes of them"
    console.print(
        f"a step: each student is posed {posed}, with {game.attempts} attempts each; {counted(steps, 'step')}. "
        "The time left is shown after the first step"
    )
    solved = "your held-out tasks" if held_out else "the reserved tasks"
    compared = f"compared: what the students solve of {solved}, with what the start solves"
    if population.teachers:
        compared += (
            ". To see what teachers add, compare with a run without them: redqueen train grow "
            f"game.{'tasks' if game.tasks else 'seeds'}={quoted(source)} population.teachers=0"
        )
    console.print(compared)


def _own_tasks(game: GameConfig) -> tuple[str, list[Task]]:
    """Returns the name of the user's file, and what it holds, without judging it."""
    if game.tasks is not None:
        return game.tasks, [task for task in fixed_tasks(Path(game.tasks)) if task.kind in game.kinds]
    language = language_of_seeds(game)
    return str(game.seeds), [
        Task(id="", kind=language.name, author="", step=0, program=draft.program, pairs=()) for draft in seeds_of(game)
    ]
