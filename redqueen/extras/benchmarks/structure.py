"""What a mathematical answer is made of: brackets, items, sides of a relation.

The text is in one spelling (`spelling`). Only what stands outside of all brackets counts: in $f(x, y) = 3$ there is
one item and one relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OPENING = "([{"
_CLOSING = ")]}"
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)

RELATION = re.compile(r"\\(?:le|ge|ne|in|approx)(?![A-Za-z])|[<>=]")
OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z])")
AND = re.compile(
    r"\\text\s*\{\s*,?\s*and\s*\}|\\land(?![A-Za-z])|(?<![A-Za-z\\])and(?![A-Za-z])|[,;]|\\text\s*\{\s*[,;]\s*\}"
)
_LIST = re.compile(rf"{OR.pattern}|{AND.pattern}")
_SET = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])|\\mathbb\s*\{|\\emptyset(?![A-Za-z])")
_EITHER_SIGN = re.compile(r"\\pm(?![A-Za-z])")
_MOST_SIGNS = 4
_SUCH_THAT = re.compile(r"\\mid(?![A-Za-z])|[|:]|\\colon(?![A-Za-z])|\\text\s*\{\s*(?:such that|s\.t\.)\s*\}")
# What an answer is called: x, f(x), a_{n}, AB, \angle ABC, |AB|, \text{Area}.
_NAME = re.compile(
    r"(?:\\(?:angle|triangle|overline|measuredangle|mathbb|mathcal)\s*)?(?:m\s*\\angle\s*)?"
    r"(?:\{?[A-Z]{1,4}\}?|\\?[A-Za-z]|\\[a-z]+|\\text\s*\{[^{}]*\}|\|[A-Z]{2}\|)"
    r"(?:_(?:\{[^{}]*\}|\w))?(?:\^\{?\\?[a-z*]+\}?)?(?:\s*\([^()=]*\))?"
)
_FUNCTIONS = re.compile(r"\\(?:a?rc)?(?:sin|cos|tan|cot|sec|csc|ln|log|exp|pi|sqrt|infty|frac|lim|sum)(?![a-z])")


@dataclass(frozen=True, slots=True)
class Group:
    r"""Items between brackets, or a list without any: `opening` is one of "", `(`, `[` and `\{`."""

    opening: str
    closing: str
    items: tuple[str, ...]

    @property
    def pair(self) -> bool:
        """Whether it can be an interval."""
        return self.opening in ("(", "[") and self.closing in (")", "]") and len(self.items) == 2


def depths(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yields each sign or command with the number of brackets around it; a bracket counts as inside of itself."""
    depth = 0
    for token in _TOKEN.finditer(text):
        bare = token[0].lstrip("\\")
        if (bare and bare in _OPENING) or token[0] == "\\langle":
            depth += 1
        yield token, depth
        if (bare and bare in _CLOSING) or token[0] == "\\rangle":
            depth -= 1


def depth_of(text: str) -> int:
    """Returns how many brackets stand in each other at most."""
    return max((depth for _, depth in depths(text)), default=0)


def split(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Returns the parts of a text between the separators outside of all brackets, and these separators."""
    parts: list[str] = []
    separators: list[str] = []
    start = 0
    for token, depth in depths(text):
        found = separator.match(text, token.start())
        if depth == 0 and found and found.end() > token.start() >= start:
            parts.append(text[start : found.start()])
            separators.append(found[0])
            start = found.end()
    return [part.strip() for part in (*parts, text[start:])], separators


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Returns the bracket that opens a text, what it holds, and the one that closes it; None if none does."""
    tokens = [(token, depth) for token, depth in depths(text) if not token[0].isspace()]
    if len(tokens) < 2 or any(depth < 1 for _, depth in tokens):
        return None
    first, last = tokens[0][0], tokens[-1][0]
    opening = {"(": "(", "[": "[", "\\{": "\\{", "{": "\\{", "\\langle": "("}.get(first[0])
    closing = {")": ")", "]": "]", "\\}": "\\}", "}": "\\}", "\\rangle": ")"}.get(last[0])
    # In (a)(b) the first bracket is closed before the end.
    if opening is None or closing is None or _closed_before(tokens):
        return None
    return opening, text[first.end() : last.start()].strip(), closing


def _closed_before(tokens: list[tuple[re.Match[str], int]]) -> bool:
    return any(depth == 1 and token[0].lstrip("\\") in (*_CLOSING, "rangle") for token, depth in tokens[:-1])


def group(text: str) -> Group | None:
    """Returns the items of a list, a set, a point or an interval; None for a text that is none of them."""
    around = enclosed(text)
    if around is not None:
        opening, inner, closing = around
        items = items_of(inner)
        if (len(items) > 1 or opening == "\\{") and not (opening == "\\{" and such_that(text)):
            return Group(opening, closing, items)
        return None
    items = items_of(text)
    return Group("", "", items) if len(items) > 1 else None


def items_of(text: str) -> tuple[str, ...]:
    r"""Returns the items of a list; one with $\pm$ stands for two."""
    items: list[str] = []
    for part in split(text, _LIST)[0]:
        items += _signs(part) if part else []
    return tuple(items)


def _signs(text: str) -> list[str]:
    parts = _EITHER_SIGN.split(text)
    if not 1 < len(parts) <= _MOST_SIGNS:
        return [text]
    readings = [parts[0]]
    for part in parts[1:]:
        readings = [reading + sign + part.lstrip() for reading in readings for sign in "+-"]
    return readings


def relation(text: str) -> tuple[list[str], list[str]] | None:
    """Returns the sides of a relation and its signs; None if it is none."""
    sides, signs = split(text, RELATION)
    return (sides, [sign.strip() for sign in signs]) if signs else None


def such_that(text: str) -> str | None:
    r"""Returns the condition of a set that is written as $\{x \mid x > 2\}$; None if it is no such set."""
    around = enclosed(text)
    if around is None or around[0] != "\\{":
        return None
    parts, signs = split(around[1], _SUCH_THAT)
    variable = relation(parts[0])
    named = is_name(variable[0][0] if variable else parts[0])
    return parts[1] if len(signs) == 1 and named and relation(parts[1]) else None


def is_set(text: str) -> bool:
    """Returns whether a text has signs of sets outside of all brackets."""
    return any(depth <= 1 and _SET.match(text, token.start()) for token, depth in depths(text))


def is_name(text: str) -> bool:
    """Returns whether a text is one name, which an answer may be given under, or a point of names as (x, y)."""
    around = enclosed(text)
    if around is not None and around[0] == "(":
        return all(map(is_name, items_of(around[1])))
    return bool(_NAME.fullmatch(text.strip())) and not _FUNCTIONS.match(text.strip())
