"""The kinds of tasks by name: those of the languages in this folder, and those that a plugin has registered.

Each package in this folder is a language. Its `KINDS` are its kinds of tasks.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterable, Sequence
from typing import cast

from redqueen import plugins
from redqueen.kinds.kind import (
    Answer,
    Block,
    InputCounts,
    Question,
    QuestionError,
    TaskKind,
    Trial,
    attempt_verdict,
    fence,
    validation,
)
from redqueen.kinds.language import Half, Language, SeedError, Words
from redqueen.plugins import PluginError
from redqueen.records import Task

__all__ = [
    "BUILT_IN",
    "Answer",
    "Block",
    "Half",
    "InputCounts",
    "Language",
    "Question",
    "QuestionError",
    "SeedError",
    "TaskKind",
    "Trial",
    "Words",
    "attempt_verdict",
    "fence",
    "find",
    "find_or_plain",
    "languages",
    "names",
    "names_of_languages",
    "task_on",
    "validation",
]


def _of_folder() -> dict[str, TaskKind]:
    """Returns the kinds of the languages in this folder."""
    kinds: dict[str, TaskKind] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            package = importlib.import_module(f"{__name__}.{module.name}")
            kinds |= {kind.name: kind for kind in cast("Sequence[TaskKind]", package.KINDS)}
    return kinds


_built_in = _of_folder()
BUILT_IN = tuple(_built_in)
"""The names of the project's own kinds."""


def names() -> tuple[str, ...]:
    """Returns the names of all kinds: the project's own, then those of plugins."""
    return (*BUILT_IN, *plugins.names("kind"))


def find(name: str) -> TaskKind:
    """Returns the kind called `name`; a language's name stands for its programs, which are of no kind yet.

    Raises PluginError if there is none.
    """
    if name in _built_in:
        return _built_in[name]
    for language in languages(names()):
        if language.name == name:
            return TaskKind(name, language)
    return plugins.find("kind", name)


def find_or_plain(name: str) -> TaskKind:
    """Returns the kind called `name`; for a kind whose plugin is not loaded, one that shows program and pairs."""
    try:
        return find(name)
    except PluginError:
        return TaskKind(name, _built_in[BUILT_IN[0]].language)


def task_on(whole: Task, name: str, rng: random.Random | None = None) -> Task | None:
    """Returns a task of the kind called `name` on a program with all its inputs (`TaskKind.of_program`).

    None if the kind makes no task of it, or is of another language.
    """
    kind = find(name)
    return kind.of_program(whole, rng) if kind.language.name == find(whole.kind).language.name else None


def languages(kinds: Iterable[str]) -> list[Language]:
    """Returns the languages of these kinds, in the order of the kinds."""
    by_name: dict[str, Language] = {}
    for name in kinds:
        language = (_built_in[name] if name in _built_in else cast(TaskKind, plugins.find("kind", name))).language
        by_name.setdefault(language.name, language)
    return list(by_name.values())


def names_of_languages(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of all kinds of the languages of these kinds."""
    wanted = {language.name for language in languages(kinds)}
    return tuple(name for name in names() if find(name).language.name in wanted)
