"""Tasks as a person writes them, and what `redqueen ask` is asked: checked before anything slow is imported."""

# No import here may load torch: a question that cannot be asked is refused at once (see `redqueen.cli.app`).

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.records import Draft, Kind, Task
from redqueen.store.allowed import Permissions, playable
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import TaskRow
from redqueen.store.directory import RunDirectory
from redqueen.store.lineage import kept_step
from redqueen.tasks.kinds import (
    Question,
    QuestionError,
    TaskKind,
    find,
    find_or_plain,
    languages,
    names,
    names_of_languages,
)

# Tasks as a person writes them. `redqueen ask` reads this text, and `redqueen show` writes it.
#
# deduction                      abduction                      induction
# def f(x):                      def f(x):                      # double the number
#     return x * 2                   return x * 2               f(1) == 2
# f(4) == ?                      f(?) == 8                      f(3) == 6

__all__ = ["Question", "QuestionError", "read_question", "write_question"]

_HELP = (
    "end a program with a line `f(4) == ?` or `f(?) == 8`, or write examples `f(1) == 2`, one a line, below a line "
    "`# what to do`"
)


def read_question(text: str, first: Iterable[Kind] = ()) -> Question:
    """Reads a question of any kind, and of the kinds `first` where several can be meant.

    Raises QuestionError if the text is none.
    """
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise QuestionError(f"nothing is asked: {_HELP}")
    for name in dict.fromkeys([*first, *names()]):
        question = find(name).read_question(lines)
        if question is not None:
            return question
    raise QuestionError(f"cannot read '{_unreadable(lines)}' as a question: {_HELP}")


def write_question(task: Task) -> str:
    """Returns the text that asks for what `task` asks."""
    return find_or_plain(task.kind).write_question(task)


def _unreadable(lines: list[str]) -> str:
    """Returns the first line that is neither a comment nor an example in any language."""
    for line in lines:
        readable = any(
            line.startswith(language.comment("").strip()) or language.read_equation(line)
            for language in languages(names())
        )
        if line and not readable:
            return line
    return lines[-1]


BASE = "base"
"""The name of the base without an adapter."""
SEED = "seed-"
"""What the id of a seed task begins with."""
_FILE = re.compile(r"[^\s()#]+\.[A-Za-z]\w*")


def checked_member(run: Path, name: str, step: int | None, allowed: Permissions) -> RunDirectory:
    """Returns the run's directory.

    Raises RunError if there is no such run or member, or no checkpoint that has it, UserError for a base's step.
    """
    directory = RunDirectory(run)
    # A kind of the run's own modules may read the question.
    playable(directory, allowed)
    if name == BASE:
        if step is not None:
            raise UserError("the base is the same at every step: leave --step out")
    else:
        kept_step(directory, name, step)
    return directory


def asked_lines(directory: RunDirectory, question: Sequence[str]) -> list[str]:
    """Returns the lines of a question, or the id of a task. Raises UserError if nothing can be read."""
    if len(question) == 1 and question[0].startswith(SEED):
        seed_of(question[0], directory.config().game)
        return list(question)
    if len(question) == 1 and task_of_run(directory, question[0]):
        return list(question)
    text = _text(question)
    read_question(text, names_of_languages(directory.config().game.kinds))
    return text.split("\n")


def seed_of(word: str, game: GameConfig) -> tuple[int, TaskKind, Draft]:
    """Returns number, kind and draft of the seed task `seed-12-KIND`; without a kind it is of the run's first.

    Raises UserError if there is none.
    """
    number, _, name = word.removeprefix(SEED).partition("-")
    kind = find(name if name in names() else game.kinds[0])
    drafts = kind.language.seeds(game.seeds)
    if not number.isdigit() or int(number) >= len(drafts) or name not in ("", *names()):
        last = names_of_languages([kind.name])[-1]
        raise UserError(f"no seed task '{word}': choose seed-0 to seed-{len(drafts) - 1}, or e.g. seed-1-{last}")
    return int(number), kind, drafts[int(number)]


def task_of_run(directory: RunDirectory, word: str) -> Task | None:
    """Returns the task of the run that has this id, as `redqueen show` prints it; None if there is none."""
    with ArchiveReader(directory.archive) as archive:
        row = archive.one(TaskRow, word)
    return None if row is None else row.task()


def _text(question: Sequence[str]) -> str:
    """Returns the text of a question: standard input, a file, or the arguments, each a line. Raises UserError."""
    if list(question) == ["-"]:
        try:
            return sys.stdin.read().removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise UserError(f"cannot read standard input: {error}") from error
    if len(question) > 1 or "\n" in question[0]:
        return "\n".join(question)
    file = Path(question[0])
    try:
        is_file = file.is_file()
    # The text of a question may be too long for a path, or have characters that no path has.
    except (OSError, ValueError):
        is_file = False
    if is_file:
        try:
            return file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {file}: {error}") from error
    if _FILE.fullmatch(question[0]):
        raise UserError(f"there is no file {file}, and no task of this id")
    return question[0]
