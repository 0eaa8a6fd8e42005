"""The kinds of tasks by name: those of Python and of the extras' languages, and those that a plugin has registered.

A language is imported when one of its kinds is asked for. One with more names than a list can hold makes its kinds of
their names; its recipes stand among the others.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import cast

from redqueen import extras, plugins
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
from redqueen.tasks.kinds.work import Run, WorkedText, Workings

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
    "WorkedText",
    "Workings",
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
_HERE = {**dict.fromkeys(("code_o", "code_i", "code_f"), FIRST), "code_t": "tested"}
BUILT_IN = (*_HERE, *extras.names("kind"))
"""The names of the project's own kinds: those of Python, and then of the languages of extras."""


def names() -> tuple[str, ...]:
    """Returns the names of all kinds: the project's own, then those of plugins."""
    return (*BUILT_IN, *plugins.names("kind"))


@cache
def _made(name: str) -> TaskKind | None:
    """Returns the kind that a language makes of a name."""
    maker = name.partition(":")[0]
    return extras.find("source", maker)(name) if maker in extras.OFFERS["source"] else None


def is_made(name: str) -> bool:
    """Returns whether a language makes a kind of this name."""
    return _made(name) is not None


def is_kind(name: str) -> bool:
    """Returns whether there is a kind of this name."""
    return name in names() or is_made(name)


@cache
def _own(name: str) -> TaskKind | None:
    """Returns one of the project's own kinds. Raises MissingExtraError if its language is not here."""
    # Imported when it is asked for: Python's kinds are made of the modules in this folder.
    if name in _HERE:
        folder = importlib.import_module(f"redqueen.tasks.{_HERE[name]}")
        return next(kind for kind in cast("Sequence[TaskKind]", folder.KINDS) if kind.name == name)
    if name in extras.OFFERS["kind"]:
        return next(kind for kind in cast("Sequence[TaskKind]", extras.find("kind", name)) if kind.name == name)
    return _made(name)


def _known(name: str) -> TaskKind:
    return _own(name) or plugins.find("kind", name)


def find(name: str) -> TaskKind:
    """Returns the kind called `name`; a language's name stands for its programs, which are of no kind yet.

    Raises PluginError if there is none.
    """
    own = _own(name)
    if own is not None:
        return own
    # Languages are imported in turn, Python first.
    for kind in names():
        language = _known(kind).language
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

    None if the kind makes no task of it, is of another language, or hides examples and has fewer than `least` inputs.
    """
    kind = find(name)
    if kind.language.name != find(whole.kind).language.name:
        return None
    task = kind.of_program(whole, rng)
    too_few = kind.shows_examples and not kind.few_pairs
    return None if task is None or (too_few and len(task.pairs) < least) else task


def held_out_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns the kinds in which students of these kinds are tested on held-out programs, each once."""
    return tuple(dict.fromkeys(find(kind).held_out_as for kind in kinds))


def recipes_of_languages() -> list[Recipe]:
    """Returns the recipes that come with the languages of extras."""
    found = (cast("Sequence[Recipe]", extras.find("recipe", name)) for name in extras.names("recipe"))
    return [recipe for recipes in found for recipe in recipes]


def languages(kinds: Iterable[str]) -> list[Language]:
    """Returns the languages of these kinds, in the order of the kinds."""
    by_name: dict[str, Language] = {}
    for name in kinds:
        language = _known(name).language
        by_name.setdefault(language.name, language)
    return list(by_name.values())


def names_of_languages(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of all kinds of the languages of these kinds."""
    chosen = tuple(kinds)
    wanted = {language.name for language in languages(chosen)}
    listed = (name for name in names() if find(name).language.name in wanted)
    return tuple(dict.fromkeys((*listed, *chosen)))
