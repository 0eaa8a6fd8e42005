"""The codec, in one place: values to bytes (`values.py`) and values to text (`literals.py`)."""

from redqueen.sandbox.literals import MAX_TEXT_BYTES, parse_arguments, parse_literal, to_literal
from redqueen.sandbox.values import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
    decode,
    encode,
)

__all__ = [
    "MAX_TEXT_BYTES",
    "CodecError",
    "LiteralError",
    "OversizeError",
    "UnsupportedError",
    "canonical",
    "decode",
    "encode",
    "parse_arguments",
    "parse_literal",
    "to_literal",
]
