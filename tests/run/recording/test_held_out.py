"""The students' scores on held-out problems, beside the start's."""

from __future__ import annotations

from typing import Any

import pytest

from redqueen.evals.held_out import START, HeldOutAnswer
from redqueen.run.recording.metrics.dynamics import (
    LEAST_OF_A_KIND,
    SHOWN,
    held_out_by_kind_scores,
    held_out_lines,
    held_out_scores,
    rates,
    sentence,
)
from redqueen.run.recording.terminal import headline
from redqueen.store.metrics import StepMetrics


def answers(member: str, *right: bool | None, benchmark: str = "reserved", kind: str = "") -> list[HeldOutAnswer]:
    statuses = {True: "correct", False: "wrong", None: "infra_error"}
    return [
        HeldOutAnswer(
            member=member,
            benchmark=benchmark,
            problem=f"{number}-{kind}" if kind else str(number),
            text="",
            status=statuses[one],
            tokens=1,
            cut_off=False,
        )
        for number, one in enumerate(right)
    ]


def test_scores_by_benchmark_and_all_together() -> None:
    start = answers(START, False, True, False, False)
    made = [*answers("S0", True, True, False, None), *answers("S1", None, None, None, None)]
    assert rates(made) == {"reserved": {"S0": pytest.approx(2 / 3), "S1": None}}
    found = held_out_scores(made, start)
    assert found is not None
    # The machine lost a problem, which counts for nobody: rate less start is the gain.
    assert found["problems"] == 3
    assert found["start"] == pytest.approx(1 / 3)
    assert found["students"].keys() == {"S0"}
    score = found["students"]["S0"]
    assert score["rate"] == pytest.approx(2 / 3)
    # Of the three problems that both have, the student is right at one more: 1, 0, 0 with t(2) = 4.303.
    assert score["gain"] == pytest.approx(1 / 3)
    assert score["low"] == pytest.approx(1 / 3 - 4.3027 / 3, abs=1e-3)
    assert score["high"] == pytest.approx(1 / 3 + 4.3027 / 3, abs=1e-3)


def test_problems_of_two_benchmarks_are_told_apart_by_the_benchmark() -> None:
    start = [*answers(START, True), *answers(START, False, benchmark="other")]
    found = held_out_scores([*answers("S0", True), *answers("S0", True, benchmark="other")], start)
    assert found is not None
    assert (found["problems"], found["start"], found["students"]["S0"]["gain"]) == (2, 0.5, 0.5)


def test_students_are_scored_on_the_problems_that_all_of_them_answered() -> None:
    start = answers(START, None, True, False, True, False)
    found = held_out_scores([*answers("S0", True, True, None, True, True), *answers("S1", *[True] * 5)], start)
    assert found is not None
    assert (found["problems"], found["start"]) == (3, pytest.approx(2 / 3))
    assert found["students"]["S0"] == found["students"]["S1"]
    assert sentence("S0", found).startswith("S0 solves 100 % of 3 held-out tasks, the start 67 %: +33")


def test_each_kind_has_its_scores_over_the_problems_that_all_answered() -> None:
    start = [*answers(START, True, False, kind="code_i"), *answers(START, False, True, kind="code_o")]
    start += answers(START, True, benchmark="HumanEval+")
    first = [*answers("S0", True, True, kind="code_i"), *answers("S0", True, None, kind="code_o")]
    second = [*answers("S1", False, True, kind="code_i"), *answers("S1", False, True, kind="code_o")]
    found = held_out_by_kind_scores([*first, *second], start)
    assert found == {
        "code_i": {"problems": 2, "start": 0.5, "students": 0.75},
        "code_o": {"problems": 1, "start": 0.0, "students": 0.5},
    }
    assert held_out_by_kind_scores(first, []) == held_out_by_kind_scores([], start) == {}


def test_the_end_of_a_run_says_it_by_kind_where_each_has_many_problems() -> None:
    kinds = {"code_i": {"problems": 70, "start": 0.3, "students": 0.474}}
    kinds["code_o"] = {"problems": LEAST_OF_A_KIND, "start": 0.2, "students": 0.21}
    line = last(scores(S0=0.2), S0=1.0)
    line["held_out_by_kind"] = kinds
    said = "by kind, from the start to the mean of the students: code_i 30 to 47 %, code_o 20 to 21 %"
    assert held_out_lines([line])[1] == said
    kinds["code_o"]["problems"] -= 1
    assert said not in held_out_lines([line])


def test_without_a_start_or_answers_there_is_nothing_to_compare() -> None:
    assert held_out_scores(answers("S0", True), []) is None
    assert held_out_scores([], answers(START, True)) is None


def scores(**gains: float) -> dict[str, Any]:
    return {
        "problems": 140,
        "start": 0.21,
        "students": {
            name: {"rate": 0.21 + gain, "gain": gain, "low": gain - 0.05, "high": gain + 0.05}
            for name, gain in gains.items()
        },
    }


def test_a_student_has_a_sentence() -> None:
    assert sentence("S2", scores(S2=0.07)) == "S2 solves 28 % of 140 held-out tasks, the start 21 %: +7 [2, 12]"
    worse = sentence("S2", scores(S2=-0.07))
    assert worse == "S2 solves 14 % of 140 held-out tasks, the start 21 %: -7 [-12, -2]"


def last(found: dict[str, Any] | None, **fitness: float) -> StepMetrics:
    line: StepMetrics = {
        "step": 3,
        "seconds": {"total": 12.0},
        "valid_rate": 0.5,
        "statuses": {"proposals": {"valid": 1}, "attempts": {}},
        "solve_rate": 0.5,
        "solve_rate_by_kind": {"code_o": 0.5},
        "contested_by_kind": {"code_o": 4},
        "outcomes": {"student": 0, "draw": 0, "teacher": 1},
        "replacements": [],
        "members": {name: {"fitness": value} for name, value in fitness.items()},
    }
    return line if found is None else {**line, "held_out": found}


def test_the_end_of_a_run_says_it_of_the_fittest_students_and_not_of_the_best_scored() -> None:
    lines = held_out_lines([last(scores(S0=0.2, S1=0.0), S0=1.0, S1=9.0)])
    assert [line.split()[0] for line in lines[:2]] == ["S1", "S0"]
    line = last(scores(S0=0.1, S1=0.1, S2=0.1), S0=-0.3, S1=-0.1)
    line["members"]["S2"] = {"fitness": None}
    assert [text.split()[0] for text in held_out_lines([line])[:3]] == ["S1", "S0", "S2"], "unknown comes last"
    many = {f"S{number}": number / 100 for number in range(SHOWN + 1)}
    lines = held_out_lines([last(scores(**many), **many)])
    assert lines[SHOWN] == "all 5 students on average: +2"
    assert held_out_lines([last(None, S0=1.0)]) == held_out_lines([]) == []


def test_the_line_of_a_step_has_the_scores() -> None:
    assert "held out S0 26%, S1 20% (start 21%)" in headline(last(scores(S0=0.05, S1=-0.01), S0=1.0, S1=1.0))
    assert "held out" not in headline(last(None, S0=1.0))
