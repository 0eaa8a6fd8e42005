"""evalplus' rules on values, without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from redqueen.extras.benchmarks.evalplus_rules import Comparison, asked, mbpp_arguments


@pytest.mark.parametrize(
    ("number", "given", "meant"),
    [
        ("2", [[1, 2], [3]], ((1, 2), (3,))),
        ("63", [[[1, 2], [3, 4]]], ([(1, 2), (3, 4)],)),
        ("75", [[[1, 2]], 3], ([(1, 2)], 3)),
        ("106", [[1], [2]], ([1], (2,))),
        ("115", [[[1, 1], [], {}]], ([{1}, {}, {}],)),
        ("124", ["1", "2j"], (1.0, 2j)),
        ("252", ["1+2j"], (1 + 2j,)),
        ("250", [[1], 2], ((1,), 2)),
        ("259", [[[1, 2]], [[3, 4]]], (((1, 2),), ((3, 4),))),
        ("278", [[1, [2], "a"]], ((1, (2,), "a"),)),
        ("307", [[1], 2, 3], ((1,), 2, 3)),
        ("722", [{"a": [1, 2]}, 3], ({"a": (1, 2)}, 3)),
        ("580", [[1, [2, [3]]]], ((1, (2, (3,))),)),
        ("3", [[1, [2]], "a"], ([1, [2]], "a")),
    ],
)
def test_inputs_of_mbpp_get_the_types_that_json_has_not(number: str, given: list[Any], meant: tuple[Any, ...]) -> None:
    arguments = mbpp_arguments(f"Mbpp/{number}", given)
    assert arguments == meant
    assert repr(arguments) == repr(meant)


def equal(benchmark: str, name: str, output: Any, expected: Any, *arguments: Any, atol: float = 0) -> bool:
    return Comparison(benchmark, {"entry_point": name, "atol": atol}).equal(arguments, output, expected)


@pytest.mark.parametrize(
    ("output", "expected", "right"),
    [
        (1, True, True),
        (1.0, 1, True),
        ([1], (1,), False),
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        ([0.1 + 0.2], [0.3], True),
        ((0.1 + 0.2,), [0.3], False),
        ([0.3], [0.3, 0.3], False),
        ("0.3", 0.3, False),
        (float("nan"), float("nan"), False),
        (None, None, True),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, False),
    ],
)
def test_outputs_are_compared_as_python_does_with_a_tolerance_for_floats(
    output: Any, expected: Any, right: bool
) -> None:
    assert equal("humaneval+", "f", output, expected) == right


def test_a_tolerance_of_the_problem_holds_for_numbers_of_one_type() -> None:
    assert equal("mbpp+", "f", 1.00009, 1.0, atol=1e-4)
    assert not equal("mbpp+", "f", 1.001, 1.0, atol=1e-4)
    assert not equal("mbpp+", "f", 1, 1.00009, atol=1e-4)


def test_a_float_among_the_expected_outputs_brings_its_tolerance_for_all_after_it() -> None:
    comparison = Comparison("humaneval+", {"entry_point": "f", "atol": 0})
    assert not comparison.equal((), [1, 2.0 + 1e-9], [1, 2])
    assert comparison.equal((), 0.5, 0.5)
    assert comparison.equal((), [1, 2.0 + 1e-9], [1, 2])


def test_some_problems_have_rules_of_their_own() -> None:
    assert asked("mbpp+", "Diff") == ("set", "set")
    assert asked("humaneval+", "Diff") == ("value", "value")
    assert asked("mbpp+", "check_str") == ("not none", "some")
    # The list and its set: another order and another number of times is right.
    assert equal("mbpp+", "Diff", ([2, 1, 1], {1, 2}), ([1, 2], {1, 2}))
    assert not equal("mbpp+", "Diff", ([1], {1}), ([1, 2], {1, 2}))
    assert equal("mbpp+", "are_equivalent", True, False)
    assert equal("mbpp+", "sum_div", 0, 3, 7)
    assert not equal("mbpp+", "sum_div", 1, 3, 7)
    assert equal("mbpp+", "surface_Area", 35, 1, 3, 4)
    assert not equal("mbpp+", "surface_Area", 34, 1, 3, 4)
    assert not equal("mbpp+", "surface_Area", "35", 1, 3, 4)
    assert equal("mbpp+", "digit_distance_nums", 1, 3, 12, 2)
    assert equal("humaneval+", "find_zero", -0.5, 9, [1, 2], atol=1e-4)
    assert not equal("humaneval+", "find_zero", 0.5, 0.5, [1, 2], atol=1e-4)
    assert not equal("humaneval+", "find_zero", 1e300, 0.5, [0, 0, 1], atol=1e-4)
