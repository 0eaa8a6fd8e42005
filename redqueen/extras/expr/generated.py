"""Expressions that are made and not written: the seed programs, and the reserved ones, of each depth without end.

A rule says which expressions are reserved: a hash of the canonical form, so no list of them can be written. Two
expressions have one canonical form if one becomes the other by swapping `x` and `y`, by other constants, and by the
order of the operands of `+`, `*`, `max`, `min`, `==` and `!=`; `a < b` is `b > a`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import count, islice

from redqueen.base import streams
from redqueen.extras.expr.expressions import (
    COMPARISONS,
    OPERATORS,
    VARIABLES,
    Expression,
    parse,
    size_of,
    spell,
    value_of,
)
from redqueen.records import Draft
from redqueen.tasks.kinds.interpreted import Fault
from redqueen.tasks.kinds.language import Half
from redqueen.tasks.programs.normal_form import hashed

RESERVED_SHARE = 16
"""One canonical form in so many is reserved."""
LEAST_DEPTH = 2
"""Shallower ones never are: there are so few that a model must be able to learn from each."""
_UNORDERED = ("+", "*", "max", "min", "==", "!=")
_MIRRORED = {">": "<", ">=": "<="}


def canonical_form(expression: Expression) -> str:
    """Returns the canonical form, e.g. `(+ (max a b) n)` of `3 + max(y, x)`."""
    # Which variable is called a is tried both ways: no rule about where one comes first survives the sorting.
    one, other = VARIABLES
    return min(_form(expression, {one: "a", other: "b"}), _form(expression, {one: "b", other: "a"}))


def _form(expression: Expression, names: dict[str, str]) -> str:
    if not expression.operands:
        return names.get(expression.name, "n")
    operator = expression.name
    operands = [_form(operand, names) for operand in expression.operands]
    if operator in _MIRRORED:
        operator = _MIRRORED[operator]
        operands.reverse()
    if operator in _UNORDERED:
        operands.sort()
    return f"({operator} {' '.join(operands)})"


@lru_cache(maxsize=8192)
def shape(program: str) -> str:
    """Returns a hash of the canonical form; a text that is no expression is identified by itself."""
    try:
        return hashed(canonical_form(parse(program)))
    except Fault:
        return hashed(program.strip())


@lru_cache(maxsize=8192)
def half_of(program: str) -> Half | None:
    """Returns the half whose reserved expressions include one similar to `program`, or None."""
    try:
        expression = parse(program)
    except Fault:
        return None
    if size_of(expression)[0] < LEAST_DEPTH:
        return None
    number = int(hashed(f"reserved {canonical_form(expression)}"), 16) % (2 * RESERVED_SHARE)
    return ("selection", "report")[number] if number < 2 else None


EXAMPLES = 8
"""The inputs of a seed program and of a reserved one."""
SEEDS = {1: 128, 2: 256, 3: 128}
"""How many seed programs there are of each depth."""
DRAWN = {1: 5, 2: 4, 3: 1}
"""How often lessons draw an expression of each depth."""
RESERVED_DEPTHS = (2, 3, 4)
RESERVED_EACH = 40
"""How many reserved programs of each depth stand in each half where a list of them is asked for."""
_ORDINARY = tuple(name for name in OPERATORS if name not in COMPARISONS)
_WEIGHTS = {"+": 3, "-": 3, "*": 2, "max": 2, "min": 2, "if": 2}
_INPUTS = range(10)
_TRIES = 200
_FEW_VALUES = 3


def drawn(rng: random.Random, depth: int) -> Expression:
    """Returns a random expression of a depth."""
    if depth == 0:
        return Expression(rng.choice(VARIABLES) if rng.random() < 0.7 else str(rng.randint(1, 9)))
    # A comparison and its `if` are two levels.
    names = [name for name in _ORDINARY if name != "if" or depth > 1]
    (operator,) = rng.choices(names, [_WEIGHTS.get(name, 1) for name in names])
    if operator == "if":
        inner = [depth - 1, *(_lower(rng, depth) for _ in range(2))]
        rng.shuffle(inner)
        sides = [inner[0] - 1, _lower(rng, max(inner[0], 1))] if inner[0] else [0, 0]
        rng.shuffle(sides)
        condition = Expression(rng.choice(COMPARISONS), tuple(drawn(rng, side) for side in sides))
        return Expression("if", (condition, *(drawn(rng, level) for level in inner[1:])))
    if operator in ("neg", "abs"):
        return Expression(operator, (drawn(rng, depth - 1),))
    levels = [depth - 1, _lower(rng, depth)]
    rng.shuffle(levels)
    return Expression(operator, tuple(drawn(rng, level) for level in levels))


def draft(rng: random.Random) -> Draft:
    """Returns a random expression as shallow as the seeds, none of the reserved ones, with inputs."""
    while True:
        (depth,) = rng.choices(list(DRAWN), list(DRAWN.values()))
        program = spell(drawn(rng, depth))
        inputs = examples(program, EXAMPLES)
        if len(inputs) == EXAMPLES and half_of(program) is None:
            return Draft(program, inputs)


def _lower(rng: random.Random, depth: int) -> int:
    """Returns a depth below another one, most often 0: an expression whose branches were all deep would be long."""
    return 0 if rng.random() < 0.6 else rng.randrange(depth)


def examples(program: str, most: int) -> tuple[str, ...]:
    """Returns up to `most` different inputs for which an expression gives a value, decided by its spelling.

    There is none for a text that is no expression, and there are fewer for one that fails on nearly all inputs.
    """
    try:
        expression = parse(program)
    except Fault:
        return ()
    rng = streams.python("expr", "inputs", spell(expression))
    inputs: dict[str, None] = {}
    for _ in range(_TRIES):
        if len(inputs) == most:
            break
        x, y = rng.choice(_INPUTS), rng.choice(_INPUTS)
        if _gives(expression, x, y) is not None:
            inputs[f"{x}, {y}"] = None
    return tuple(inputs)


def _gives(expression: Expression, x: int, y: int) -> int | None:
    try:
        return value_of(expression, x, y)
    except Fault:
        return None


def _is_plain(expression: Expression) -> bool:
    """Returns whether every operator has a variable below it, and no two equal operands."""
    operands = expression.operands
    if not operands:
        return True
    if operands[0] in operands[1:] or expression.name == operands[0].name == "neg":
        return False
    return _has_variable(expression) and all(map(_is_plain, operands))


def _has_variable(expression: Expression) -> bool:
    return expression.name in VARIABLES or any(map(_has_variable, expression.operands))


def _worthwhile(program: str) -> bool:
    """Returns whether an expression computes something, has examples enough, and not one value for most of them."""
    expression = parse(program)
    if not _is_plain(expression):
        return False
    inputs = examples(program, EXAMPLES)
    values = {_gives(expression, *map(int, given.split(", "))) for given in inputs}
    return len(inputs) == EXAMPLES and len(values) > _FEW_VALUES


def stream(depth: int, *name: str, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """Yields expressions of a depth without end, each of another shape, in the order that `name` decides.

    `wanted` says which ones, by nothing but their shape. It is asked first, since nearly none may be.
    """
    shapes: set[str] = set()
    for number in count():
        rng = streams.python("expr", "program", *name, depth, number)
        expression = drawn(rng, depth)
        program = spell(expression)
        try:
            # What is too large, and a depth that the reader sees otherwise, is left out.
            fits = size_of(parse(program))[0] == depth
        except Fault:
            continue
        if fits and wanted(program) and shape(program) not in shapes and _worthwhile(program):
            shapes.add(shape(program))
            yield program


def reserved_stream(half: Half, depth: int) -> Iterator[str]:
    """Yields the reserved expressions of a half and a depth, without end."""
    return stream(depth, "reserved", wanted=lambda program: half_of(program) == half)


@cache
def seeds() -> tuple[Draft, ...]:
    """Returns the seed programs, the shallow ones first. None of them is reserved."""
    drafts: list[Draft] = []
    for depth, wanted in SEEDS.items():
        allowed = stream(depth, "seed", wanted=lambda program: half_of(program) is None)
        # There are not so many shapes of depth 1.
        for program in islice(allowed, wanted) if depth > 1 else _shallow(wanted):
            drafts.append(Draft(program, examples(program, EXAMPLES)))
    return tuple(drafts)


def _shallow(wanted: int) -> list[str]:
    """Returns expressions of depth 1, which may be alike: there are few shapes."""
    programs: dict[str, None] = {}
    number = 0
    while len(programs) < wanted:
        program = spell(drawn(streams.python("expr", "program", "shallow", number), 1))
        number += 1
        if _worthwhile(program):
            programs[program] = None
    return list(programs)


@cache
def reserved(half: Half) -> tuple[Draft, ...]:
    """Returns the first reserved programs of a half, the depths in turn."""
    by_depth = [_reserved_of(depth)[half] for depth in RESERVED_DEPTHS]
    programs = [program for turn in zip(*by_depth, strict=True) for program in turn]
    return tuple(Draft(program, examples(program, EXAMPLES)) for program in programs)


@cache
def _reserved_of(depth: int) -> dict[Half, list[str]]:
    """Returns the first reserved programs of a depth by half, as `reserved_stream` gives them: one pass for both."""
    found: dict[Half, list[str]] = {"selection": [], "report": []}
    for program in stream(depth, "reserved", wanted=lambda program: half_of(program) is not None):
        half = half_of(program)
        if half is not None and len(found[half]) < RESERVED_EACH:
            found[half].append(program)
        if all(len(programs) == RESERVED_EACH for programs in found.values()):
            break
    return found
