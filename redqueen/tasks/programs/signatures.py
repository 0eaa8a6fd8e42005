"""The types of values, from the values themselves (`list[int], str -> bool`), and fixed inputs of those types.

Every program of a signature is called on the same inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.base import streams

_MOST_PLACES = 4
"""A tuple of up to so many items has a type for each place, a longer one is a list that cannot change."""
_DEPTH = 3
"""How many containers inside one another are told apart."""

Union = tuple["Type", ...]
"""Alternatives, in the order of their names; empty where there was no value."""


@dataclass(frozen=True, slots=True)
class Type:
    """One type, e.g. `Type("list", ((Type("int"),),))`; `str()` gives `list[int]`."""

    name: str
    parts: tuple[Union, ...] = ()
    """What a container holds: one union for its items; for a dict keys and values; for a short tuple one a place."""

    def __str__(self) -> str:
        """Returns the type as annotations write it."""
        return f"{self.name}[{', '.join(map(text_of_union, self.parts))}]" if self.parts else self.name


def text_of_union(union: Union) -> str:
    """Returns `int|str` for the union of both."""
    return "|".join(map(str, union))


def types_of(values: Iterable[object], depth: int = _DEPTH) -> Union:
    """Returns the types of values; containers of one type are merged, so that `[1], ["a"]` is `list[int|str]`."""
    # By the name and, for a short tuple, by its length.
    alike: dict[tuple[str, int], list[Any]] = {}
    for value in values:
        length = len(value) if isinstance(value, tuple) and 0 < len(value) <= _MOST_PLACES else 0
        alike.setdefault((type(value).__name__, length), []).append(value)
    types = [_merged(name, length, group, depth) for (name, length), group in alike.items()]
    return tuple(sorted(types, key=str))


def _merged(name: str, length: int, values: Sequence[Any], depth: int) -> Type:
    """The type of values of one Python type."""
    if name == "NoneType":
        return Type("None")
    if not depth or not isinstance(values[0], list | tuple | set | frozenset | dict):
        return Type(name)
    if name == "dict":
        keys = types_of((key for value in values for key in value), depth - 1)
        return Type(name, (keys, types_of((item for value in values for item in value.values()), depth - 1)))
    if length:
        return Type(name, tuple(types_of((value[index] for value in values), depth - 1) for index in range(length)))
    items = types_of((item for value in values for item in value), depth - 1)
    return Type("tuple..." if name == "tuple" else name, (items,))


def arguments_of(calls: Sequence[Sequence[object]]) -> tuple[Union, ...]:
    """Returns the types of each argument over several calls with as many arguments as the first."""
    alike = [call for call in calls if len(call) == len(calls[0])]
    return tuple(types_of(call[index] for call in alike) for index in range(len(calls[0])))


def signature(calls: Sequence[Sequence[object]], results: Sequence[object]) -> str:
    """Returns the types of a task's inputs and outputs.

    >>> signature([([1, 2], "a")], [True])
    'list[int], str -> bool'
    """
    return f"{', '.join(map(text_of_union, arguments_of(calls)))} -> {text_of_union(types_of(results))}"


def size_of(value: object) -> int:
    """Returns how much a value holds: 1 for a number, a text's length, and the sizes in a container; at least 1."""
    if isinstance(value, str | bytes):
        return max(1, len(value))
    if isinstance(value, dict):
        items = [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        items = list(value)
    else:
        return 1
    return max(1, sum(map(size_of, items)))


COUNT = 20
"""How many different inputs are drawn; there may be fewer, e.g. of one bool."""

_LETTERS = "aabbcdeABC 0123"


def typed_inputs(arguments: Sequence[Union]) -> list[tuple[object, ...]]:
    """Returns up to `COUNT` different argument lists of these types, the same ones for equal types in every run."""
    rng = streams.python("typed inputs", ", ".join(map(text_of_union, arguments)))
    # Some types have few values. The draws that repeat one are dropped.
    drawn: dict[str, tuple[object, ...]] = {}
    for _ in range(3 * COUNT):
        call = tuple(_value(union, rng) for union in arguments)
        drawn.setdefault(_spelling(call), call)
        if len(drawn) == COUNT:
            break
    return list(drawn.values())


def _spelling(value: object) -> str:
    """A text that equal values share; that of a set, by `repr`, would differ from process to process."""
    if isinstance(value, set | frozenset):
        return f"{{{sorted(map(_spelling, value))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{list(map(_spelling, value))}"
    if isinstance(value, dict):
        return f"{[(_spelling(key), _spelling(item)) for key, item in value.items()]}"
    return repr(value)


def _value(union: Union, rng: random.Random) -> object:
    # A container that was always empty says nothing about its items.
    kind = rng.choice(union) if union else Type("int")
    draw = _SCALARS.get(kind.name)
    if draw is not None:
        return draw(rng)
    if kind.name == "tuple" and kind.parts:
        return tuple(_value(part, rng) for part in kind.parts)
    parts = kind.parts or ((),)
    items = [_value(parts[0], rng) for _ in range(rng.randrange(7))]
    if kind.name == "dict":
        return {key: _value(parts[-1], rng) for key in _hashable(items)}
    if kind.name in ("set", "frozenset"):
        members = _hashable(items)
        return set(members) if kind.name == "set" else frozenset(members)
    return tuple(items) if kind.name.startswith("tuple") else items


def _hashable(items: Sequence[object]) -> list[object]:
    # Below the depth to which types are told apart, a key may be drawn as a list.
    return [item for item in items if not isinstance(item, list | dict | set)]


def _integer(rng: random.Random) -> int:
    # Small, so that few programs run for long; sometimes larger, so that a threshold is passed.
    return rng.randint(-5, 20) if rng.random() < 0.75 else rng.randint(-60, 120)


def _text(rng: random.Random) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(9)))


_SCALARS: Mapping[str, Callable[[random.Random], object]] = {
    "None": lambda _: None,
    "bool": lambda rng: rng.random() < 0.5,
    "int": _integer,
    "float": lambda rng: round(rng.uniform(-20, 20), 2),
    "complex": lambda rng: complex(_integer(rng), _integer(rng)),
    "str": _text,
    "bytes": lambda rng: _text(rng).encode(),
}
