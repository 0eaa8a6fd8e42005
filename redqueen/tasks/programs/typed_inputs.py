"""Fixed inputs for a program, by the types that it takes: every program of a signature is called on the same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from redqueen.base import streams
from redqueen.tasks.programs.signatures import Type, Union, text_of_union

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
