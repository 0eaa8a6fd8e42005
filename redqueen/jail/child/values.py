"""The value codec: exact builtin values to bytes and back, and the bytes that decide equality.

Parent and child both load this file, so it imports the standard library only. The parent reads such bytes from a
hostile process: `decode` builds nothing but builtin values, bounds depth and size, and evaluates nothing.

What counts as equal (`canonical(a) == canonical(b)`):

- types are exact: `True` is not `1`, `1` is not `1.0`, a list is not a tuple, a set is not a frozenset;
- sets and dicts have no order; lists and tuples have;
- every NaN equals every NaN;
- `-0.0` equals `0.0`, as in Python, although the literal text keeps the sign.

A `Counter`, `defaultdict` or `OrderedDict` is carried as the dict that it holds: Python says that they are equal.
"""

from __future__ import annotations

import marshal
import math
import struct
from collections import Counter, OrderedDict, defaultdict
from typing import Any

MAX_DEPTH = 64
MAX_INT_DIGITS = 4_200
"""Python itself converts at most 4,300 digits between text and int."""
MAX_INT_BITS = 13_952
"""The largest whole number of bytes below 10 ** 4_200."""
MAX_COLLISIONS = 200
"""How many members of a set or keys of a dict may share a hash with an earlier one."""

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_F64 = struct.Struct(">d")
_TOP = 1 << 63
_MASK = (1 << 64) - 1


class CodecError(ValueError):
    """A value or a text that the sandbox does not carry."""


class LiteralError(CodecError):
    """The text is not a literal."""


class OversizeError(CodecError):
    """Too many bytes, digits or levels."""


class UnsupportedError(CodecError):
    """A value that is not of an exact builtin type."""


def encode(value: object, limit: int = 1 << 20) -> bytes:
    """Bytes that `decode` turns back into an equal value: dicts keep their order and -0.0 its sign.

    Raises UnsupportedError for a type that is not carried, OversizeError if there are more than `limit` bytes.
    """
    return _Encoder(limit, canonical=False).encode(value)


def canonical(value: object, limit: int = 1 << 20) -> bytes:
    """The equality key of a value; see the module's docstring for what is equal.

    >>> canonical({1: "a", 2: "b"}) == canonical({2: "b", 1: "a"})
    True
    >>> canonical(True) == canonical(1)
    False
    """
    return _Encoder(limit, canonical=True).encode(value)


def decode(data: bytes) -> Any:
    """The value behind `encode`'s bytes. Raises CodecError for any other bytes."""
    reader = _Decoder(data)
    try:
        value = reader.value(0)
    except (TypeError, UnicodeDecodeError, struct.error) as error:
        raise CodecError(f"not an encoded value: {error}") from None
    if reader.at != len(data):
        raise CodecError("bytes after the value")
    return value


_MARSHALLED_TUPLE = ord("(")
# The oldest version that has floats as bytes. Later ones make one object of equal texts.
_MARSHAL_VERSION = 2


def marshalled(value: tuple[Any, ...]) -> bytes:
    """Bytes of the parent's own plain values, for a child."""
    return marshal.dumps(value, _MARSHAL_VERSION)


def pack(arguments: tuple[Any, ...]) -> bytes:
    """Bytes of plain arguments for a child, from which `unpack` makes new ones for each call.

    Raises OversizeError if they are nested too deep.
    """
    data = marshalled(arguments)
    # These may be the tags of sets. The order in which a set is filled can show; `encode` has it ascending for numbers,
    # which is the order of the literal text. And only `encode` counts levels.
    if b"<" in data or b">" in data or data.count(b"(") + data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        return encode(arguments)
    return data


def unpack(data: bytes) -> tuple[Any, ...]:
    """The arguments behind the bytes of `pack` or `encode`. Only for bytes of the parent: `marshal` trusts them."""
    return marshal.loads(data) if data[0] == _MARSHALLED_TUPLE else decode(data)


class _Encoder:
    """One walk over a value. `left` falls with every byte, so shared and cyclic values cannot explode."""

    def __init__(self, limit: int, canonical: bool) -> None:
        self.left = limit
        self.canonical = canonical

    def encode(self, value: object, depth: int = 0) -> bytes:
        if depth > MAX_DEPTH:
            raise OversizeError(f"nested deeper than {MAX_DEPTH} levels")
        kind = type(value)
        # `is`, not a table: looking a type up in a dict would call a metaclass's __hash__ and __eq__.
        if value is None:
            return self._spend(b"N")
        if kind is bool:
            return self._spend(b"T" if value else b"F")
        if kind is int:
            return self._integer(value)  # type: ignore[arg-type]
        if kind is float:
            return self._spend(b"f" + self._float(value))  # type: ignore[arg-type]
        if kind is str or kind is bytes:
            return self._text(value)  # type: ignore[arg-type]
        if kind is complex:
            return self._spend(b"j" + self._float(value.real) + self._float(value.imag))  # type: ignore[attr-defined]
        return self._container(kind, value, depth)

    def _container(self, kind: type, value: Any, depth: int) -> bytes:
        if kind is dict or kind is Counter or kind is defaultdict or kind is OrderedDict:
            tag = b"d"
            # Past whatever a program did to Counter, a class of Python's. An OrderedDict has an order of its own.
            items = OrderedDict.items(value) if kind is OrderedDict else dict.items(value)
            parts = [self.encode(key, depth + 1) + self.encode(item, depth + 1) for key, item in items]
        elif kind is list or kind is tuple:
            tag = b"l" if kind is list else b"t"
            parts = [self.encode(item, depth + 1) for item in value]
        elif kind is set or kind is frozenset:
            tag = b"s" if kind is set else b"z"
            parts = sorted(self.encode(item, depth + 1) for item in value)
        else:
            raise UnsupportedError(f"{_type_name(kind)} is not a plain builtin value")
        if self.canonical and tag == b"d":
            parts.sort()
        return self._spend(tag + _U32.pack(len(parts))) + b"".join(parts)

    def _integer(self, value: int) -> bytes:
        # The order of the bytes is the order of the numbers, so that a set of ints is shown ascending. A negative
        # number has the complements of its size and of its value.
        if value.bit_length() > MAX_INT_BITS:
            raise OversizeError(f"an int of more than {MAX_INT_DIGITS} digits")
        size = (value.bit_length() + 7) // 8
        if value >= 0:
            return self._spend(b"p" + _U16.pack(size) + value.to_bytes(size, "big"))
        return self._spend(b"n" + _U16.pack(0xFFFF - size) + (value + (1 << 8 * size)).to_bytes(size, "big"))

    def _float(self, value: float) -> bytes:
        # Every NaN becomes the same one. A negative number's bits are inverted and another one's sign is, so that here
        # too the order of the bytes is the order of the numbers.
        if math.isnan(value):
            value = math.nan
        elif self.canonical and value == 0.0:
            value = 0.0
        bits = _U64.unpack(_F64.pack(value))[0]
        return _U64.pack(bits ^ (_MASK if bits & _TOP else _TOP))

    def _text(self, value: str | bytes) -> bytes:
        # Refused before a copy of it is made.
        if len(value) > self.left:
            raise OversizeError("the value is too large")
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            return self._spend(b"u" + _U32.pack(len(data)) + data)
        return self._spend(b"y" + _U32.pack(len(value)) + value)

    def _spend(self, data: bytes) -> bytes:
        self.left -= len(data)
        if self.left < 0:
            raise OversizeError("the value is too large")
        return data


class _Decoder:
    """Reads values from bytes. Every count is checked against the bytes that are left."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise OversizeError(f"nested deeper than {MAX_DEPTH} levels")
        tag = self._take(1)
        if tag in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[tag]
        if tag == b"p":
            return int.from_bytes(self._take(self._int_size(_U16.unpack(self._take(2))[0])), "big")
        if tag == b"n":
            size = self._int_size(0xFFFF - _U16.unpack(self._take(2))[0])
            return int.from_bytes(self._take(size), "big") - (1 << 8 * size)
        if tag == b"f":
            return self._float()
        if tag == b"j":
            return complex(self._float(), self._float())
        if tag == b"u":
            return self._take(_U32.unpack(self._take(4))[0]).decode("utf-8", "surrogatepass")
        if tag == b"y":
            return self._take(_U32.unpack(self._take(4))[0])
        return self._container(tag, depth)

    def _container(self, tag: bytes, depth: int) -> Any:
        if tag not in (b"l", b"t", b"s", b"z", b"d"):
            raise CodecError("unknown tag")
        count = _U32.unpack(self._take(4))[0]
        if count > len(self.data) - self.at:
            raise CodecError("a count beyond the data")
        if tag == b"d":
            pairs = [(self.value(depth + 1), self.value(depth + 1)) for _ in range(count)]
            _refuse_flooding([key for key, _ in pairs])
            return dict(pairs)
        items = [self.value(depth + 1) for _ in range(count)]
        if tag == b"l":
            return items
        if tag == b"t":
            return tuple(items)
        _refuse_flooding(items)
        return set(items) if tag == b"s" else frozenset(items)

    def _int_size(self, size: int) -> int:
        if size * 8 > MAX_INT_BITS:
            raise OversizeError(f"an int of more than {MAX_INT_DIGITS} digits")
        return size

    def _float(self) -> float:
        bits = _U64.unpack(self._take(8))[0]
        return _F64.unpack(_U64.pack(bits ^ (_TOP if bits & _TOP else _MASK)))[0]

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise CodecError("the data end too early")
        data = self.data[self.at : end]
        self.at = end
        return data


def _refuse_flooding(members: list[Any]) -> None:
    # Thousands of ints with one hash would make building the set quadratic, in the trainer's process.
    if len(members) - len({hash(member) for member in members}) > MAX_COLLISIONS:
        raise CodecError("too many members with the same hash")


def _type_name(kind: type) -> str:
    # Past the metaclass: a program's class must not choose what is shown by overriding __name__.
    name = type.__dict__["__name__"].__get__(kind)
    return name if type(name) is str else "object"
