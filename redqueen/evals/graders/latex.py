"""Brings the text of a mathematical answer into one form, and splits lists of answers."""

from __future__ import annotations

import re

_OPENING = "([{"
_CLOSING = ")]}"

_THOUSANDS = re.compile(r"-?\d{1,3}(?:(?:,\\!|\{,\}|,)\s*\d{3})+(?:\.\d+)?")
_SCIENTIFIC = re.compile(r"(?<![A-Za-z\\])(\d+(?:\.\d*)?)\s*[eE]([+-]?\d+)(?![A-Za-z\d])")
_SPACES = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|~|\s+")
_SIZES = re.compile(r"\\(?:left|right|big|Big|bigl|bigr|Bigl|Bigr)(?![A-Za-z])\s*\.?(?=[\s()\[\]{}|\\]|$)")
_AND = re.compile(r"\\text\s*\{\s*(?:,\s*)?(?:and|or)\s*\}|\s+(?:and|or)\s+")
_DOLLARS = re.compile(r"\\?\$|\\[()\[\]]")


def normal(text: str) -> str:
    r"""Returns an answer without what has no meaning: dollars, sizes of brackets, a final full stop, thousands' commas.

    >>> normal(r"$\dfrac{1}{2}$.")
    '\\frac{1}{2}'
    >>> normal("1,000,000"), normal("4.5e33")
    ('1000000', '4.5 \\times 10^{33}')
    """
    text = _DOLLARS.sub("", text).strip().rstrip(".").strip()
    text = re.sub(r"\\[dt]frac(?![A-Za-z])", r"\\frac", text)
    text = _SIZES.sub("", text)
    if _THOUSANDS.fullmatch(text):
        text = re.sub(r"[,\\!{}\s]", "", text)
    return _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", text).strip()


def key(text: str) -> str:
    """Returns a text that is the same for answers that differ in white space only."""
    return _SPACES.sub("", normal(text))


def split_answers(text: str) -> tuple[str, ...]:
    r"""Returns the answers in a list that is separated by commas, `and` or `or`, outside of all brackets.

    >>> split_answers(r"$(1,2), (3,4)$ and $5$")
    ('(1,2)', '(3,4)', '5')
    >>> split_answers(r"\{1, 2\}")
    ('1', '2')
    """
    text = _AND.sub(",", _DOLLARS.sub("", text)).strip()
    # Braces around everything make a set: its members are meant.
    if text.startswith(r"\{") and text.endswith(r"\}"):
        text = text[2:-2]
    answers: list[str] = []
    depth = 0
    start = 0
    for at, letter in enumerate(text):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif depth == 0 and letter in ",;" and text[at - 1 : at] != "\\":
            answers.append(text[start:at])
            start = at + 1
    answers.append(text[start:])
    return tuple(answer.strip() for answer in answers if answer.strip())
