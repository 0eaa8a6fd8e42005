"""CRUXEval: how an assertion with a gap is posed, and what is read from the texts that complete it."""

from __future__ import annotations

import pytest

from redqueen.evals.benchmark import Benchmark
from redqueen.extras.benchmarks.cruxeval import CRUXEVAL_I, CRUXEVAL_O
from tests.evals.rows import CRUXEVAL

ROW = CRUXEVAL[1]


def test_the_gap_is_the_output_or_the_input() -> None:
    output = CRUXEVAL_O.pose(CRUXEVAL_O.problem(ROW), "assert")
    assert output.text.endswith("assert f('ab', 2) ==")
    assert "'abab'" not in output.text
    given = CRUXEVAL_I.pose(CRUXEVAL_I.problem(ROW), "assert")
    assert given.text.endswith("returns 'abab'\nassert f(")
    assert "'ab', 2" not in given.text


@pytest.mark.parametrize(
    ("benchmark", "text", "answer"),
    [
        (CRUXEVAL_O, " 'abab'", "'abab'"),
        (CRUXEVAL_O, " 'a==b' # done\n\ndef f(x):", "'a==b'"),
        (CRUXEVAL_O, "'abab', 'a message'", "'abab'"),
        (CRUXEVAL_O, "assert f('ab', 2) == 'abab'\n[/ANSWER]", "'abab'"),
        (CRUXEVAL_O, "f doubles.\n[/THOUGHT]\n[ANSWER]\nassert f('ab', 2) == 'abab'\n[/ANSWER]\nMore", "'abab'"),
        (CRUXEVAL_O, " [1,", "[1,"),
        (CRUXEVAL_O, "\n", None),
        (CRUXEVAL_I, "'ab', 2) == 'abab'", "f('ab', 2)"),
        (CRUXEVAL_I, "'ab', len('ab')) == 'abab' # done", "f('ab', len('ab'))"),
        (CRUXEVAL_I, "[ANSWER]\nassert f('ab', 2) == 'abab'\n[/ANSWER]", "f('ab', 2)"),
        (CRUXEVAL_I, "'ab', 2", "'ab', 2"),
        (CRUXEVAL_I, "'ab', 2)", "'ab', 2"),
        (CRUXEVAL_I, "[ANSWER]f([1, 2])[/ANSWER]", "f([1, 2])"),
        (CRUXEVAL_I, "[ANSWER]f([1]) == [1][/ANSWER]", "f([1])"),
        (CRUXEVAL_I, "[ANSWER](1, 2)[/ANSWER]", "(1, 2)"),
        (CRUXEVAL_O, "[ANSWER]f([1]) == [1][/ANSWER]", "[1]"),
        (CRUXEVAL_I, "", None),
    ],
)
def test_the_forms_of_the_published_prompts_are_read(benchmark: Benchmark, text: str, answer: str | None) -> None:
    assert benchmark.read(benchmark.problem(ROW), "assert", text) == answer


def test_with_work_the_answer_behind_it_is_read() -> None:
    output, given = CRUXEVAL_O.problem(ROW), CRUXEVAL_I.problem(ROW)
    assert CRUXEVAL_O.pose(output, "work").stop == ("\n\n",)
    assert CRUXEVAL_O.read(output, "work", "\nreturn 'ab' * 2 -> 'abab'") == "'abab'"
    assert (
        CRUXEVAL_I.read(given, "work", "'ab', 1)\nreturn 'ab' * 1 -> 'ab'\nf('ab', 2)\nreturn -> 'abab'") == "'ab', 2"
    )
