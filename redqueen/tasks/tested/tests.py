"""A test as a pair of texts: what is asked of a program, and what it gives.

What is asked is an expression over the program's names (`add(2, 2)`) or `stdin('1 2')`, a standard input. What it gives
is a literal, of a script the text that it prints. An expression whose values come from JSON ends in the comment
`# json`: a tuple equals a list then.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from redqueen.jail import MAX_TEXT_BYTES, Call, CodecError, LiteralError, Script, Test, parse_literal, to_literal
from redqueen.jail.cases import Case, cases_of, names_called
from redqueen.records import Pair

STDIN = "stdin"
JSON = "  # json"
_MOST_TREE = 1 << 24


def stdin_of(given: str) -> str | None:
    """Returns the standard input that is asked for, None if a value is. Raises LiteralError for what asks nothing."""
    match expression(given):
        case ast.Call(func=ast.Name(id="stdin"), args=[ast.Constant(value=str(text))], keywords=[]):
            return text
        case _:
            return None


def expression(given: str) -> ast.expr:
    """Returns what is asked as a tree. Raises LiteralError if the text is no expression."""
    if len(given) > MAX_TEXT_BYTES:
        raise LiteralError(f"a test is longer than {MAX_TEXT_BYTES:,} bytes")
    try:
        return ast.parse(given.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LiteralError(f"{given[:80]!r} is no expression") from None


def spelled(given: str) -> str:
    """Returns the one spelling of what is asked. Raises LiteralError if the text asks nothing."""
    text = stdin_of(given)
    if text is not None:
        return f"{STDIN}({to_literal(text)})"
    try:
        return ast.unparse(expression(given)) + (JSON if given.endswith(JSON) else "")
    except (ValueError, RecursionError):
        raise LiteralError(f"{given[:80]!r} cannot be written") from None


def is_plain(given: str) -> bool:
    """Returns whether a call of a program's function with literals is asked, or a script."""
    try:
        match expression(given):
            case ast.Call(func=ast.Name(), args=arguments, keywords=[]):
                for argument in arguments:
                    parse_literal(ast.unparse(argument))
                return bool(defined([given])) or stdin_of(given) is not None
            case _:
                return False
    except CodecError:
        return False


def shown(given: str) -> str:
    """Returns what is asked as a reader sees it."""
    return given.removesuffix(JSON)


def test_of(given: str, output: str) -> Test:
    """Returns a pair as the jail's judge takes it. Raises LiteralError if it is no test."""
    expected = parse_literal(output, _MOST_TREE)
    text = stdin_of(given)
    if text is not None:
        if not isinstance(expected, str):
            raise LiteralError(f"a script prints a text, and no {type(expected).__name__}")
        return Script(text, expected)
    if given.endswith(JSON):
        match expression(given):
            case ast.Call(func=function, args=arguments, keywords=[]):
                values = tuple(parse_literal(ast.unparse(value), _MOST_TREE) for value in arguments)
                return Call(ast.unparse(function).replace("()", ""), values, expected, json=True)
            case _:
                raise LiteralError(f"{given[:80]!r} is no call")
    return f"assert {given} == {output}"


def cases(pairs: Sequence[Pair], output_bytes: int) -> list[Case]:
    """Returns the tests of a task, taken apart. Raises LiteralError for one that no program can pass."""
    try:
        return cases_of([test_of(pair.input, pair.output) for pair in pairs], output_bytes)
    except ValueError as error:
        raise LiteralError(str(error)) from None


def defined(givens: Sequence[str]) -> tuple[str, ...]:
    """Returns the names that a program must define; () if it is run as a script. Raises LiteralError."""
    asked = [given for given in givens if stdin_of(given) is None]
    return names_called([f"assert {shown(given)} == 0" for given in asked])
