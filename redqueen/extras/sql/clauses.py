"""The work of a query: the rows that are left after each clause.

SELECT name FROM t WHERE age > 3 ORDER BY name

WHERE age > 3 -> [('bo', 4), ('al', 7)]
SELECT name ORDER BY name -> (('al',), ('bo',))
"""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.extras.sql.tokens import Token, tokens

_WHOLE = frozenset({"with", "union", "intersect", "except"})
_LATER = frozenset({"group", "having", "order", "limit"})


def clauses(query: str) -> list[tuple[str, str]]:
    """Returns the text of each step and the query whose rows it leaves, the whole query last.

    A query of several SELECTs is one step. Raises QueryError if the text cannot be read.
    """
    words = [token for token in tokens(query) if token.sort != "end"]
    top = _top_level(words)
    source = top.get("from")
    if source is None or not _WHOLE.isdisjoint(top):
        return [(_text(words), query)]
    later = min((at for word, at in top.items() if word in _LATER), default=len(words))
    where = top.get("where", later)
    steps: list[tuple[str, str]] = []
    if any(word in top for word in ("join", ",")) and where - source > 2:
        steps.append((_text(words[source:where]), f"SELECT * {_text(words[source:where])}"))
    if where < later:
        steps.append((_text(words[where:later]), f"SELECT * {_text(words[source:later])}"))
    return [*steps, (_text([*words[:source], *words[later:]]), query)]


def _top_level(words: Sequence[Token]) -> dict[str, int]:
    """Returns where each word stands first outside all brackets; a comma counts behind FROM."""
    places: dict[str, int] = {}
    depth = 0
    for at, token in enumerate(words):
        depth += (token.text == "(") - (token.text == ")")
        counts = token.sort == "word" or (token.text == "," and "from" in places and "order" not in places)
        if depth == 0 and counts:
            places.setdefault(token.text, at)
    return places


def _text(words: Sequence[Token]) -> str:
    """Returns words as a person spaces them, keywords in capitals."""
    text = ""
    before = Token("", "(")
    for token in words:
        opens = token.text == "(" and before.sort == "name"
        space = "" if opens or before.text in "(." or token.text in ").," else " "
        text += space + (token.text.upper() if token.sort == "word" else token.text)
        before = token
    return text
