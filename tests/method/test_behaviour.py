"""Behaviours: the same for programs that do the same, none for programs that take too long, and what can be guessed."""

from __future__ import annotations

import pytest

from redqueen.method.behaviour import Behaviour, behaviours
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, Task


def task(body: str, given: str, output: str, name: str = "t", parameters: str = "x") -> Task:
    program = f"def f({parameters}):\n    {body}"
    pairs = (Pair(given, output),)
    return Task(id=name, kind="code_i", author="T0", step=1, program=program, pairs=pairs)


def behaviour(verifier: LocalVerifier, *tasks: Task) -> Behaviour | None:
    return behaviours(tasks, verifier).get(tasks[0].id)


def test_programs_that_do_the_same_have_one_behaviour_and_others_another(verifier: LocalVerifier) -> None:
    one = task("return x + 3", "1", "4", "one")
    same = task("y = 1 + x\n    return y + 2", "7", "10", "same")
    other = task("return x + 4", "1", "5", "other")
    text = task("return x + x", "'a'", "'aa'", "text")
    cells = {name: found.cell for name, found in behaviours([one, same, other, text], verifier).items()}
    assert cells["one"] == cells["same"]
    assert len(set(cells.values())) == 3


@pytest.mark.parametrize(
    ("body", "given", "output", "by_random", "by_echo", "by_few"),
    [
        ("return x * 1000 + 7", "5", "5007", False, False, False),
        # Most lists hold no 77.
        ("return 77 in x", "[1, 2]", "False", True, False, True),
        ("return sorted(x)", "[3, 1]", "[1, 3]", False, True, False),
        ("return len(x) % 3", "[3, 1]", "2", False, False, True),
        # An error is an outcome of its own, and no output.
        ("return 10 // (x % 4) + x", "5", "15", False, False, False),
    ],
)
def test_what_can_be_guessed(
    body: str, given: str, output: str, by_random: bool, by_echo: bool, by_few: bool, verifier: LocalVerifier
) -> None:
    found = behaviour(verifier, task(body, given, output))
    assert found is not None
    assert (found.same_output_rate >= 0.4, found.echo) == (by_random, by_echo)
    assert (found.distinct_outputs is not None and found.distinct_outputs <= 3) == by_few


def test_a_program_that_takes_too_long_or_takes_the_calls_over_has_no_behaviour(verifier: LocalVerifier) -> None:
    endless = task("while x > 0:\n        pass\n    return x", "0", "0")
    assert behaviour(verifier, endless) is None
    taken = task("global _called\n    _called = 3\n    return x", "0", "0")
    spoilt = behaviour(verifier, taken)
    assert spoilt is None or spoilt.distinct_outputs is None
    leaves = task("raise SystemExit", "0", "0")
    assert behaviour(verifier, leaves) is None


def test_the_types_of_the_inputs_come_from_all_pairs(verifier: LocalVerifier) -> None:
    pairs = (Pair("[1], 'a'", "'[1]a'"), Pair("['b'], 'a'", "\"['b']a\""))
    both = Task(id="t", kind="code_f", author="T0", step=1, program="def f(x, y):\n    return str(x) + y", pairs=pairs)
    found = behaviour(verifier, both)
    assert found is not None
    assert found.inputs == 20


def test_a_behaviour_is_the_same_each_time(verifier: LocalVerifier) -> None:
    sets = task("return sorted(set(x)), {'k': x}", "['a', 'b']", "(['a', 'b'], {'k': ['a', 'b']})")
    assert behaviour(verifier, sets) == behaviour(verifier, sets) is not None
