"""The tests of a program: what is refused before it runs, and which values are right."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redqueen.jail import PROGRAMS, Call, Limits, Outcome, Sandbox, Script, judge
from redqueen.jail.cases import cases_of, names_called

NAN = float("nan")
Judge = Callable[..., Outcome]


@pytest.fixture(scope="module")
def judged() -> Iterator[Judge]:
    with Sandbox(PROGRAMS, workers=1) as sandbox:
        yield lambda program, *tests: judge(program, tests, sandbox=sandbox)


ECHO = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    "value",
    [
        *(NAN, [NAN, 1], (NAN,), {"a": NAN}, {NAN}, complex(NAN, 1)),
        *(
            float("inf"),
            -0.0,
            None,
            "",
            b"\xff",
            "\ud800",
            {1: (2, {3: frozenset({4})})},
            set(),
            Counter("aab"),
            10**4000,
        ),
    ],
)
def test_every_plain_value_is_carried_and_equals_itself(judged: Judge, value: Any) -> None:
    assert judged(ECHO, Call("f", (value,), value)).status == "ok"


@pytest.mark.parametrize(
    "test",
    [
        "assert f(1) == float('inf')",
        "assert f(1) == set([1, 2])",
        "assert f(1) == frozenset({1})",
        "assert f(1) == [float('nan'), float('-inf')]",
        "assert (f(1)) == (1,\n 2)",
        "assert f(1) == 'a' 'b', 'a message'",
    ],
)
def test_the_literal_of_an_assertion_is_what_python_prints(test: str) -> None:
    assert len(cases_of([test], 1000)) == 1


def test_values_of_json_have_no_tuples_and_only_texts_as_keys(judged: Judge) -> None:
    program = "def f():\n    return {1: (2, [(3,)]), None: True, 1.5: 'x'}"
    right = {"1": [2, [[3]]], "null": True, "1.5": "x"}
    assert judged(program, Call("f", (), right, json=True)).status == "ok"
    assert judged(program, Call("f", (), right)).status == "wrong"
    assert judged("def f():\n    return {1: 2, '1': 3}", Call("f", (), {"1": 3}, json=True)).status == "wrong"
    assert judged("def f():\n    return (1, 2)", Call("f", (), [2, 1], json=True)).status == "wrong"


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (Call("f", (), deque([1])), "test 0: what is expected: deque is not a plain"),
        (Call("f", (), range(3)), "range is not a plain"),
        (Call("f", (), object()), "object is not a plain"),
        (Call("f", (), [10**5000]), "more than 4200 digits"),
        (Call("f", (), "x" * 3000), "more than 1000 bytes: give limits"),
        (Call("f", (deque(),), 1), "the arguments: deque"),
        (Call("f", "abc", 1), "must be a list, not a str"),  # type: ignore[arg-type]
        (Call("f", {"a": 1}, 1), "must be a list, not a dict"),  # type: ignore[arg-type]
        (Call("f", 3, 1), "must be a list, not a int"),  # type: ignore[arg-type]
        (Call("f()", (), 1), "no name of a function"),
        (Call(None, (), 1), "no name of a function"),  # type: ignore[arg-type]
        (Script(None, "1"), "stdin must be a text, not None"),  # type: ignore[arg-type]
        (Script("1", b"1"), "stdout must be a text, not a bytes"),  # type: ignore[arg-type]
        (Script("", "x" * 1001), "more than 1000 bytes"),
        ("assert f() == g()", "can be forged"),
        (3, "a int is no test"),
    ],
)
def test_a_test_that_no_program_can_pass_is_refused(test: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        cases_of([test], 1000)


@pytest.mark.parametrize("tests", [[], "assert f() == 1", None, {"a": 1}])
def test_tests_must_be_a_list(tests: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a list|without a test"):
        cases_of(tests, 1000)


@pytest.mark.parametrize("name", ["frozenset", "float", "set", "complex", "None_", "f"])
def test_names_of_the_program_change_no_arguments(judged: Judge, name: str) -> None:
    program = f"def g(*values):\n    return len(values)\n{name} = 3\n"
    assert judged(program, Call("g", (frozenset({1}), NAN, {1}, complex(1, NAN)), 4)).status == "ok"


def test_a_method_is_called_on_a_new_object(judged: Judge) -> None:
    program = (
        "class Base:\n    def up(self, x):\n        return x + self.k\n"
        "class Solution(Base):\n    def __init__(self):\n        self.k = 1\n"
        "    @staticmethod\n    def same(x):\n        return x\n"
        "    @classmethod\n    def made(cls):\n        return cls.__name__\n"
    )
    calls = [Call("Solution.up", (1,), 2), Call("Solution.same", (1,), 1), Call("Solution.made", (), "Solution")]
    assert judged(program, *calls, Call("str.upper", ("a",), "A"), Call("len", ([1],), 1)).status == "ok"
    assert judged(program, Call("Solution.down", (1,), 1)).detail.startswith("AttributeError")
    assert judged(program, Call("nothing", (1,), 1)).detail.startswith("NameError")


DECORATED = """
import enum
from functools import cache, partialmethod, singledispatchmethod
class Bound:
    def __init__(self, function):
        self.function = function
    def __get__(self, owner, kind):
        return lambda *arguments: self.function(owner, *arguments)
class Solution:
    __slots__ = ("slot", "__dict__")
    table = {1: 2}
    size = len
    def __init__(self):
        self.slot = self.own = lambda x: x
    @cache
    def fib(self, n):
        return n if n < 2 else self.fib(n - 1) + self.fib(n - 2)
    @Bound
    def bound(self, x):
        return x if isinstance(self, Solution) else None
    def second(self, first, x):
        return x
    partial = partialmethod(second, 0)
    @singledispatchmethod
    def single(self, x):
        return x
    @property
    def made(self):
        return self.own
    class Inner:
        def same(self, x):
            return x
class Colour(enum.Enum):
    RED = 1
    def same(self, x):
        return x
class Needy:
    table = {1: 2}
    size = len
    def __init__(self, needed):
        pass
    @staticmethod
    def same(x):
        return x
"""
OF_THE_CLASS = (
    *("Solution.table.get", "Solution.Inner.same", "Colour.RED.same"),
    *("Needy.table.get", "Needy.same", "Needy.size"),
)


def test_a_method_may_be_decorated_or_made_by_the_object(judged: Judge) -> None:
    names = ("bound", "partial", "single", "made", "own", "slot")
    calls = [Call(f"Solution.{name}", (7,), 7) for name in names]
    outcome = judged(DECORATED, Call("Solution.fib", (10,), 55), *calls)
    assert outcome.status == "ok", outcome


def test_what_belongs_to_a_class_needs_no_object(judged: Judge) -> None:
    given = {"table.get": (1, 2), "size": ([1], 1)}
    for name in OF_THE_CLASS:
        argument, value = given.get(name.partition(".")[2], (7, 7))
        outcome = judged(DECORATED, Call(name, (argument,), value))
        assert outcome.status == "ok", (name, outcome)
    assert judged("import datetime", Call("datetime.date.fromordinal", (1,), 0)).detail.startswith(
        "date is not a plain"
    )
    assert judged("", Call("dict.fromkeys", ("a", 1), {"a": 1})).status == "ok"


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        ("{1.0, nan}", {1, NAN}, True),
        ("{(1.0, nan)}", {(1, NAN)}, True),
        ("{frozenset({nan, True})}", {frozenset({NAN, 1})}, True),
        ("{nan: [nan, 1]}", {NAN: [NAN, 1.0]}, True),
        ("{(nan, 1): {nan}}", {(NAN, 1): {NAN}}, True),
        ("{complex(1, nan)}", {complex(1, NAN)}, True),
        ("{complex(1, nan)}", {complex(NAN, 1)}, False),
        ("{nan, float('nan')}", {NAN}, False),
        ("{nan, float('nan')}", {NAN, float("nan")}, True),
        ("{nan, 1}", {NAN, 2}, False),
        ("{nan: 1}", {NAN: 2}, False),
        ("{nan: 1}", {"nan": 1}, False),
        ("[nan]", (NAN,), False),
        ("nan", complex(NAN, 0), False),
        ("None", NAN, False),
    ],
)
def test_nan_equals_nan_wherever_it_is(judged: Judge, value: str, expected: Any, equal: bool) -> None:
    outcome = judged(f"nan = float('nan')\ndef f():\n    return {value}", Call("f", (), expected))
    assert outcome.status == ("ok" if equal else "wrong"), outcome


@pytest.mark.parametrize("value", [{"a" * 2_000_000}, {("a" * 2_000_000, b"b")}, frozenset({b"a" * 2_000_000})])
def test_a_member_of_a_set_may_be_as_long_as_a_value(judged: Judge, value: Any) -> None:
    assert judged(ECHO, Call("f", (value,), value)).status == "ok"


def test_there_may_be_any_number_of_tests(judged: Judge) -> None:
    assert judged(ECHO, *(Call("f", (number,), number) for number in range(300))).status == "ok"
    late = judged(ECHO, *(f"assert f({number}) == {min(number, 290)}" for number in range(300)))
    assert (late.status, late.detail) == ("wrong", "test 291 gave 291")


def test_long_lists_are_arguments_and_values(judged: Judge) -> None:
    values = list(range(200_000))
    assert judged("def f(xs):\n    return xs[::-1]", Call("f", (values,), values[::-1])).status == "ok"


def test_the_names_that_tests_call() -> None:
    tests = ["assert sorted(add(x) for x in [1]) == [2]", Call("Solution.g", (), 1), Script("", "")]
    assert names_called(tests) == ("add", "Solution")
    assert names_called([Script("", "")]) == ()


@pytest.mark.parametrize("program", ["print(10**5000)", "print(int(input()) * 10)"])
def test_ints_of_any_length_are_printed_and_read(judged: Judge, program: str) -> None:
    assert judged(program, Script("1" + "0" * 4999, "1" + "0" * 5000)).status == "ok"


def test_the_limit_of_output_can_be_raised(judged: Judge) -> None:
    program = "print('x' * (1 << 20))"
    low, high = (Limits(cpu_s=6, wall_s=60, output_bytes=most) for most in (1 << 20, 1 << 21))
    assert judge(program, [Script("", "")], limits=low).status == "oversize"
    assert judge(program, [Script("", "x" * (1 << 20))], limits=high).status == "ok"


@pytest.mark.parametrize("test", ["assert 1 == 1", Call("len", ((),), 0), Script("", "")])
def test_a_module_off_the_list_is_forbidden_in_every_test(judged: Judge, test: Any) -> None:
    assert judged("import os", test).status == "forbidden"


@pytest.mark.parametrize("module", [name for name in PROGRAMS.modules if name != "builtins"])
def test_every_module_of_the_list_can_be_imported(judged: Judge, module: str) -> None:
    assert judged(f"import {module}", Script("", "")).status == "ok"


def test_the_documentation_lists_what_may_be_imported() -> None:
    text = (Path(__file__).parents[2] / "docs" / "JAIL.md").read_text(encoding="utf-8")
    listed = text.partition("and no others:\n`")[2].partition("`")[0].split()
    # Not for programs, or only loaded because another module needs it.
    own = {"standard_streams", "whole_program", "_strptime", "urllib", "__future__"}
    assert set(listed) == set(PROGRAMS.modules) - own
