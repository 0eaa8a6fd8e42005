"""The kinds of tasks by name: those of the languages in this folder, and those that a plugin has registered.

Each package in this folder is a language. Its `KINDS` are its kinds of tasks; its function `made_kind`, if it has one,
makes kinds whose names are too many for a list; its `RECIPES`, if it has some, stand among the recipes.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import cast

from redqueen import plugins
from redqueen.plugins import PluginError
from redqueen.records import Task
from redqueen.tasks.kinds.kind import (
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
from redqueen.tasks.kinds.language import Half, Language, Recipe, SeedError, Words
from redqueen.tasks.kinds.work import Run, Workings, Written

__all__ = [
    "BUILT_IN",
    "Answer",
    "Block",
    "Half",
    "InputCounts",
    "Language",
    "Question",
    "QuestionError",
    "Recipe",
    "Run",
    "SeedError",
    "TaskKind",
    "Trial",
    "Words",
    "Workings",
    "Written",
    "attempt_verdict",
    "fence",
    "find",
    "find_or_plain",
    "held_out_kinds",
    "is_kind",
    "is_made",
    "languages",
    "names",
    "names_of_languages",
    "recipes_of_languages",
    "task_on",
    "validation",
]


FIRST = "python"
"""The language of the paper, and of what says nothing of its language. Its kinds come first."""
_folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
_folders.sort(key=lambda name: (name != FIRST, name))
_packages = [importlib.import_module(f"{__name__}.{name}") for name in _folders]
_built_in = {kind.name: kind for package in _packages for kind in cast("Sequence[TaskKind]", package.KINDS)}
_makers = [
    cast("Callable[[str], TaskKind | None]", package.made_kind)
    for package in _packages
    if hasattr(package, "made_kind")
]
BUILT_IN = tuple(_built_in)
"""The names of the project's own kinds."""


def names() -> tuple[str, ...]:
    """Returns the names of all kinds: the project's own, then those of plugins."""
    return (*BUILT_IN, *plugins.names("kind"))


@cache
def _made(name: str) -> TaskKind | None:
    """Returns the kind that a language in this folder makes of a name."""
    kinds = (make(name) for make in _makers)
    return next((kind for kind in kinds if kind is not None), None)


def is_made(name: str) -> bool:
    """Returns whether a language in this folder makes a kind of this name."""
    return _made(name) is not None


def is_kind(name: str) -> bool:
    """Returns whether there is a kind of this name."""
    return name in names() or is_made(name)


def _own(name: str) -> TaskKind | None:
    return _built_in.get(name) or _made(name)


def find(name: str) -> TaskKind:
    """Returns the kind called `name`; a language's name stands for its programs, which are of no kind yet.

    Raises PluginError if there is none.
    """
    own = _own(name)
    if own is not None:
        return own
    for language in languages(names()):
        if language.name == name:
            return TaskKind(name, language)
    return plugins.find("kind", name)


def find_or_plain(name: str) -> TaskKind:
    """Returns the kind called `name`; for a kind whose plugin is not loaded, one that shows program and pairs."""
    try:
        return find(name)
    except PluginError:
        return TaskKind(name, find(FIRST).language)


def task_on(whole: Task, name: str, rng: random.Random | None = None, least: int = 2) -> Task | None:
    """Returns a task of the kind called `name` on a program with all its inputs (`TaskKind.of_program`).

    None if the kind makes no task of it, is of another language, or shows examples and has fewer than `least` inputs.
    """
    kind = find(name)
    if kind.language.name != find(whole.kind).language.name:
        return None
    task = kind.of_program(whole, rng)
    return None if task is None or (kind.shows_examples and len(task.pairs) < least) else task


def held_out_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns the kinds in which students of these kinds are tested on held-out programs, each once."""
    return tuple(dict.fromkeys(find(kind).held_out_as for kind in kinds))


def recipes_of_languages() -> list[Recipe]:
    """Returns the recipes that come with the languages in this folder."""
    return [recipe for package in _packages for recipe in cast("Sequence[Recipe]", getattr(package, "RECIPES", ()))]


def languages(kinds: Iterable[str]) -> list[Language]:
    """Returns the languages of these kinds, in the order of the kinds."""
    by_name: dict[str, Language] = {}
    for name in kinds:
        language = (_own(name) or cast(TaskKind, plugins.find("kind", name))).language
        by_name.setdefault(language.name, language)
    return list(by_name.values())


def names_of_languages(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of all kinds of the languages of these kinds."""
    chosen = tuple(kinds)
    wanted = {language.name for language in languages(chosen)}
    listed = (name for name in names() if find(name).language.name in wanted)
    return tuple(dict.fromkeys((*listed, *chosen)))
