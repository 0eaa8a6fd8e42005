"""Features of programs and types of values: what they are, and that they are the same everywhere."""

from __future__ import annotations

import ast
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from redqueen.tasks.programs.coverage import functions_of, path_id, paths_of
from redqueen.tasks.programs.normal_form import shape
from redqueen.tasks.programs.signatures import COUNT, arguments_of, signature, size_of, typed_inputs, types_of

PROGRAM = "import math as m\nfrom operator import add\ndef f(x):\n    return m.gcd(len(x), add(x[0], 3)) + x.index(3)"


def test_paths_are_three_nodes_from_parent_to_child_without_names_and_values() -> None:
    tree = ast.parse("def f(x):\n    return x + 3")
    below_return = {("Return", "BinOp", label) for label in ("Name", "Add", "Constant:int")}
    above = {("Module", "FunctionDef", "arguments"), ("FunctionDef", "arguments", "arg")}
    others = {("Module", "FunctionDef", "Return"), ("FunctionDef", "Return", "BinOp")}
    assert paths_of(tree) == {path_id(path) for path in below_return | above | others}
    assert paths_of(ast.parse("def f(number):\n    return number + 70")) == paths_of(tree)
    assert paths_of(ast.parse("def f(x):\n    return x + 'a'")) != paths_of(tree)


def test_functions_are_builtins_modules_and_methods_that_the_program_does_not_define() -> None:
    assert functions_of(ast.parse(PROGRAM)) == {"math.gcd", "len", "operator.add", ".index"}
    own = "class A:\n    def m(self):\n        return 1\ndef len(x):\n    return A().m()\ndef f(x):\n    return len(x)"
    assert functions_of(ast.parse(own)) == frozenset()


def test_features_are_the_same_in_another_process() -> None:
    code = (
        f"import ast; from redqueen.tasks.programs.coverage import *; print(*sorted(paths_of(ast.parse({PROGRAM!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == paths_of(ast.parse(PROGRAM))


def test_a_signature_tells_types_and_not_values() -> None:
    assert signature([([1, 2], "a")], [True]) == "list[int], str -> bool"
    assert signature([([1, "b"],), ([],)], [None, 1.5]) == "list[int|str] -> None|float"
    assert signature([()], [{}]) == " -> dict[, ]"
    assert signature([((1, "a"), (1,) * 5)], [{"k": [1]}]) == "tuple[int, str], tuple...[int] -> dict[str, list[int]]"
    # What lies deeper than three containers is not told apart.
    assert signature([([[[[[1]]]]],)], [1]) == "list[list[list[list]]] -> int"


def test_sizes_count_what_is_held() -> None:
    assert [size_of(value) for value in (7, None, "", "abc", [], [1, [2, "ab"]], {"ab": 1})] == [1, 1, 1, 3, 1, 4, 3]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.sets(st.integers())
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=3))
def test_typed_inputs_have_the_types_that_were_asked_for_and_never_change(call: list[object]) -> None:
    arguments = arguments_of([call])
    drawn = typed_inputs(arguments)
    assert 1 <= len(drawn) <= COUNT
    assert repr(drawn) == repr(typed_inputs(arguments))
    for drawn_call in drawn:
        assert len(drawn_call) == len(call)
        for drawn_value, value in zip(drawn_call, call, strict=True):
            assert type(drawn_value) is type(value)


def test_the_inputs_of_common_types_are_many_and_differ() -> None:
    assert len(typed_inputs(arguments_of([[[1, 2]]]))) == COUNT
    assert len(typed_inputs((types_of([True]),))) == 2


def test_hashes_of_features_are_the_same_in_each_version_of_python() -> None:
    """They are stored in archives. The values below are those of 3.11, 3.12 and 3.13."""
    assert path_id(("Return", "BinOp", "Add")) == "ayGp"
    program = "def f(x: int=3):\n    g = lambda y, *z: f'{y!r}'\n    return [g(i) for i in x if i] + [-1]"
    assert shape(program) == "22f52463440de1acd6297472"
