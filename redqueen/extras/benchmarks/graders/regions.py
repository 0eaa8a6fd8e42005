r"""Intervals and other sets of numbers, however they are written: $(2, \infty)$, $x > 2$, $\{x \mid x > 2\}$."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import sympy

from redqueen.extras.benchmarks.graders.structure import AND, OR, enclosed, group, is_name, relation, split, such_that
from redqueen.extras.benchmarks.graders.values import value

_OPERATORS = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])")
_NUMBERS = re.compile(r"\\mathbb\s*\{?([RZNQC])\}?")
_SETS = {"R": sympy.S.Reals, "Z": sympy.S.Integers, "N": sympy.S.Naturals, "Q": sympy.S.Rationals}
_COMPARED: dict[str, Any] = {
    "<": sympy.StrictLessThan,
    ">": sympy.StrictGreaterThan,
    r"\le": sympy.LessThan,
    r"\ge": sympy.GreaterThan,
    r"\ne": sympy.Ne,
    "=": sympy.Eq,
}


def region(text: str) -> Any:
    """Returns the set of real numbers that a text stands for; None if it stands for none."""
    if (condition := such_that(text)) is not None:
        return region(condition)
    alternatives, _ = split(text, OR)
    if len(alternatives) > 1:
        return _joined([region(part) for part in alternatives], sympy.Union)
    if relation(text) is not None:
        return _conditions(text)
    return _operations(text)


def _joined(parts: list[Any], join: Any) -> Any:
    return None if None in parts else join(*parts)


def _conditions(text: str) -> Any:
    r"""Returns what $x > 2$, $1 < x \le 3$, $x \in A$ and several of them with commas stand for."""
    conditions, separators = split(text, AND)
    parts = [_condition(part) for part in conditions if part]
    if None in parts:
        return None
    both = sympy.Intersection(*parts)
    # Whoever writes x < 2, x > 3 means either.
    listed = all(separator.strip() in (",", ";") for separator in separators)
    return sympy.Union(*parts) if listed and both.is_empty else both


def _condition(text: str) -> Any:
    found = relation(text)
    if found is None:
        return None
    sides, signs = found
    if signs == [r"\in"]:
        return region(sides[1]) if is_name(sides[0]) else None
    if not set(signs) <= _COMPARED.keys():
        return None
    values = [value(side) for side in sides]
    if None in values:
        return None
    parts = [_solved(one, sign, other) for one, sign, other in zip(values, signs, values[1:], strict=False)]
    return None if None in parts else sympy.Intersection(*parts)


def _solved(one: Any, sign: str, other: Any) -> Any:
    """Returns the numbers that a comparison holds for; None if it is not about one letter."""
    letters = one.free_symbols | other.free_symbols
    if len(letters) != 1:
        return None
    letter = letters.pop()
    real = sympy.Symbol("x", real=True)
    try:
        return _COMPARED[sign](one.subs(letter, real).doit(), other.subs(letter, real).doit()).as_set()
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return None


def _operations(text: str) -> Any:
    parts, signs = split(text, _OPERATORS)
    sets = [_atom(part) for part in parts]
    if None in sets:
        return None

    def apply(done: Any, step: tuple[str, Any]) -> Any:
        sign, right = step
        operator = {r"\cup": sympy.Union, r"\cap": sympy.Intersection}.get(sign.strip(), sympy.Complement)
        return operator(done, right)

    return reduce(apply, zip(signs, sets[1:], strict=True), sets[0])


def _atom(text: str) -> Any:
    numbers = _NUMBERS.fullmatch(text)
    if numbers is not None:
        return _SETS.get(numbers[1])
    if re.fullmatch(r"\\emptyset|\\\{\s*\\\}", text):
        return sympy.S.EmptySet
    items = group(text)
    if items is None:
        around = enclosed(text)
        return region(around[1]) if around is not None and around[0] == "(" else None
    values = [value(item) for item in items.items]
    if any(number is None or not getattr(number, "is_extended_real", False) for number in values):
        return None
    if items.opening == "\\{":
        return sympy.FiniteSet(*[number.doit() for number in values])
    if not items.pair:
        return None
    start, end = (number.doit() for number in values)
    # A point such as (3, 2) is no interval.
    if (start < end) != True:  # noqa: E712
        return None
    return sympy.Interval(start, end, left_open=items.opening == "(", right_open=items.closing == ")")
