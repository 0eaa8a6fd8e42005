"""Whether two expressions have one value, by math-verify and sympy, which read them in a process of its own."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify import verify
from math_verify.grader import should_treat_as_complex

from redqueen.extras.benchmarks.graders.latex import key
from redqueen.extras.benchmarks.graders.quantity import (
    base_of,
    in_letters,
    spoken,
    without_per_cent,
    without_unit,
    words_of,
)

TOLERANCE = 1e-4
_MOST_LETTERS = 8
# The reader drops what stands below a number, which is a base, and multiplies what stands side by side.
_MISREAD = re.compile(r"[\d)]\s*_|\d\s+\d|\\q?quad")
# Units and words are taken away before (`quantity`): math-verify takes `m` for a unit, also where it is a letter.
_NORMAL = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_LETTERS_HAVE_CASE = ConversionConfig(lowercase_symbols=False)


def equal(reference: str, answer: str) -> bool:
    """Returns whether two expressions, numbers or words mean the same."""
    if key(reference) == key(answer):
        return True
    words = words_of(reference)
    if words:
        return words == spoken(answer)
    based = base_of(reference), base_of(answer)
    # Another base asks for other digits, and a number without one is written in base ten.
    if any(based):
        return based[0] == based[1]
    reference, unit = without_unit(reference)
    answer_value, answer_unit = without_unit(answer)
    if unit.fits(answer_unit) and _equal_values(reference, answer_value):
        return True
    return answer_unit.name != "" and _equal_values(reference, in_letters(answer))


def _equal_values(reference: str, answer: str) -> bool:
    reference, reference_in_hundredths = without_per_cent(reference)
    answer, answer_in_hundredths = without_per_cent(answer)
    one = value(reference)
    other = value(answer)
    if one is None or other is None:
        return key(reference) == key(answer)
    if values_equal(one, other):
        return True
    # 50 % is 1/2, and 50 as well.
    if reference_in_hundredths != answer_in_hundredths:
        hundredth = sympy.Rational(1, 100)
        return values_equal(one * hundredth, other) if reference_in_hundredths else values_equal(one, other * hundredth)
    return False


@lru_cache(maxsize=256)
def value(text: str) -> Any:
    """Returns an expression as sympy has it; None if it cannot be read to its end."""
    normal = normalize_latex(text, _NORMAL)
    if not normal or _MISREAD.search(normal):
        return None
    # Alone, a text is read until the reader understands no more, and what is left over counts for nothing. Under a root
    # it has to be read to its end. Brackets would do that too, and take ten times as long.
    root = "matrix" not in normal
    try:
        read: Any = latex2sympy(
            f"\\sqrt{{{normal}}}" if root else f"({normal})",
            is_real=not should_treat_as_complex(normal),
            convert_degrees=False,
            normalization_config=None,
            conversion_config=_LETTERS_HAVE_CASE,
        )
        return _named_derivatives(read.base if root else read)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001
        # The reader raises nearly anything on a text that is no mathematics.
        return None


def _named_derivatives(read: Any) -> Any:
    """Returns a value whose derivatives are letters: sympy takes dM/dt for 0, since M is not said to depend on t."""
    derivatives = read.atoms(sympy.Derivative) if isinstance(read, sympy.Basic) else ()
    return read.xreplace({each: sympy.Symbol(str(each)) for each in derivatives}) if derivatives else read


def values_equal(one: Any, other: Any) -> bool:
    """Returns whether two values of sympy are equal, numbers to one part in 10,000 at least."""
    if _far_apart(one, other):
        return False
    # math-verify takes single symbols for equal whose names differ in case.
    if isinstance(one, sympy.Symbol) or isinstance(other, sympy.Symbol):
        return bool(one == other) or _no_difference(one, other)
    return bool(verify(one, other, timeout_seconds=None))


def _no_difference(one: Any, other: Any) -> bool:
    try:
        return bool(sympy.simplify(one - other) == 0)
    except (TypeError, AttributeError):
        return False


def _far_apart(one: Any, other: Any) -> bool:
    """Returns whether two values differ by more than `TOLERANCE` of the first, where all letters are small primes."""
    # math-verify rounds to six decimals, so that to it 2.88e-19 is 1.325e-27. And what is not equal for one choice of
    # the letters need not be simplified, which may take seconds.
    if not all(isinstance(side, sympy.Expr) for side in (one, other)):
        return False
    letters: list[Any] = sorted(one.free_symbols | other.free_symbols, key=str)
    if len(letters) > _MOST_LETTERS:
        return False
    chosen = {letter: sympy.prime(number) for number, letter in enumerate(letters, 1)}
    try:
        first = one.subs(chosen).evalf()
        second = other.subs(chosen).evalf()
        # What has no value there, or stays unevaluated, is left to math-verify.
        if not (first.is_finite and second.is_finite):
            return False
        return (abs(first - second) > TOLERANCE * abs(first)) == True  # noqa: E712
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return False


def proportional(one: Any, other: Any) -> bool:
    """Returns whether one value is another one times a number that is not zero."""
    try:
        ratio = sympy.simplify(one / other)
    except (TypeError, AttributeError, ZeroDivisionError):
        return False
    return bool(ratio.is_number and ratio.is_finite and ratio.is_nonzero)
