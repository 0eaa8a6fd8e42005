"""The canonical form of an expression, and which expressions are reserved.

Two expressions are alike if one becomes the other by swapping `x` and `y`, by other constants, and by the order of the
operands of `+`, `*`, `max`, `min`, `==` and `!=`; `a < b` is `b > a`. The canonical form is the same for those.

There is no end to the reserved expressions: a rule says which are. It is a hash of the canonical form, so nobody can
write a list of them, and a generator makes as many as are needed (`redqueen.extras.expr.generated`).
"""

from __future__ import annotations

from functools import lru_cache

from redqueen.extras.expr.expressions import VARIABLES, Expression, parse, size_of
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
