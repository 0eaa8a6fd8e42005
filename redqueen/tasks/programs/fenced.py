"""Fenced blocks in a model's text: as Markdown has them, and as models write them.

A fence is three or more backticks or tildes. It may be indented, or stand behind the mark of a list or a quotation, or
behind a text ("Answer: ```python"). A block ends at a line that begins with at least as many of these marks, or that
ends with them. A fence within a string of three quotes ends nothing: docstrings show examples in blocks of their own.

The text is read line by line in one pass. A regular expression for whole blocks took quadratic time on a run of spaces
or letters: seconds for 20,000 characters, and a model that repeats itself writes that many.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_MARKER = re.compile(r"(?:>|[-*+]|\d{1,9}[.)])(?:\s+|$)")
"""The mark of an item of a list, or of a quotation."""
_NAME = re.compile(r"\{?\.?[A-Za-z][\w.+#:/-]*\}?")
"""What may stand behind a fence that opens a block, if it stands alone."""
_TAG = "</"
"""What may stand behind a closing fence: a closing tag of a chat format."""
_PYTHON = re.compile(r"(?:i?python|py)[\d.]*")
# What begins or ends a string or a comment; a string of one line is read in one run.
_QUOTES = re.compile(r"""\"\"\"|'''|\#.*|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?""")


@dataclass(frozen=True, slots=True)
class Fenced:
    """A fenced block."""

    info: str
    """What stands behind the opening fence, e.g. `python`."""
    body: str
    """Its lines, without the indentation that its fence has."""
    start: int
    """Where the opening fence begins in the text."""
    end: int
    """Where the closing fence ends; without one, where the next block begins or the text ends."""
    closed: bool
    """Whether it has a closing fence."""

    @property
    def name(self) -> str:
        """The name in small letters, without what follows it; `python` for `py`, `Python 3`, `{.python}`."""
        word = re.match(r"[\w+#.-]*", self.info.lstrip("{. ").lower())
        name = word.group().rstrip(".") if word else ""
        return "python" if _PYTHON.fullmatch(name) else name


def fenced_blocks(text: str) -> Iterator[Fenced]:
    r"""Yields the blocks of a text in order.

    >>> [block.body for block in fenced_blocks("So:\n```python\nx = 1\n```\nDone.")]
    ['x = 1']
    """
    blocks = Blocks(text)
    block = blocks.after(0)
    while block is not None:
        yield block
        block = blocks.after(block.end)


class Blocks:
    """The blocks of a text, for those who also read what is between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._endless: dict[str, int] = {}
        """How many marks had a fence that nothing closes up to the end of the text: longer ones need no search."""
        self._cut: dict[tuple[str, bool], set[tuple[int, str]]] = {}
        """Where blocks that were cut back had read on, by what decides where a block ends: `_Reader.cut`."""

    def after(self, at: int, until: int | None = None) -> Fenced | None:
        """Returns the first block from `at` on that opens before `until`; `at` counts as the beginning of a line."""
        text = self._text
        until = len(text) if until is None else until
        while at < until:
            end = _line_end(text, at)
            opening = _opening(text[at:end], at)
            if opening is not None and opening.at < until:
                return self._read(opening, end)
            at = end + 1
        return None

    def _read(self, opening: _Opening, end: int) -> Fenced:
        mark = opening.mark
        if len(mark) >= self._endless.get(mark[0], len(mark) + 1):
            end = len(self._text)
        cut = self._cut.setdefault((mark, opening.quoted), set())
        block = _Reader(self._text, opening, cut).block(end)
        if not block.closed and block.end == len(self._text):
            self._endless[mark[0]] = len(mark)
        return block


def dedented(program: str) -> str:
    r"""Returns a program without the indentation of its first line, by which a list may indent all of it.

    >>> dedented("    if x:\n        y")
    'if x:\n    y'
    """
    lines = program.split("\n")
    first = next((line for line in lines if line.strip()), "")
    return "\n".join(_shifted(line, _indent(first)) for line in lines)


@dataclass(frozen=True, slots=True)
class _Opening:
    """A fence that opens a block."""

    at: int
    mark: str
    """Its marks, e.g. three backticks."""
    info: str
    indent: int
    """The indentation of what belongs to the block."""
    quoted: bool
    """Whether it stands in a quotation, each line of which begins with `>`."""


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _opening(line: str, at: int) -> _Opening | None:
    """Returns the fence of a line that opens a block; `at` is where the line begins."""
    places = [place for place in (line.find("```"), line.find("~~~")) if place >= 0]
    if not places:
        return None
    place = min(places)
    rest = line[place:].lstrip(line[place])
    mark = line[place : len(line) - len(rest)]
    info = rest.strip()
    # Backticks behind it make it code within a line.
    if mark[0] == "`" and "`" in info:
        return None
    before = line[:place].strip()
    left = _unmarked(before)
    if left and not _leads(left, mark, info):
        return None
    quoted = before.startswith(">")
    indent = place if before and not left and not quoted else _indent(line)
    return _Opening(at=at + place, mark=mark, info=info, indent=indent, quoted=quoted)


def _leads(before: str, mark: str, info: str) -> bool:
    """Whether a fence behind a text opens a block: it has a name, or the text leads to it."""
    if mark[0] != "`":
        return False
    return bool(_NAME.fullmatch(info)) if info else before.endswith((":", ">"))


def _unmarked(before: str) -> str:
    """Returns a text without the marks of lists and quotations at its beginning."""
    while marker := _MARKER.match(before):
        before = before[marker.end() :]
    return before


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _shifted(line: str, indent: int) -> str:
    return line[min(indent, _indent(line)) :]


@dataclass(slots=True)
class _Reader:
    """Reads one block, up to its end."""

    text: str
    opening: _Opening
    cut: set[tuple[int, str]]
    """Where lines begin from which nothing closes such a block, each with the quotes of the string that it begins in.
    Without that, a text that repeats a fence in a comment would be read to its end once for each of them."""
    read: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The lines read since a fence was passed, as in `cut`."""
    lines: list[str] = field(default_factory=list[str])
    quote: str = ""
    """The three quotes of the string that the next line begins in."""
    passed: tuple[int, str, int] | None = None
    """The first fence that seemed to be a part of the program: how many lines there were before it, what stands before
    it in its line, and where it ends in the text."""

    def block(self, end: int) -> Fenced:
        """Returns the block whose first line ends at `end`."""
        while end < len(self.text):
            start = end + 1
            if self.passed is not None:
                if (start, self.quote) in self.cut:
                    return self._unfinished(start)
                self.read.append((start, self.quote))
            end = _line_end(self.text, start)
            line = self._line(start, end)
            fence = self._fence(line)
            if fence is None:
                self._see(line)
                continue
            before, after = line[: fence[0]], line[fence[1] :]
            if _is_quoted(before, self.quote):
                self.passed = self.passed or (len(self.lines), before, end - len(after))
                self._see(line)
            elif _NAME.fullmatch(after.strip()):
                return self._unfinished(start)
            else:
                return self._closed(len(self.lines), before, end - len(after))
        return self._unfinished(len(self.text))

    def _line(self, start: int, end: int) -> str:
        """Returns a line of the block. Its end is that of the text's line, so that places count from there."""
        line = self.text[start:end]
        if self.opening.quoted and line.lstrip().startswith(">"):
            return line.lstrip()[1:].removeprefix(" ")
        return line

    def _fence(self, line: str) -> tuple[int, int] | None:
        """Returns where a fence begins and ends in a line that may close the block."""
        mark = self.opening.mark
        bare = line.lstrip()
        if bare.startswith(mark):
            rest = bare.lstrip(mark[0])
            if mark[0] == "`" and "`" in rest and not rest.lstrip().startswith(_TAG):
                return None
            return len(line) - len(bare), len(line) - len(rest)
        begin = line.rfind(mark)
        if mark[0] != "`" or begin < 0:
            return None
        after = line[begin + len(mark) :].strip()
        before = line[:begin].rstrip("`")
        if "`" in before or (after and not after.startswith(_TAG) and not _NAME.fullmatch(after)):
            return None
        return len(before), begin + len(mark)

    def _see(self, line: str) -> None:
        self.lines.append(line)
        self.quote = _scan(line, self.quote)[0]

    def _unfinished(self, end: int) -> Fenced:
        """Returns a block without a closing fence, or up to one that no string or comment is around after all."""
        if self.passed is not None:
            self.cut.update(self.read)
            return self._closed(*self.passed)
        return self._made(self.lines, end, closed=False)

    def _closed(self, count: int, before: str, end: int) -> Fenced:
        lines = self.lines[:count]
        return self._made([*lines, before] if before.strip() else lines, end, closed=True)

    def _made(self, lines: list[str], end: int, *, closed: bool) -> Fenced:
        opening = self.opening
        body = "\n".join(_shifted(line.removesuffix("\r"), opening.indent) for line in lines)
        # A program that was copied from a file may begin with a mark of its encoding.
        body = body.removeprefix("\ufeff")
        return Fenced(info=opening.info, body=body, start=opening.at, end=end, closed=closed)


def _is_quoted(before: str, quote: str) -> bool:
    """Whether what follows `before` in a line is within a string of three quotes or a comment."""
    quote, comment = _scan(before, quote)
    return bool(quote) or comment


def _scan(line: str, quote: str) -> tuple[str, bool]:
    """Returns the three quotes of the string in which a line ends, and whether it ends in a comment.

    `quote` are those of the string in which it begins.
    """
    at = 0
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return quote, False
            at = end + len(quote)
            quote = ""
        found = _QUOTES.search(line, at)
        if found is None:
            return "", False
        at = found.end()
        if found.group() in ('"""', "'''"):
            quote = found.group()
        elif found.group().startswith("#"):
            return "", True


_MOST = 1 << 16
"""Longer texts are not parsed; the jail takes no longer program either."""


def defines(program: str, name: str) -> bool:
    """Returns whether a text defines a function, a class or a variable of that name."""
    word = re.escape(name)
    pattern = rf"^[ \t]*(?:(?:async[ \t]+)?(?:def|class)[ \t]+{word}\b|{word}[ \t]*(?::[^=\n]*)?=(?!=))"
    return re.search(pattern, program, re.MULTILINE) is not None


def chosen(blocks: Sequence[Fenced], names: Sequence[str] = ()) -> str | None:
    """Returns the program among the blocks of a text, None if there is no block.

    It is the last that is called Python, or nothing, and defines all `names`, or else one of them. Without names it is
    a script: the last that is called Python, or has no name and parses as a program.
    """
    programs = [block for block in blocks if block.name in ("python", "")]
    if names:
        for among in (programs, blocks):
            defining = _defining(among, names)
            if defining is not None:
                return dedented(defining.body)
    else:
        programs = [block for block in programs if _is_script(block)] or programs
    return dedented((programs or blocks)[-1].body) if blocks else None


def _defining(blocks: Sequence[Fenced], names: Sequence[str]) -> Fenced | None:
    """Returns the last block that defines all names, else the last that defines one, None if none does."""
    counts = [sum(1 for name in names if defines(block.body, name)) for block in blocks]
    for enough in (len(names), 1):
        for block, count in zip(reversed(blocks), reversed(counts), strict=True):
            if count >= enough:
                return block
    return None


def _is_script(block: Fenced) -> bool:
    """Whether a block seems to be a whole program, and not what one printed."""
    if block.name == "python":
        return not block.body.lstrip().startswith(">>>")
    body = dedented(block.body)
    if len(body) > _MOST:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    # `3` and `[1, 2]` parse too. A program that prints something calls something.
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))
