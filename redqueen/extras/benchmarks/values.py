"""Whether two expressions have one value, by math-verify and sympy, which read them in a process of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex
from math_verify import verify

from redqueen.extras.benchmarks.latex import key

# What stands around the value of an answer: a base, a unit, a per cent, words.

_WORDS_OF_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_IN_WORDS = r"\(?\s*(?:\\text\s*\{)?\s*\(?\s*(?:in\s+)?base\s*\}?\s*\$?(?P<in_words>[0-9]+|[a-z]+)\s*[)}]*"
_BASED = re.compile(
    r"(?P<sign>[+-]?)\s*\(?\s*(?P<digits>[0-9][0-9A-Fa-f]*(?:\.[0-9A-Fa-f]+)?)\s*\)?\s*"
    rf"(?:_\{{?\s*(?:base)?\s*(?P<below>[0-9]+|[a-z]+)\s*\}}?|{_IN_WORDS})"
)
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_POWER = r"(?:\s*\^\s*(?:\{\s*(?P<power>-?\d+)\s*\}|(?P<short_power>-?\d)))?"
_TEMPERATURE = r"\^\{\\circ\}\s*(?:\\text\s*\{\s*)?[CF]\s*\}?"
_SMALL_SPACE = r"(?:\\[,;:!> ]|~|\s|/(?=\s*\\text))*"
_IN_TEXT = r"\\text\s*\{(?P<name>(?:[^{}]|\{[^{}]*\})*)\}"
_UNIT = re.compile(rf"{_SMALL_SPACE}(?:{_TEMPERATURE}|{_IN_TEXT}{_POWER}\s*[.)]*)\s*$")
# Without \text, a letter may be a variable. These words are none.
_MEASURES = (
    r"(?:kilo|centi|milli)?(?:met(?:er|re)|gram|lit(?:er|re))s?|dollars?|cents?|euros?|usd|eur|degrees?|radians?|"
    r"inch(?:es)?|feet|foot|ft|miles?|yards?|hours?|hrs?|minutes?|mins?|seconds?|secs?|days?|weeks?|months?|years?|"
    r"units?|kg|km|cm|mm|mph|pounds?|lbs?|ounces?|oz|ways?|people|students?|points?|times"
)
_WRITTEN_OUT = re.compile(
    rf"(?<=[\d}})!%])\s*(?P<name>(?:(?:square|cubic|sq|cu)\.?\s+)?(?:{_MEASURES})){_POWER}\.?$", re.IGNORECASE
)
_LEADING = re.compile(r"^(?:\\text\s*\{(?![^{}]*\bnot\s*\})[^{}]*\}[:\s]*)+(?=\S)")
_DEGREES = re.compile(r"\^\{\\circ\}")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_PER_CENT = re.compile(
    r"\s*(?:\\?%|\\text\s*\{\s*(?:percent|per cent|percentage|pct)\s*\}|\b(?:percent|per cent|pct))\.?$"
)
_COUNTS = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_TIMES = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_SHORT = {"lb": "pounds", "lbs": "pounds", "oz": "ounces", "c": "cents"}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit and its power."""

    name: str
    power: int | None
    """None if none is written."""

    def fits(self, other: Unit) -> bool:
        """Returns whether two units may be one: `cm` and `centimeters` may, `cm^2` and `cm^3` may not."""
        if not self.name or not other.name:
            return True
        powers = {self.power or 1, other.power or 1}
        return len(powers) == 1 and (_shortened(self.name, other.name) or _shortened(other.name, self.name))


NO_UNIT = Unit("", None)


def base_of(text: str) -> tuple[str, int] | None:
    """Returns the digits and the base of a number that is written with its base; None if it is no such number."""
    match = _BASED.fullmatch(text)
    if match is None:
        return None
    written = match["below"] or match["in_words"]
    base = int(written) if written.isdecimal() else _WORDS_OF_BASES.get(written, 0)
    digits = match["sign"].strip("+") + (match["digits"].upper().lstrip("0") or "0")
    return (digits, base) if 1 < base < 1000 else None


def words_of(text: str) -> str | None:
    r"""Returns the words of a text that is nothing but $\text{...}$, without signs and in small letters."""
    if not re.fullmatch(r"[(\s]*(?:\\text\s*\{[^{}]*\}\s*)+[)\s.]*", text):
        return None
    return _letters("".join(_TEXT.findall(text)))


def spoken(text: str) -> str:
    """Returns an answer as words, without commands and signs."""
    return _letters(_TEXT.sub(r"\1", text))


def _letters(text: str) -> str:
    return re.sub(r"[^\w]", "", text).casefold()


def without_unit(text: str) -> tuple[str, Unit]:
    r"""Returns an expression without the words around it, and the unit behind it.

    >>> without_unit(r"15\text{ cm}^2")
    ('15', Unit(name='cm', power=2))
    """
    text = _LEADING.sub("", text)
    unit = NO_UNIT
    for _ in range(2):
        match = _UNIT.search(text) or _WRITTEN_OUT.search(text)
        if match is None or not text[: match.start()].strip():
            break
        text = text[: match.start()].strip()
        unit = _unit(match) if unit == NO_UNIT else unit
    if not _TRIGONOMETRY.search(text):
        text = _DEGREES.sub("", text)
    else:
        text = _DEGREES.sub(lambda _: r"\cdot\frac{\pi}{180}", text)
    return text.strip(), unit


def _unit(match: re.Match[str]) -> Unit:
    name = match["name"] or ""
    inside = re.search(r"\^\s*\{?\s*(-?\d)\s*\}?\s*$", name)
    written = match["power"] or match["short_power"] or (inside[1] if inside else None)
    name = name[: inside.start()] if inside else name
    for word, power in _TIMES.items():
        if re.match(rf"[\s~]*{word}\b", name):
            return Unit(_letters(re.sub(rf"^[\s~]*{word}\b", "", name)), power)
    return Unit(_letters(name), int(written) if written else None)


def without_per_cent(text: str) -> tuple[str, bool]:
    """Returns an expression without the per cent sign behind it, and whether there was one."""
    shorter = _PER_CENT.sub("", text)
    return (shorter, True) if shorter != text and shorter else (text, False)


def in_letters(text: str) -> str:
    r"""Returns an expression in which upright letters are letters as all others: $4\text{ m}$ is $4 m$."""
    return _TEXT.sub(r" \1 ", text).replace("~", " ")


def _shortened(short: str, name: str) -> bool:
    """Returns whether a word may be short for another one: its letters come in this order, the first one first."""
    short = _SHORT.get(short, short)
    if short == name or (name == _SHORT.get(name, name) and short.rstrip("s") == name.rstrip("s")):
        return True
    letters = iter(name)
    return short[:1] == name[:1] and all(letter in letters for letter in short)


TOLERANCE = 1e-4
_MOST_LETTERS = 8
# The reader drops what stands below a number, which is a base, and multiplies what stands side by side.
_MISREAD = re.compile(r"[\d)]\s*_|\d\s+\d|\\q?quad")
# It takes an integer and what stands behind it for a mixed number, also 2(3); a power is no integer.
_FACTOR = re.compile(r"(?<![_^\w\\.])\d+(?=\s*(?:[(\[]|\\\{|\\binom))|\)(?=\s*\()")
# It takes these letters for constants, and fails at their index or drops it. The other texts here stay as they are.
_CONSTANT = re.compile(
    r"([eE])_\{(\w+)\}|(I)(?:_\{(\w+)\})?|\\([gG]amma)(?![A-Za-z])(?:_\{(\w+)\})?"
    r"|(?:\\(?:text|begin|end)|_)\s*\{[^{}]*\}|\\[A-Za-z]+"
)
# Units and words are taken away before (`quantity`): math-verify takes `m` for a unit, also where it is a letter.
_NORMAL = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
# A word of a language: products of letters are shorter, or have no capital; `no` is not read as n times o.
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{4,}|yes|[Nn]o")
_BARE = re.compile(r"[A-Za-z](?: ?[A-Za-z])+")
_LETTERS_HAVE_CASE = ConversionConfig(lowercase_symbols=False)


def equal(reference: str, answer: str) -> bool:
    """Returns whether two expressions, numbers or words mean the same."""
    if key(reference) == key(answer):
        return True
    words = words_of(reference)
    if words:
        return words == spoken(answer)
    # Words may be written as products of letters are. In an answer \text tells them apart.
    if _BARE.fullmatch(reference) and spoken(reference) == words_of(answer):
        return True
    if _WORD.fullmatch(reference) and (words_of(answer) or _WORD.fullmatch(answer)):
        return spoken(reference) == spoken(answer)
    based = base_of(reference), base_of(answer)
    # Another base asks for other digits, and a number without one is written in base ten.
    if any(based):
        return based[0] == based[1]
    reference, unit = without_unit(reference)
    answer_value, answer_unit = without_unit(answer)
    if unit.fits(answer_unit) and _equal_values(reference, answer_value):
        return True
    # 5 dozen are 60, and 5 as well where dozens are asked for.
    for count, number in _COUNTS.items():
        # Hundredths are not hundreds.
        counted = answer_unit.name.startswith(count) and not answer_unit.name.startswith(f"{count}th")
        if counted and not unit.name.startswith(count):
            return _equal_values(reference, f"({answer_value}) \\cdot {number}")
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
    normal = _FACTOR.sub(r"\g<0>^{1}", normal)
    normal = _CONSTANT.sub(_letter, normal)
    # Alone, a text is read until the reader understands no more, and what is left over counts for nothing. Under a root
    # it has to be read to its end. Brackets would do that too, and take ten times as long.
    root = "matrix" not in normal
    try:
        read: Any = latex2sympy(
            f"\\sqrt{{{normal}}}" if root else f"({normal})",
            is_real=True,
            convert_degrees=False,
            normalization_config=None,
            conversion_config=_LETTERS_HAVE_CASE,
        )
        return _with_names(read.base if root else read)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001
        # The reader raises nearly anything on a text that is no mathematics.
        return None


def _letter(match: re.Match[str]) -> str:
    named = "".join(filter(None, match.groups()))
    return f"q_{{{named}}}" if named else match[0]


def _with_names(read: Any) -> Any:
    """Returns a value whose derivatives are letters, and whose letter i is the imaginary unit.

    Sympy takes dM/dt for 0, since M is not said to depend on t.
    """
    if not isinstance(read, sympy.Basic | sympy.MatrixBase):
        return read
    read = read.xreplace({each: sympy.Symbol(str(each)) for each in read.atoms(sympy.Derivative)})
    # The i that a sum runs over is not free.
    return read.subs({each: sympy.I for each in read.free_symbols if str(each) == "i"})


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
