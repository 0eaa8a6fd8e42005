r"""What stands around the value of an answer: a base, a unit, a per cent, words."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    rf"(?<=[\d}})!%])\s*\b(?P<name>(?:(?:square|cubic|sq|cu)\.?\s+)?(?:{_MEASURES})){_POWER}\.?$", re.IGNORECASE
)
_LEADING = re.compile(r"^(?:\\text\s*\{[^{}]*\}[:\s]*)+(?=\S)")
_DEGREES = re.compile(r"\^\{\\circ\}")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_PER_CENT = re.compile(
    r"\s*(?:\\?%|\\text\s*\{\s*(?:percent|per cent|percentage|pct)\s*\}|\b(?:percent|per cent|pct))\.?$"
)
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
