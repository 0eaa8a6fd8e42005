"""Literal text to values and back, for text that a model wrote.

This is a small recursive-descent reader and not `ast.parse`, because it runs in the trainer's process on hostile text:
it is linear in the text, bounded in depth and digits, cannot be slowed down by the grammar of a whole language, and
does not depend on the warning filters. It reads Python's own literals, and what Python prints but cannot read: `nan`,
`inf`, `set()`, `frozenset({...})`, `float('nan')`, `complex(...)`.
"""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

from redqueen.jail.child.values import (
    MAX_DEPTH,
    MAX_INT_BITS,
    MAX_INT_DIGITS,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
)
from redqueen.jail.tokens import number, short, string, tokens

MAX_TEXT_BYTES = 16_384

_NAMES: dict[str, Any] = {"None": None, "True": True, "False": False}
_NUMBER_NAMES = ("nan", "inf", "nanj", "infj")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_NUMBER_DEPTH = 2
"""How many brackets a number may have around its parts: `complex(float('inf'), 0.0)` has two. They are no levels."""
_FLOAT_WORDS = frozenset(["nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"])


def parse_arguments(text: str, max_bytes: int = MAX_TEXT_BYTES) -> tuple[Any, ...]:
    """The values of a literal argument list, over one or several lines; empty text means no arguments.

    Raises LiteralError if the text is no such list, OversizeError if it is too long, too deep or has too many digits.

    >>> parse_arguments("[1, 2], 'a'")
    ([1, 2], 'a')
    """
    reader = _Reader(text, max_bytes)
    return tuple(reader.items("", 0))


def parse_literal(text: str, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """The value of one literal; `1, 2` without brackets is a tuple, as in Python.

    Raises LiteralError if the text is no literal, OversizeError if it is too long, too deep or has too many digits.
    """
    reader = _Reader(text, max_bytes)
    value = reader.expression(0)
    if reader.peek() == ",":
        reader.take()
        value = (value, *reader.items("", 0))
    if reader.peek():
        raise LiteralError(f"unexpected {short(reader.peek())} after the value")
    return value


def _check_depth(depth: int) -> None:
    """Raises OversizeError if a container may have no members at this depth."""
    if depth > MAX_DEPTH:
        raise OversizeError(_TOO_DEEP)


def _real(value: Any) -> float:
    """Returns a number as a part of a complex one. Raises OversizeError for an int that is too large for that."""
    try:
        return float(value)
    except OverflowError:
        raise OversizeError("an int that is too large for a complex number") from None


def to_literal(value: Any, depth: int = 0) -> str:
    """Text that `parse_literal` reads back to an equal value; dicts keep their order, sets are sorted.

    Raises UnsupportedError for a type that is not a plain builtin, OversizeError for an int or a nesting too large.

    >>> to_literal({3, 1, 2}), to_literal(float("nan")), to_literal(set())
    ('{1, 2, 3}', "float('nan')", 'set()')
    """
    if depth > MAX_DEPTH:
        raise OversizeError(_TOO_DEEP)
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is bytes:
        return repr(value)
    if kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise OversizeError(f"an int of more than {MAX_INT_DIGITS} digits")
        return _decimal(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float('{value!r}')"
    # Python prints some complex numbers in a way that reads back to another number.
    if kind is complex:
        spelled = f"complex({to_literal(value.real)}, {to_literal(value.imag)})"
        return spelled if _awkward(value) else repr(value)
    if kind is dict:
        pairs = [f"{to_literal(k, depth + 1)}: {to_literal(v, depth + 1)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if kind is set or kind is frozenset:
        keyed = sorted(_keyed(item, depth + 1) for item in value)
        return _bracketed(kind, [text for _, text in keyed])
    if kind is not list and kind is not tuple:
        raise UnsupportedError(f"{kind.__name__} is not a plain builtin value")
    return _bracketed(kind, [to_literal(item, depth + 1) for item in value])


def _bracketed(kind: type, items: list[str]) -> str:
    """The text of a list, a tuple, a set or a frozenset."""
    inner = ", ".join(items)
    if kind is list:
        return f"[{inner}]"
    if kind is tuple:
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    if not items:
        return f"{kind.__name__}()"
    return f"{{{inner}}}" if kind is set else f"frozenset({{{inner}}})"


_COUNT = struct.Struct(">I")


def _keyed(value: Any, depth: int) -> tuple[bytes, str]:
    """The canonical bytes and the text of a member of a set.

    Both come from one walk. If each level of nested sets asked `canonical` about its members, the innermost ones would
    be walked once for each level around them.
    """
    kind = type(value)
    # Of the containers only these two can be a member of a set.
    if kind is not tuple and kind is not frozenset:
        # Without a limit: the value is here, and the length of the whole text is the caller's to measure.
        return canonical(value, sys.maxsize), to_literal(value, depth)
    if depth > MAX_DEPTH:
        raise OversizeError(_TOO_DEEP)
    keyed = [_keyed(item, depth + 1) for item in value]
    tag = b"t"
    if kind is frozenset:
        keyed.sort()
        tag = b"z"
    key = tag + _COUNT.pack(len(keyed)) + b"".join(key for key, _ in keyed)
    return key, _bracketed(kind, [text for _, text in keyed])


_PIECE_DIGITS = 600
_PIECE = 10**_PIECE_DIGITS


def _decimal(value: int) -> str:
    """The digits of an int, whatever PYTHONINTMAXSTRDIGITS says: its least value is 640."""
    if -_PIECE < value < _PIECE:
        return str(value)
    head, tail = divmod(abs(value), _PIECE)
    return f"{'-' if value < 0 else ''}{_decimal(head)}{tail:0{_PIECE_DIGITS}d}"


def _awkward(value: complex) -> bool:
    """Whether Python's own spelling of this complex number reads back to another one."""
    components = (value.real, value.imag)
    return any(
        not math.isfinite(component) or (component == 0 and math.copysign(1, component) < 0) for component in components
    )


class _Reader:
    """Reads the values of one text by recursive descent over its tokens. The last token is the end, and stays."""

    def __init__(self, text: str, max_bytes: int) -> None:
        if len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes:
            raise OversizeError(f"more than {max_bytes} bytes of text")
        # As Python's own tokenizer does.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.tokens = tokens(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def expect(self, mark: str) -> None:
        text = self.take()[1]
        if text != mark:
            raise LiteralError(f"expected {mark!r}, found {short(text)}")

    def items(self, end: str, depth: int) -> list[Any]:
        """Comma-separated values up to `end`, which is taken; a last comma is optional."""
        values: list[Any] = []
        while self.peek() != end:
            values.append(self.expression(depth))
            if self.peek() != end:
                self.expect(",")
        self.take()
        return values

    def expression(self, depth: int) -> Any:
        if depth > MAX_DEPTH + _NUMBER_DEPTH:
            raise OversizeError(_TOO_DEEP)
        sign = self.take()[1] if self.peek() in ("+", "-") else ""
        value = self.atom(depth)
        if sign:
            if type(value) not in (int, float, complex):
                raise LiteralError("a sign before something that is not a number")
            value = -value if sign == "-" else +value
        # `1 + 2j` is a literal, and the only sum that is one.
        if self.peek() in ("+", "-") and type(value) in (int, float):
            sign = self.take()[1]
            imaginary = self.atom(depth)
            if type(imaginary) is not complex:
                raise LiteralError("an arithmetic expression is not a literal")
            real = _real(value)
            value = real - imaginary if sign == "-" else real + imaginary
        return value

    def atom(self, depth: int) -> Any:
        kind, text = self.take()
        if kind == "mark" and text in "([{":
            return self.bracket(text, depth)
        if kind == "name":
            return self.name(text, depth)
        if kind == "string":
            # Neighbouring strings are one, as in Python.
            value: Any = string(text)
            while self.tokens[self.at][0] == "string":
                more = string(self.take()[1])
                if type(more) is not type(value):
                    raise LiteralError("bytes and text in one string")
                value += more
            return value
        if kind in ("int", "radix", "float", "imaginary"):
            return number(kind, text)
        raise LiteralError(f"expected a literal, found {short(text)}")

    def bracket(self, mark: str, depth: int) -> Any:
        if mark == "[":
            return self.members("]", depth + 1)
        if mark == "{":
            return self.braces(depth + 1)
        if self.peek() == ")":
            self.take()
            return ()
        value = self.expression(depth + 1)
        if self.peek() == ")":
            self.take()
            return value
        self.expect(",")
        _check_depth(depth + 1)
        return (value, *self.items(")", depth + 1))

    def members(self, end: str, depth: int) -> list[Any]:
        """The items of a container, which may be empty at any depth."""
        if self.peek() != end:
            _check_depth(depth)
        return self.items(end, depth)

    def braces(self, depth: int) -> Any:
        if self.peek() == "}":
            self.take()
            return {}
        _check_depth(depth)
        first = self.expression(depth)
        try:
            if self.peek() != ":":
                if self.peek() != "}":
                    self.expect(",")
                return {first, *self.items("}", depth)}
            self.take()
            result = {first: self.expression(depth)}
            while self.peek() != "}":
                self.expect(",")
                if self.peek() == "}":
                    break
                key = self.expression(depth)
                self.expect(":")
                result[key] = self.expression(depth)
        except TypeError as error:
            # A member or a key that cannot be hashed.
            raise LiteralError(str(error)) from None
        self.take()
        return result

    def name(self, name: str, depth: int) -> Any:
        if name in _NAMES:
            return _NAMES[name]
        if name in _NUMBER_NAMES:
            # A new NaN each time: two of them are two members of a set.
            number = float(name[:3])
            return complex(0.0, number) if name[3:] else number
        if name not in ("set", "frozenset", "float", "complex") or self.peek() != "(":
            raise LiteralError(f"a name is not a literal: {short(name)}")
        self.take()
        if name in ("set", "frozenset"):
            return self.set_call(set if name == "set" else frozenset, depth)
        arguments = self.items(")", depth + 1)
        if name == "float" and len(arguments) == 1 and type(arguments[0]) is str:
            word = arguments[0].strip().lower()
            if word in _FLOAT_WORDS:
                return float(word)
        if name == "complex" and len(arguments) == 2 and all(type(argument) in (int, float) for argument in arguments):
            return complex(_real(arguments[0]), _real(arguments[1]))
        raise LiteralError(f"{name}(...) with arguments that make no literal")

    def set_call(self, kind: type[set[Any]] | type[frozenset[Any]], depth: int) -> Any:
        """The rest of `set(...)`: nothing, or one bracketed literal, which bounds the nesting of calls."""
        if self.peek() == ")":
            self.take()
            return kind()
        mark = self.take()[1]
        members: Any = self.bracket(mark, depth) if mark in ("(", "[", "{") else None
        self.expect(")")
        if type(members) not in (list, tuple, set):
            raise LiteralError(f"{kind.__name__}(...) takes one list, tuple or set")
        try:
            return kind(members)
        except TypeError as error:
            raise LiteralError(str(error)) from None
