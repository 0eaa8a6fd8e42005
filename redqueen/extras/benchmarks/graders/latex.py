"""Brings the text of a mathematical answer into one form, and splits lists of answers."""

from __future__ import annotations

import re

from redqueen.extras.benchmarks.graders.spelling import one_spelling
from redqueen.extras.benchmarks.graders.structure import enclosed, group, is_name, items_of, relation, split

# Between groups of three digits; two of the last kind are needed, for 1.234 is a decimal.
_NUMBER = r"[+-]?\d{1,3}(?:(?:(?:,\\!|\{,\}|\\[,;:! ]|~|,| )\s*\d{3})+(?:\.\d+)?|(?:\.\d{3}){2,})"
# The number begins the answer, or stands behind its name, and only a unit follows.
_THOUSANDS = re.compile(rf"(^|=\s*|\\approx\s*)({_NUMBER})(?=\s*(?:$|\\text|\\?%|\^|\\[,;: ]|[a-z]))")
_SCIENTIFIC = re.compile(r"(?<![A-Za-z\\])(\d+(?:\.\d*)?|\.\d+)\s*[eE]([+-]?\d+)(?![A-Za-z\d])")
_POINT_AT_END = re.compile(r"(\d)\.(?![\d\\.])")
_SPACES = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|\\thinspace(?![A-Za-z])|~|\s+")
_DOLLARS = re.compile(r"\\?\$|\\[()\[\]]")
_BEFORE = re.compile(r"(?:=|\\approx(?![A-Za-z])|\\equiv(?![A-Za-z])|\\therefore(?![A-Za-z])|:)\s*")
_AROUND = re.compile(rf"^(?:{_SPACES.pattern})+|(?:{_SPACES.pattern}|[.,;])+$")
_COMMAS = re.compile(r"[,;]|\\text\s*\{\s*(?:[,;]\s*)?(?:and|or)?\s*\}|(?<=\s)(?:and|or)(?=\s)")


def normal(text: str) -> str:
    r"""Returns an answer in one spelling, without dollars, signs around it, and commas between thousands.

    >>> normal(r"$= \dfrac{1}{2}$.")
    '\\frac{1}{2}'
    >>> normal("1,000,000"), normal("4.5e33")
    ('1000000', '4.5 \\times 10^{33}')
    """
    text = _spelled(text)
    text = _THOUSANDS.sub(lambda match: match[1] + _digits(match[2]), text)
    text = _POINT_AT_END.sub(r"\1", text)
    return _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", text).strip()


def _spelled(text: str) -> str:
    text = one_spelling(_DOLLARS.sub("", text))
    text = _AROUND.sub("", text)
    return _AROUND.sub("", _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text)


def _digits(number: str) -> str:
    """Returns a number without what stands between its groups of digits."""
    if number.count(".") > 1:
        return number.replace(".", "")
    return re.sub(r"[^\d.+-]", "", number)


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
    text = _DOLLARS.sub("", text).strip()
    around = enclosed(text)
    # Braces around everything make a set: its members are meant.
    if around is not None and around[0] == "\\{":
        text = around[1]
    return tuple(filter(None, split(text, _COMMAS)[0]))


def given_answers(text: str) -> tuple[str, ...]:
    r"""Returns the answers that a text gives: `split_answers`, also of $x \in \{1, 2\}$ and of $\pm 1$.

    >>> given_answers(r"x \in \{5, 1\}"), given_answers(r"x = \pm 2")
    (('5', '1'), ('x = +2', 'x = -2'))
    """
    text = _spelled(text)
    found = relation(text)
    if found is not None and len(found[1]) == 1 and all(map(is_name, items_of(found[0][0]))):
        members = group(found[0][1])
        if members is not None and members.opening == "\\{":
            return members.items
    around = enclosed(text)
    return items_of(around[1] if around is not None and around[0] == "\\{" else text)
