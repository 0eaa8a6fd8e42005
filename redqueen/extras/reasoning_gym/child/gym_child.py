"""Asks reasoning-gym inside the jail: loaded before the first fork, by the profile of `Generator`.

A child can open no file and import nothing new. So the files and modules that the library needs late are read here, by
making one item of each generator and scoring it. Child-side; needs reasoning-gym and nothing of this package.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.resources
import io
import pathlib
from typing import Any

_open = io.open
_kept: dict[str, bytes] = {}


def remembering_open(file: Any, mode: str = "r", *options: Any, **named: Any) -> Any:
    """Opens a file as `open` does; what was read once is kept and can be read again without a file."""
    if "b" in mode or not mode.startswith("r") or not isinstance(file, (str, pathlib.Path)):
        return _open(file, mode, *options, **named)
    path = str(file)
    if path not in _kept:
        with _open(path, "rb") as opened:
            _kept[path] = opened.read()
    encoding = named.get("encoding") or "utf-8"
    return io.TextIOWrapper(io.BytesIO(_kept[path]), encoding=encoding, newline=named.get("newline"))


builtins.open = io.open = remembering_open
# It asks the file system where a package lies, each time.
importlib.resources.files = functools.cache(importlib.resources.files)

reasoning_gym: Any = importlib.import_module("reasoning_gym")


def item_of(dataset: str, settings: dict[str, Any], item: int) -> tuple[Any, dict[str, Any]]:
    """Returns a generator and one of its items."""
    made = reasoning_gym.create_dataset(dataset, size=1, seed=item, **settings)
    return made, made[0]


def answer_of(dataset: str, settings: dict[str, Any], item: int, question: str) -> str:
    """Returns the recorded answer. Raises ValueError if the item asks another question, or its answer scores less."""
    made, entry = item_of(dataset, settings, item)
    if entry["question"] != question:
        raise ValueError("another question")
    answer = entry["answer"]
    if not isinstance(answer, str) or made.score_answer(answer, entry) != 1.0:
        raise ValueError("no text that scores 1")
    return answer


def score_of(dataset: str, settings: dict[str, Any], item: int, answer: str) -> float:
    """Returns the score of an answer, in [0, 1]."""
    made, entry = item_of(dataset, settings, item)
    return float(made.score_answer(answer, entry))


for _name in reasoning_gym.factory.DATASETS:
    # A generator that cannot be had without settings, or whose own answer fails, is none that a run can use.
    with contextlib.suppress(Exception):
        _made, _found = item_of(_name, {}, 0)
        _made.score_answer(_found["answer"], _found)
        _made.score_answer("1", _found)
