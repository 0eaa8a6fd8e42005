"""Tests of programs: as a pair of texts, what is asked and what it gives, and in the forms of data sets' rows.

What is asked is an expression over the program's names (`add(2, 2)`) or `stdin('1 2')`, a standard input. What it gives
is a literal, of a script the text that it prints. An expression whose values come from JSON ends in the comment
`# json`: a tuple equals a list then.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from redqueen.jail import (
    JUDGED,
    MAX_TEXT_BYTES,
    Call,
    CodecError,
    Limits,
    LiteralError,
    Script,
    Test,
    parse_literal,
    to_literal,
)
from redqueen.jail.cases import Case, cases_of, names_called
from redqueen.jail.tokens import decimal
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
    # Python writes no int of thousands of digits, and no sum of as many terms.
    except (CodecError, ValueError, RecursionError):
        return False


def shown(given: str) -> str:
    """Returns what is asked as a reader sees it."""
    return given.removesuffix(JSON)


def _as_judged(given: str, output: str) -> Test:
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
        return cases_of([_as_judged(pair.input, pair.output) for pair in pairs], output_bytes)
    except ValueError as error:
        raise LiteralError(str(error)) from None


def defined(givens: Sequence[str]) -> tuple[str, ...]:
    """Returns the names that a program must define; () if it is run as a script. Raises LiteralError."""
    asked = [given for given in givens if stdin_of(given) is None]
    try:
        # Written anew, without a comment behind it, which would hide the rest of the assertion.
        return names_called([f"assert ({ast.unparse(expression(given))}) == 0" for given in asked])
    except (ValueError, RecursionError) as error:
        raise LiteralError(str(error)) from None


# The tests of a data set's rows: each as `redqueen.jail.judge` takes it, and a check of a whole column at once.
#
# A test of a row is an assertion, or a mapping: `{"stdin": ..., "stdout": ...}` or `{"function": ...,
# "arguments": [...], "expected": ...}`. Either mapping may be given as a JSON text, and so may the list of a row's
# tests: a column of Arrow has one type, while texts hold every value as it was.

_FORMS = (
    "give `assert EXPRESSION == LITERAL`, stdin and stdout, or function, arguments and expected; a mapping also as a "
    "JSON text"
)


def check_tests(column: Iterable[Any], limits: Limits | None = None) -> None:
    """Checks the tests of all rows, before training begins: `check_tests(dataset["tests"])`.

    Raises ValueError that names the first row with a test that cannot be read or that no program can pass, and says how
    many others there are.
    """
    faults = [fault for fault in (_fault(row, tests, limits) for row, tests in enumerate(column)) if fault]
    if faults:
        more = f" ({len(faults) - 1} other rows are faulty too)" if len(faults) > 1 else ""
        raise ValueError(faults[0] + more)


def suites_of(rows: Iterable[Any], limits: Limits | None = None) -> list[list[Test]]:
    """Returns the tests of each row. Raises ValueError that names the row."""
    suites: list[list[Test]] = []
    for row, tests in enumerate(rows):
        try:
            suites.append(tests_of(tests, limits))
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from None
    return suites


def tests_of(tests: Any, limits: Limits | None) -> list[Test]:
    """Returns the tests of one row. Raises ValueError for one that cannot be read or that no program can pass."""
    tests = _plain(tests)
    if isinstance(tests, str):
        tests = from_json(tests, "the tests of a row")
    if not isinstance(tests, Sequence) or isinstance(tests, str | bytes):
        raise ValueError(f"the tests of a row must be a list, or a JSON text of one, not {_kind(tests)}")
    read: list[Test] = []
    for place, test in enumerate(cast("Sequence[Any]", tests)):
        try:
            read.append(test_of(test))
        except ValueError as error:
            raise ValueError(f"test {place}: {error}") from None
    cases_of(read, (limits or JUDGED).output_bytes)
    return read


def test_of(test: Any) -> Test:
    """Returns a test as `judge` takes it. Raises ValueError if it cannot be read."""
    if isinstance(test, Call | Script):
        return test
    test = _plain(test)
    from_text = isinstance(test, str) and test.lstrip().startswith("{")
    if from_text:
        test = from_json(test, "a test")
    elif isinstance(test, str):
        return test
    if not isinstance(test, Mapping):
        raise ValueError(f"{_short(test)} is no test: {_FORMS}")
    # Arrow gives all rows of a column the same fields, and None to those that have none.
    fields = {name: value for name, value in cast("Mapping[str, Any]", test).items() if value is not None}
    if "stdout" in fields and "function" not in fields:
        return Script(fields.get("stdin", ""), fields["stdout"])
    if "function" in fields and "stdout" not in fields and "expected" in test:
        return _call(fields, is_json=from_text)
    raise ValueError(f"{_short(test)} is no test: {_FORMS}")


def from_json(text: str, what: str) -> Any:
    """Returns the value of a JSON text, with ints of any length. Raises ValueError that says what it should be."""
    try:
        return json.loads(text, parse_int=decimal)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON: {error}: {_short(text)}") from None


def _call(fields: Mapping[str, Any], *, is_json: bool) -> Call:
    """Returns a call. If the arguments are a JSON text, so is a text in the place of what is expected."""
    arguments, expected = fields.get("arguments", []), fields.get("expected")
    if isinstance(arguments, str):
        arguments = from_json(arguments, "the text of `arguments`")
        if isinstance(expected, str):
            expected = from_json(expected, "the text of `expected`, beside arguments that are a JSON text,")
    elif not is_json:
        _refuse_converted(arguments)
        _refuse_converted(expected, floats=False)
    if not isinstance(arguments, list | tuple):
        raise ValueError(f"`arguments` must be a list, or a JSON text of one, not {_kind(arguments)}")
    return Call(fields["function"], tuple(cast("Sequence[Any]", arguments)), expected, json=True)


def _refuse_converted(value: Any, *, floats: bool = True) -> None:
    """Raises ValueError for values that Arrow may have made of others: right programs would fail on them."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        if any(item is None for item in mapping.values()):
            raise ValueError(
                f"{_short(value)} holds None, with which Arrow fills the keys of other rows: give the test as a JSON "
                "text (json.dumps)"
            )
        value = list(mapping.values())
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            _refuse_converted(item, floats=floats)
    elif floats and isinstance(value, float) and math.isfinite(value) and value.is_integer():
        raise ValueError(
            f"the argument {value!r} may have been an int, which Arrow turns into a float beside floats: give the test "
            "as a JSON text (json.dumps)"
        )


def _plain(value: Any) -> Any:
    """Returns a value with lists in the place of numpy's arrays, and Python's numbers in the place of its own."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(map(_plain, cast("Sequence[Any]", value)))
    to_list = getattr(value, "tolist", None)
    return _plain(to_list()) if callable(to_list) and not isinstance(value, type) else value


def _fault(row: int, tests: Any, limits: Limits | None) -> str:
    try:
        tests_of(tests, limits)
    except ValueError as error:
        return f"row {row}: {error}"
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
