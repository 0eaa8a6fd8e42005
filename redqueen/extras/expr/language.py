"""The language: an expression over two small integers, run by an interpreter of its own."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redqueen.extras.expr import generated
from redqueen.extras.expr.canonical import half_of, shape
from redqueen.extras.expr.expressions import (
    LARGEST,
    LARGEST_CONSTANT,
    LARGEST_INPUT,
    parse,
    reductions,
    spell,
    value_of,
)
from redqueen.jail import parse_arguments
from redqueen.records import Draft
from redqueen.tasks.kinds.interpreted import Fault, Interpreted
from redqueen.tasks.kinds.language import Half
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs import trees
from redqueen.tasks.programs.normal_form import hashed
from redqueen.tasks.programs.tracing import ARROW


class Expr(Interpreted):
    """Expressions: a small language in which a small model learns in minutes."""

    name = "expr"
    rules = (
        "The program is one expression of x and y, with +, -, *, //, %, max, min, abs and `a if x < y else b` "
        f"(with <, <=, >, >=, == or !=), written as in Python, and whole numbers up to {LARGEST_CONSTANT}. `f` has x "
        f"and y as its arguments, which are whole numbers from -{LARGEST_INPUT} to {LARGEST_INPUT}. No value on the "
        f"way may be beyond {LARGEST}."
    )
    identity = Draft("x", ("1, 0", "2, 3", "-7, 1", "0, 5", "9, 9", "4, -4", "-1, -2", "3, 8"))
    warm_starts: Mapping[str, Path] = {
        "completion": Path(__file__).with_name("warm"),
        "work": Path(__file__).with_name("warm_work"),
    }

    def run(self, program: str, arguments: tuple[Any, ...]) -> int:
        expression = parse(program)
        if len(arguments) != 2 or any(type(value) is not int for value in arguments):
            raise Fault("malformed", "an input is two whole numbers, e.g. 3, -4")
        if any(abs(value) > LARGEST_INPUT for value in arguments):
            raise Fault("oversize", f"a number of an input is from -{LARGEST_INPUT} to {LARGEST_INPUT}")
        return value_of(expression, *arguments)

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        del run
        try:
            x, y = parse_arguments(given)
            return (ARROW.join(map(spell, reductions(parse(program), x, y))),)
        except Fault:
            return None

    def fingerprint(self, program: str) -> str:
        try:
            return hashed(spell(parse(program)))
        except Fault:
            return hashed(program.strip())

    def shape(self, program: str) -> str:
        return shape(program)

    def tree(self, program: str) -> ast.Module:
        # It means the same in Python, so it is measured as the function that it is.
        return trees.parse(f"def f(x, y):\n    return {program}")

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return generated.seeds() if own is None else super().seeds(own)

    def drawn(self, rng: random.Random) -> Draft:
        return generated.draft(rng)

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        if half is None:
            return (*generated.reserved("selection"), *generated.reserved("report"))
        return generated.reserved(half)

    def is_reserved(self, program: str) -> bool:
        return half_of(program) is not None


EXPR = Expr()
