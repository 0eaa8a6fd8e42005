"""The tests of a program: what is asked of it, and when what it gives is right. Nothing here runs a program."""

from __future__ import annotations

import ast
import builtins
import cmath
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redqueen.jail.child.values import CodecError, canonical, encode, marshalled
from redqueen.jail.job import type_of
from redqueen.jail.literals import parse_literal, to_literal

_MOST_VALUE_BYTES = 1 << 28
_LONG = 1 << 16


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the program, its arguments, and the value that it must return: `Call("add", (1, 2), 3)`.

    `Call("Solution.add", (1, 2), 3)` calls the method on a new object. Arguments and value are plain builtin values.
    They are compared as Python's `==` does, but NaN equals NaN.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Any
    json: bool = False
    """Whether the values come from JSON, which has no tuples and only texts as keys: then `(1, 2)` equals `[1, 2]`, and
    `{1: 2}` equals `{"1": 2}`."""


@dataclass(frozen=True, slots=True)
class Script:
    r"""A standard input, and the standard output that the program must write: `Script("1 2\n", "3\n")`.

    White space at the ends of lines and of the whole output does not count.
    """

    stdin: str
    stdout: str


Test = Call | Script | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test, taken apart: what the jail is given, and what stays here."""

    number: int
    """Its place among the tests."""
    asked: str = ""
    """The expression that is evaluated, or the name of the function that is called."""
    arguments: bytes | None = None
    """The encoded arguments of the function; None for an expression."""
    stdin: str | None = None
    """What a script reads; None: a value is asked for."""
    expected: Any
    json: bool = False

    def accepts(self, text: str) -> bool:
        """Returns whether the literal text of a value is that of the expected one, or of one that equals it.

        Of a script it is the literal of what it printed.
        """
        if self.stdin is not None:
            printed = parse_literal(text, 4 * len(text))
            return isinstance(printed, str) and self.accepts_output(printed)
        # To write a long value takes a tenth of the time of reading it.
        if len(text) > _LONG and text == _written(self.expected):
            return True
        value = parse_literal(text, 4 * len(text))
        if self.json:
            return _same(_as_json(value), _as_json(self.expected))
        return _same(value, self.expected)

    def accepts_output(self, text: str) -> bool:
        """Returns whether a script printed what was expected."""
        return _lines(text) == _lines(self.expected)


def cases_of(tests: Sequence[Test], output_bytes: int) -> list[Case]:
    """Returns the tests of a program, which may give at most `output_bytes` for each.

    Raises ValueError if there is none, or for one that is no test or that no program can pass.
    """
    if isinstance(tests, str) or not isinstance(cast("object", tests), Sequence):
        raise ValueError(f"the tests of a program must be a list, not {type_of(tests)}")
    if not tests:
        raise ValueError("a program cannot be judged without a test")
    cases: list[Case] = []
    for number, test in enumerate(tests):
        try:
            cases.append(_case(number, test, output_bytes))
        except ValueError as error:
            raise ValueError(f"test {number}: {error}") from None
    return cases


def names_called(tests: Sequence[Test]) -> tuple[str, ...]:
    """Returns the names that a program must define for its tests, () if they only run it as a script."""
    names: list[str] = []
    for test in tests:
        if isinstance(test, Call):
            names.append(test.function.partition(".")[0])
        elif isinstance(test, str):
            tree = ast.parse(_assertion(test)[0])
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            bound = {node.id for node in nodes if not isinstance(node.ctx, ast.Load)}
            bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
            names += [node.id for node in nodes if node.id not in bound and not hasattr(builtins, node.id)]
    return tuple(dict.fromkeys(names))


def _case(number: int, test: object, output_bytes: int) -> Case:
    match test:
        case Script(stdin=stdin, stdout=stdout):
            for name, text in (("stdin", stdin), ("stdout", stdout)):
                if not isinstance(cast("object", text), str):
                    raise ValueError(f"{name} must be a text, not {type_of(text)}")
            size = len("\n".join(_lines(stdout)).encode("utf-8", "surrogatepass"))
            _refuse_size(size, output_bytes)
            return Case(number=number, stdin=stdin, expected=stdout)
        case Call(function=function, arguments=arguments, expected=expected, json=json):
            if not isinstance(cast("object", function), str) or not all(map(str.isidentifier, function.split("."))):
                raise ValueError(f"{function!r} is no name of a function")
            data = _encoded(arguments)
            _refuse_value(expected, output_bytes)
            return Case(number=number, asked=function, arguments=data, expected=expected, json=json)
        case str():
            expression, expected = _assertion(test)
            _refuse_value(expected, output_bytes)
            return Case(number=number, asked=expression, expected=expected)
        case _:
            raise ValueError(f"{type_of(test)} is no test: give a Call, a Script or `assert EXPRESSION == LITERAL`")


def _encoded(arguments: Any) -> bytes:
    """Returns arguments as the child reads them. They are values, and never code among the program's names."""
    if not isinstance(arguments, list | tuple):
        raise ValueError(f"the arguments must be a list, not {type_of(arguments)}")
    values = tuple(cast("Sequence[Any]", arguments))
    try:
        data = encode(values, _MOST_VALUE_BYTES)
    except CodecError as error:
        raise ValueError(f"the arguments: {error}") from None
    try:
        # A child reads these bytes many times faster.
        return marshalled(values)
    except ValueError:
        # A Counter, which `encode` carries as a dict.
        return data


def _refuse_value(expected: Any, output_bytes: int) -> None:
    """Raises ValueError for an expected value that no program can give."""
    try:
        size = len(canonical(expected, _MOST_VALUE_BYTES))
    except CodecError as error:
        raise ValueError(f"what is expected: {error}; no program can pass") from None
    # The bytes of a value are at most twice as long as its text.
    _refuse_size(size // 2, output_bytes)


def _refuse_size(size: int, output_bytes: int) -> None:
    if size > output_bytes:
        raise ValueError(f"what is expected has more than {output_bytes} bytes: give limits with more output_bytes")


def _assertion(text: str) -> tuple[str, Any]:
    """Returns the two sides of an assertion. Raises ValueError if it is not of the form that can be judged here."""
    text = text.strip()
    try:
        match ast.parse(text).body:
            case [ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]))]:
                # Lambdas, attributes and calls on the right would have to run, and that only the program's process can.
                return ast.unparse(left), _literal(text, right)
            case _:
                raise ValueError("the statement has another form")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"{text[:80]!r} is not `assert EXPRESSION == LITERAL`. Nothing else is judged, since a comparison inside "
            "the program's process can be forged by the program"
        ) from error


def _literal(text: str, node: ast.expr) -> Any:
    """Returns the value of a literal. Raises ValueError if it is none."""
    source = ast.get_source_segment(text, node) or ""
    try:
        # It reads `float('inf')` and `set([1, 2])` too, which Python prints and its own reader of literals refuses.
        return parse_literal(source, len(source.encode("utf-8", "surrogatepass")) + 1)
    except CodecError:
        return ast.literal_eval(node)


def _written(value: Any) -> str:
    try:
        return to_literal(value)
    except CodecError:
        # A Counter, which equals a dict.
        return ""


def _as_json(value: Any) -> Any:
    """Returns a value with lists in the place of tuples and texts in the place of other keys."""
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        texts = {_key(key): _as_json(item) for key, item in items.items()}
        # Two keys that would become one are kept apart, and equal nothing that JSON can say.
        return texts if len(texts) == len(items) else items
    return value


def _key(key: Any) -> Any:
    """Returns a key as JSON writes it."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return repr(key) if isinstance(key, int | float) else key


def _same(value: Any, expected: Any) -> bool:
    """Returns whether two plain values are equal, where NaN equals NaN."""
    # Both are plain, so that nothing of the program runs here.
    # Python takes an object for equal to itself, but in a container only.
    return value == expected or (_has_nan(expected) and [_with_one_nan(value)] == [_with_one_nan(expected)])


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nan, cast("dict[Any, Any]", value).items()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_nan, cast("Iterable[Any]", value)))
    return value != value


# What stands in the first place of a tuple, where no plain value has it.
_COMPLEX = object()
_SET = object()
_DICT = object()


def _with_one_nan(value: Any) -> Any:
    """Returns a value with the same object for every NaN."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value
    if isinstance(value, complex) and cmath.isnan(value):
        return (_COMPLEX, _with_one_nan(value.real), _with_one_nan(value.imag))
    if isinstance(value, list):
        return list(map(_with_one_nan, cast("list[Any]", value)))
    if isinstance(value, tuple):
        return tuple(map(_with_one_nan, cast("tuple[Any, ...]", value)))
    # A set may have several NaNs, and a dict several as keys: members that become one are counted, values listed.
    if isinstance(value, set | frozenset):
        return (_SET, frozenset(Counter(map(_with_one_nan, cast("set[Any]", value))).items()))
    if isinstance(value, dict):
        items: dict[Any, list[Any]] = {}
        for key, item in cast("dict[Any, Any]", value).items():
            items.setdefault(_with_one_nan(key), []).append(_with_one_nan(item))
        return (_DICT, items)
    return value


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
