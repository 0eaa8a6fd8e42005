"""Literal text to values and back, for text that a model wrote.

This is a small recursive-descent reader and not `ast.parse`, because it runs in the trainer's process on hostile text:
it is linear in the text, bounded in depth and digits, cannot be slowed down by the grammar of a whole language, and
does not answer differently when somebody turns warnings into errors. Beyond Python's own literals it reads what
Python prints but cannot read: `nan`, `inf`, `set()`, `frozenset({...})`, `float('nan')`, `complex(...)`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from redqueen.sandbox.values import (
    MAX_DEPTH,
    MAX_INT_BITS,
    MAX_INT_DIGITS,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
)

MAX_TEXT_BYTES = 16_384

_DIGITS = r"[0-9](?:_?[0-9])*"
_POINT = rf"(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})"
_FLOAT = rf"(?:{_POINT}(?:[eE][+-]?{_DIGITS})?|{_DIGITS}[eE][+-]?{_DIGITS})"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\n\f]+|\#[^\n]*|\\\n)
    |(?P<imaginary>(?:{_FLOAT}|{_DIGITS})[jJ])
    |(?P<float>{_FLOAT})
    |(?P<radix>0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)
    |(?P<int>{_DIGITS})
    |(?P<string>(?i:rb|br|[rbu])?(?:
        \"\"\"[^"\\]*(?:(?:\\.|"(?!\"\"))[^"\\]*)*\"\"\"
        |'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''
        |"(?!"\"")[^"\\\n]*(?:\\.[^"\\\n]*)*"
        |'(?!'')[^'\\\n]*(?:\\.[^'\\\n]*)*'))
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<mark>[\[\](){{}},:+\-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}\n]{1,100}\}|.)", re.DOTALL
)
_SIMPLE_ESCAPES = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
}
_SIMPLE_ESCAPES |= {"t": "\t", "v": "\v"}
_NAMES: dict[str, Any] = {"None": None, "True": True, "False": False}
_NUMBER_NAMES = ("nan", "inf", "nanj", "infj")
_FLOAT_WORDS = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)


def parse_arguments(text: str, max_bytes: int = MAX_TEXT_BYTES) -> tuple[Any, ...]:
    """The values of a literal argument list, over one or several lines; empty text means no arguments.

    >>> parse_arguments("[1, 2], 'a'")
    ([1, 2], 'a')
    """
    reader = _Reader(text, max_bytes)
    return tuple(reader.items("", 0))


def parse_literal(text: str, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """The value of one literal; `1, 2` without brackets is a tuple, as in Python."""
    reader = _Reader(text, max_bytes)
    value = reader.expression(0)
    if reader.peek() == ",":
        reader.take()
        value = (value, *reader.items("", 0))
    if reader.peek():
        raise LiteralError(f"unexpected {_short(reader.peek())} after the value")
    return value


def to_literal(value: Any, depth: int = 0) -> str:
    """Text that `parse_literal` reads back to an equal value: dicts in insertion order, sets in canonical order.

    >>> to_literal({3, 1, 2}), to_literal(float("nan")), to_literal(set())
    ('{1, 2, 3}', "float('nan')", 'set()')
    """
    if depth > MAX_DEPTH:
        raise OversizeError(f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is bytes:
        return repr(value)
    if kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise OversizeError(f"an int of more than {MAX_INT_DIGITS} digits")
        return str(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float('{value!r}')"
    if kind is complex:
        return (
            f"complex({to_literal(value.real)}, {to_literal(value.imag)})" if _awkward(value) else repr(value)
        )
    if kind is dict:
        pairs = [f"{to_literal(k, depth + 1)}: {to_literal(v, depth + 1)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if kind is set or kind is frozenset:
        inner = ", ".join(to_literal(item, depth + 1) for item in sorted(value, key=canonical))
        name = "" if kind is set else "frozenset"
        return (f"frozenset({{{inner}}})" if name else f"{{{inner}}}") if inner else f"{name or 'set'}()"
    if kind is list:
        return "[" + ", ".join(to_literal(item, depth + 1) for item in value) + "]"
    if kind is tuple:
        return (
            "("
            + ", ".join(to_literal(item, depth + 1) for item in value)
            + (",)" if len(value) == 1 else ")")
        )
    raise UnsupportedError(f"{kind.__name__} is not a plain builtin value")


def _awkward(value: complex) -> bool:
    """Python's own spelling of this complex number does not read back to it."""
    parts = (value.real, value.imag)
    return any(not math.isfinite(part) or (part == 0 and math.copysign(1, part) < 0) for part in parts)


class _Reader:
    """The tokens of one text and the descent over them."""

    def __init__(self, text: str, max_bytes: int) -> None:
        if len(text) > max_bytes or len(text.encode("utf-8", "surrogatepass")) > max_bytes:
            raise OversizeError(f"more than {max_bytes} bytes of text")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.tokens = _tokens(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def take(self) -> tuple[str, str]:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def expect(self, mark: str) -> None:
        found = self.take()[1]
        if found != mark:
            raise LiteralError(f"expected {mark!r}, found {_short(found)}")

    def items(self, end: str, depth: int) -> list[Any]:
        """Comma-separated values up to `end` (which is taken); the last comma is optional."""
        values: list[Any] = []
        while self.peek() != end:
            values.append(self.expression(depth))
            if self.peek() != end:
                self.expect(",")
        self.take()
        return values

    def expression(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise OversizeError(f"nested deeper than {MAX_DEPTH} levels")
        sign = self.take()[1] if self.peek() in ("+", "-") else ""
        value = self.atom(depth)
        if sign:
            if type(value) not in (int, float, complex):
                raise LiteralError("a sign before something that is not a number")
            value = -value if sign == "-" else +value
        if self.peek() in ("+", "-") and type(value) in (int, float):
            sign = self.take()[1]
            imaginary = self.atom(depth)
            if type(imaginary) is not complex:
                raise LiteralError("an arithmetic expression is not a literal")
            value = value - imaginary if sign == "-" else value + imaginary
        return value

    def atom(self, depth: int) -> Any:
        kind, text = self.take()
        if kind == "mark" and text in "([{":
            return self.bracket(text, depth)
        if kind == "name":
            return self.name(text, depth)
        if kind == "string":
            parts = [_string(text)]
            while self.tokens[self.at][0] == "string":
                parts.append(_string(self.take()[1]))
            if len({type(part) for part in parts}) > 1:
                raise LiteralError("bytes and text in one string")
            return type(parts[0])().join(parts)  # type: ignore[arg-type]
        if kind in ("int", "radix", "float", "imaginary"):
            return _number(kind, text)
        raise LiteralError(f"expected a literal, found {_short(text)}")

    def bracket(self, mark: str, depth: int) -> Any:
        if mark == "[":
            return self.items("]", depth + 1)
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
        return (value, *self.items(")", depth + 1))

    def braces(self, depth: int) -> Any:
        if self.peek() == "}":
            self.take()
            return {}
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
            raise LiteralError(str(error)) from None
        self.take()
        return result

    def name(self, name: str, depth: int) -> Any:
        if name in _NAMES:
            return _NAMES[name]
        if name in _NUMBER_NAMES:
            number = float(name[:3])  # a fresh NaN each time: two of them are two members of a set
            return complex(0.0, number) if name[3:] else number
        if name not in ("set", "frozenset", "float", "complex") or self.peek() != "(":
            raise LiteralError(f"a name is not a literal: {_short(name)}")
        self.take()
        if name in ("set", "frozenset"):
            return self.members(set if name == "set" else frozenset, depth)
        arguments = self.items(")", depth + 1)
        if name == "float" and len(arguments) == 1 and type(arguments[0]) is str:
            if _FLOAT_WORDS.fullmatch(arguments[0]):
                return float(arguments[0])
        if (
            name == "complex"
            and len(arguments) == 2
            and all(type(part) in (int, float) for part in arguments)
        ):
            return complex(float(arguments[0]), float(arguments[1]))
        raise LiteralError(f"{name}(...) with arguments that make no literal")

    def members(self, kind: type[set[Any]] | type[frozenset[Any]], depth: int) -> Any:
        """The rest of `set(...)`: nothing, or one bracketed literal (so that calls cannot nest without end)."""
        if self.peek() == ")":
            self.take()
            return kind()
        mark, members = self.take()[1], None
        if mark and mark in "([{":
            members = self.bracket(mark, depth)
        self.expect(")")
        if type(members) not in (list, tuple, set):
            raise LiteralError(f"{kind.__name__}(...) takes one list, tuple or set")
        try:
            return kind(members)
        except TypeError as error:
            raise LiteralError(str(error)) from None


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or "\0" in match.group():
            raise LiteralError(f"not a literal at character {at}: {_short(text[at : at + 20])}")
        if match.lastgroup != "space":
            tokens.append((str(match.lastgroup), match.group()))
        at = match.end()
    tokens.append(("end", ""))
    return tokens


def _number(kind: str, text: str) -> int | float | complex:
    if kind == "float":
        return float(text)
    if kind == "imaginary":
        return complex(0.0, float(text[:-1]))
    if len(text) > MAX_INT_DIGITS:
        raise OversizeError(f"a number of more than {MAX_INT_DIGITS} digits")
    if kind == "int":
        if text[0] == "0" and text.strip("0_"):
            raise LiteralError("leading zeros in a decimal number")
        value = int(text)
    else:
        value = int(text, 0)
    if value.bit_length() > MAX_INT_BITS:
        raise OversizeError(f"a number of more than {MAX_INT_DIGITS} digits")
    return value


def _string(token: str) -> str | bytes:
    start = min(i for i in (token.find("'"), token.find('"')) if i >= 0)
    prefix = token[:start].lower()
    width = 3 if token[start : start + 3] in ('"""', "'''") and len(token) >= start + 6 else 1
    body = token[start + width : len(token) - width]
    is_bytes = "b" in prefix
    if is_bytes and not body.isascii():
        raise LiteralError("bytes with characters outside ASCII")
    if "r" not in prefix:
        body = _ESCAPE.sub(lambda match: _escape(match.group()[1:], is_bytes), body)
    if not is_bytes:
        return body
    return body.encode("latin-1")


def _escape(code: str, is_bytes: bool) -> str:
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF) if is_bytes else chr(int(code, 8))
    if code[0] == "x" and len(code) == 3:
        return chr(int(code[1:], 16))
    if is_bytes and code[0] in "uUN":
        return "\\" + code
    try:
        if code[0] in "uU" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code[0] == "N" and len(code) > 1:
            return unicodedata.lookup(code[2:-1])
    except (ValueError, KeyError, OverflowError):
        raise LiteralError(f"no such character: \\{_short(code)}") from None
    if code[0] in "xuUN":
        raise LiteralError(f"a broken escape: \\{_short(code)}")
    return "\\" + code


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:17] + "...") if text else "the end"
