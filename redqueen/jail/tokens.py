"""The tokens of literal text: numbers, strings with their escapes, names and brackets.

One regular expression finds them in linear time. Their values are made by hand, and bounded.
"""

from __future__ import annotations

import re
import unicodedata

from redqueen.jail.child.values import MAX_INT_BITS, MAX_INT_DIGITS, LiteralError, OversizeError

_DIGITS = r"[0-9](?:_?[0-9])*"
_POINT = rf"(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})"
_FLOAT = rf"(?:{_POINT}(?:[eE][+-]?{_DIGITS})?|{_DIGITS}[eE][+-]?{_DIGITS})"
# In a string, what is neither quote nor backslash is read in one run: without a choice there is no backtracking.
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
_PIECE_DIGITS = 600
_SIMPLE_ESCAPES = {
    **{"\n": "", "\\": "\\", "'": "'", '"': '"'},
    **{"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"},
}


def tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of every token, then `("end", "")`; spaces, comments and line breaks are dropped.

    Raises LiteralError at a character that begins no token.
    """
    result: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or "\0" in match.group():
            raise LiteralError(f"not a literal at character {at}: {short(text[at : at + 20])}")
        if match.lastgroup != "space":
            result.append((str(match.lastgroup), match.group()))
        at = match.end()
    result.append(("end", ""))
    return result


def number(kind: str, text: str) -> int | float | complex:
    """The value of a number token. Raises OversizeError for too many digits."""
    if kind == "float":
        return float(text)
    if kind == "imaginary":
        return complex(0.0, float(text[:-1]))
    # Before the conversion, which takes quadratic time.
    if len(text) > MAX_INT_DIGITS:
        raise OversizeError(f"a number of more than {MAX_INT_DIGITS} digits")
    if kind == "int":
        if text[0] == "0" and text.strip("0_"):
            raise LiteralError("leading zeros in a decimal number")
        value = decimal(text.replace("_", ""))
    else:
        value = int(text, 0)
    if value.bit_length() > MAX_INT_BITS:
        raise OversizeError(f"a number of more than {MAX_INT_DIGITS} digits")
    return value


def decimal(digits: str) -> int:
    """The value of decimal digits, perhaps behind a sign, however many they are. It takes quadratic time."""
    # In pieces that Python converts whatever PYTHONINTMAXSTRDIGITS says: its least value is 640.
    unsigned = digits.lstrip("+-")
    value = 0
    for start in range(0, len(unsigned), _PIECE_DIGITS):
        piece = unsigned[start : start + _PIECE_DIGITS]
        value = value * 10 ** len(piece) + int(piece)
    return -value if digits.startswith("-") else value


def string(token: str) -> str | bytes:
    """The value of one string token, which still has its quotes and prefix. Raises LiteralError for a bad escape."""
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
    # In bytes these are no escapes.
    if is_bytes and code[0] in "uUN":
        return "\\" + code
    try:
        if code[0] in "uU" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code[0] == "N" and len(code) > 1:
            return unicodedata.lookup(code[2:-1])
    except (ValueError, KeyError, OverflowError):
        raise LiteralError(f"no such character: \\{short(code)}") from None
    if code[0] in "xuUN":
        raise LiteralError(f"a broken escape: \\{short(code)}")
    # Python keeps the backslash of an unknown escape.
    return "\\" + code


def short(text: str) -> str:
    """The text as an error message shows it."""
    return repr(text if len(text) <= 20 else text[:17] + "...") if text else "the end"
