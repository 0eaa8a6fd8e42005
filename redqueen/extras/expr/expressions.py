"""Expressions over two small integers: how a text becomes one, how it is written, and what it gives.

An expression is written as in Python and means the same, on integers of a bounded size:

    max(x, y) % 3 if x < y else abs(x - 2)

Work is bounded by the length of the text, values by `LARGEST`. Only the branch that is taken is computed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from redqueen.tasks.kinds.interpreted import Fault

LARGEST = 9999
"""The largest absolute value of a number anywhere in a computation."""
LARGEST_CONSTANT = 99
LARGEST_INPUT = 99
"""The largest absolute value of an input."""
MOST_CHARACTERS = 200
DEEPEST = 8
"""The most operators on the way from the root of an expression to a leaf."""
MOST_OPERATORS = 24

VARIABLES = ("x", "y")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
FUNCTIONS = ("max", "min", "abs")
OPERATORS = ("+", "-", "*", "//", "%", "max", "min", "neg", "abs", "if", *COMPARISONS)
"""All operators. A comparison is the condition of an `if` and nothing else, so every value is an integer."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A constant, a variable, or an operator with its operands.

    `x + 3` is `Expression("+", (Expression("x"), Expression("3")))`. The operands of `if` are the condition, the value
    if it holds, and the value if it does not.
    """

    name: str
    operands: tuple[Expression, ...] = ()


_MOST_BRACKETS = 3 * DEEPEST
_TOKEN = re.compile(r" *([0-9]+|[A-Za-z_]\w*|//|<=|>=|==|!=|[-+*%<>(),])")


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Returns the expression of a text. Raises Fault, which says why, if it is none or too large."""
    if len(text) > MOST_CHARACTERS:
        raise Fault("oversize", f"an expression has at most {MOST_CHARACTERS} characters, not {len(text)}")
    expression = _Reader(_tokens(text.strip(" "))).whole()
    depth, operators, _ = size_of(expression)
    if depth > DEEPEST:
        raise Fault("oversize", f"an expression is at most {DEEPEST} operators deep, not {depth}")
    if operators > MOST_OPERATORS:
        raise Fault("oversize", f"an expression has at most {MOST_OPERATORS} operators, not {operators}")
    return expression


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    index = 0
    while index < len(text):
        match = _TOKEN.match(text, index)
        if match is None:
            raise Fault("malformed", f"no expression: {text[index:].strip()[:12]!r} is no part of one")
        tokens.append(match[1])
        index = match.end()
    return tokens


class _Reader:
    """Reads tokens by Python's rules of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.index = 0
        self.open = 0

    def whole(self) -> Expression:
        """Reads all tokens as one expression."""
        expression = self.choice()
        if self.peek():
            raise Fault("malformed", f"no expression: {self.peek()!r} after its end")
        return expression

    def peek(self) -> str:
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.index += 1
        return token

    def expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise Fault("malformed", f"no expression: {wanted!r} is expected, not {token or 'its end'!r}")

    def choice(self) -> Expression:
        value = self.sum()
        if self.peek() != "if":
            return value
        self.take()
        left = self.sum()
        comparison = self.take()
        if comparison not in COMPARISONS:
            raise Fault("malformed", f"no expression: a comparison is expected, not {comparison or 'its end'!r}")
        condition = Expression(comparison, (left, self.sum()))
        self.expect("else")
        return Expression("if", (condition, value, self.choice()))

    def chain(self, part: Callable[[], Expression], *operators: str) -> Expression:
        value = part()
        while self.peek() in operators:
            name = self.take()
            value = Expression(name, (value, part()))
        return value

    def sum(self) -> Expression:
        return self.chain(self.product, "+", "-")

    def product(self) -> Expression:
        return self.chain(self.factor, "*", "//", "%")

    def factor(self) -> Expression:
        if self.peek() == "-":
            self.take()
            return Expression("neg", (self.factor(),))
        return self.atom()

    def atom(self) -> Expression:
        token = self.take()
        if token in VARIABLES:
            return Expression(token)
        if token[:1].isdigit():
            return _constant(token)
        if token == "(":
            (value,) = self.bracketed(1)
            return value
        if token in FUNCTIONS:
            self.expect("(")
            return Expression(token, self.bracketed(1 if token == "abs" else 2))
        raise Fault("malformed", f"no expression: {token or 'its end'!r} where a value is expected")

    def bracketed(self, count: int) -> tuple[Expression, ...]:
        """Reads what an open bracket holds, and its end."""
        self.open += 1
        if self.open > _MOST_BRACKETS:
            raise Fault("oversize", f"more than {_MOST_BRACKETS} brackets within each other")
        operands = [self.choice()]
        while len(operands) < count:
            self.expect(",")
            operands.append(self.choice())
        self.expect(")")
        self.open -= 1
        return tuple(operands)


def _constant(token: str) -> Expression:
    # Spellings of one number are one constant.
    digits = token.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST_CONSTANT)):
        raise Fault("oversize", f"a constant is at most {LARGEST_CONSTANT}, not {token[:12]}")
    return Expression(digits)


def size_of(expression: Expression) -> tuple[int, int, frozenset[str]]:
    """Returns an expression's depth, its number of operators, and the different ones."""
    depth = 0
    operators = 0
    names: set[str] = set()
    waiting = [(expression, 0)]
    while waiting:
        node, above = waiting.pop()
        depth = max(depth, above)
        if node.operands:
            operators += 1
            names.add(node.name)
        waiting += [(operand, above + 1) for operand in node.operands]
    return depth, operators, frozenset(names)


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise Fault("error", "division by zero")
    return left // right


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise Fault("error", "remainder of a division by zero")
    return left % right


# As in Python, a quotient is rounded down, and a remainder has the sign of the divisor.
_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": _divided,
    "%": _remainder,
    "max": max,
    "min": min,
    "neg": operator.neg,
    "abs": abs,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def value_of(expression: Expression, x: int, y: int) -> int:
    """Returns what an expression gives. Raises Fault if it divides by zero or a value is too large."""
    name = expression.name
    if not expression.operands:
        return {"x": x, "y": y}[name] if name in VARIABLES else int(name)
    if name == "if":
        condition, yes, no = expression.operands
        return value_of(yes if value_of(condition, x, y) else no, x, y)
    value: int = _COMPUTED[name](*(value_of(operand, x, y) for operand in expression.operands))
    if abs(value) > LARGEST:
        raise Fault("error", f"overflow: {value} is beyond {LARGEST}")
    return value


def reductions(expression: Expression, x: int, y: int) -> Iterator[Expression]:
    """Yields an expression with its inputs, then with all computed that can be at once, and so on to its value.

    Raises Fault as `value_of` does.
    """
    form = _with_inputs(expression, x, y)
    yield form
    while form.operands:
        form = _reduced(form)
        yield form


def _with_inputs(expression: Expression, x: int, y: int) -> Expression:
    if not expression.operands:
        return Expression({"x": str(x), "y": str(y)}.get(expression.name, expression.name))
    return Expression(expression.name, tuple(_with_inputs(operand, x, y) for operand in expression.operands))


def _reduced(expression: Expression) -> Expression:
    """Returns an expression in which every operator between numbers is replaced by what it gives."""
    operands = expression.operands
    if not operands:
        return expression
    if expression.name == "if":
        condition, yes, no = operands
        if not any(side.operands for side in condition.operands):
            left, right = (int(side.name) for side in condition.operands)
            return yes if _COMPUTED[condition.name](left, right) else no
        # Nothing in the branches is computed before it is known which one is taken.
        sides = tuple(map(_reduced, condition.operands))
        return Expression("if", (Expression(condition.name, sides), yes, no))
    if any(operand.operands for operand in operands):
        return Expression(expression.name, tuple(map(_reduced, operands)))
    return Expression(str(value_of(expression, 0, 0)))


# How tightly an operator binds: a weaker one in a place that asks for a tighter one takes brackets.
_TIGHTNESS = {"if": 0, "+": 1, "-": 1, "*": 2, "//": 2, "%": 2, "neg": 3}


def spell(expression: Expression, least: int = 0) -> str:
    """Returns the one spelling of an expression, with no more brackets than it needs."""
    name = expression.name
    operands = expression.operands
    if not operands:
        return name
    if name in FUNCTIONS:
        return f"{name}({', '.join(map(spell, operands))})"
    tightness = _TIGHTNESS[name]
    if name == "if":
        condition, yes, no = operands
        left, right = (spell(operand, 1) for operand in condition.operands)
        text = f"{spell(yes, 1)} if {left} {condition.name} {right} else {spell(no)}"
    elif name == "neg":
        text = f"-{spell(operands[0], tightness)}"
    else:
        text = f"{spell(operands[0], tightness)} {name} {spell(operands[1], tightness + 1)}"
    return f"({text})" if tightness < least else text
