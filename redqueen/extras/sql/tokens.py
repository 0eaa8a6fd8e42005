"""The words of a query. This runs in the trainer's process on hostile text, so it is linear in the text and bounded."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from redqueen.tasks.programs.normal_form import hashed

MOST_CHARACTERS = 2_000
"""A longer query is refused."""
MOST_TOKENS = 300
"""So many words make a tree that Python's own stack is deep enough for."""

_KEYWORDS = (
    "select distinct all from as join inner left outer cross on where group by having order asc desc limit offset "
    "union intersect except with and or not in is null like between case when then else end cast exists values"
)
KEYWORDS = frozenset(_KEYWORDS.split())
"""The words that the grammar knows. None of them is a name."""

_TOKEN = re.compile(
    r"\s*(?:(?P<space>--[^\n]*)"
    r"|(?P<number>\d+(?:\.\d+)?(?![\w.]))"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|\|\||[=<>+\-*/%(),.]))",
    re.ASCII,
)
_SAME = {"<>": "!=", "==": "="}


class QueryError(ValueError):
    """A text that is no query of the language, or a query that the databases do not fit; the message says why."""


class ForbiddenError(QueryError):
    """A query that asks for something that the language does not have, on purpose."""


class Token(NamedTuple):
    """One word: its sort ("word", "name", "number", "text", "sign" or "end") and itself, in one spelling.

    A text has its quotes.
    """

    sort: str
    text: str


@lru_cache(maxsize=4096)
def tokens(query: str) -> tuple[Token, ...]:
    """Returns the tokens of a query, without comments. Raises QueryError."""
    if len(query) > MOST_CHARACTERS:
        raise QueryError(f"a query of more than {MOST_CHARACTERS} characters")
    query = query.rstrip().removesuffix(";").rstrip()
    found: list[Token] = []
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise QueryError(f"cannot read {query[at : at + 12].strip()!r}")
        at = match.end()
        if match["space"] is None:
            found.append(_token(match))
        if len(found) > MOST_TOKENS:
            raise QueryError(f"a query of more than {MOST_TOKENS} words")
    return tuple(found)


def _token(match: re.Match[str]) -> Token:
    sort = match.lastgroup or ""
    text = match[sort]
    if sort == "name":
        text = text.lower()
        return Token("word" if text in KEYWORDS else "name", text)
    return Token(sort, _SAME.get(text, text))


def constants(query: str) -> list[int | str]:
    """Returns the whole numbers and the texts in a query. Raises QueryError."""
    found: list[int | str] = []
    for token in tokens(query):
        if token.sort == "text":
            found.append(token.text[1:-1].replace("''", "'"))
        elif token.sort == "number" and token.text.isdigit() and len(token.text) < 8:
            found.append(int(token.text))
    return found


def without_comments(query: str) -> str:
    """Returns a query without comments; as it is if it has none."""
    parts: list[str] = []
    at = 0
    while (match := _TOKEN.match(query, at)) is not None:
        if match["space"] is None:
            parts.append(match[0])
        at = match.end()
    bare = "".join(parts) + query[at:]
    return query if bare == query else bare.strip()


@lru_cache(maxsize=4096)
def fingerprint(query: str) -> str:
    """Returns a hash that is equal for queries which differ in spacing, comments and the case of words only."""
    try:
        form = " ".join(token.text for token in tokens(query))
    except QueryError:
        form = query.strip()
    return hashed(form)
