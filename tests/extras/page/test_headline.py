"""What the overview answers first, on lines that were made up."""

from __future__ import annotations

from typing import Any

import pytest

from redqueen.extras.page.headline import RECENT, better, contested_share, health, winners


def line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, **more}


def held_out(**students: tuple[float, float | None, float | None]) -> dict[str, Any]:
    scores = {
        name: {"rate": 0.3 + gain, "gain": gain, "low": low, "high": high}
        for name, (gain, low, high) in students.items()
    }
    return {"problems": 250, "start": 0.3, "students": scores}


def test_a_student_is_better_if_its_interval_is_above_zero() -> None:
    lines = [
        line(1, held_out=held_out(S0=(0.5, 0.4, 0.6))),
        line(2, held_out=held_out(S0=(0.08, 0.03, 0.13), S1=(0.02, -0.03, 0.07))),
        line(3),
    ]
    found = better(lines, 1, 9)
    assert (found["value"], found["tone"]) == ("yes: 1 of 2 students", "good")
    assert found["text"] == "The 2 students: +5.0 points on average on 250 held-out problems after step 2."
    alone = better(lines[:1], 1, 9)
    where = "on 250 held-out problems after step 1 (95 % interval)"
    assert (alone["value"], alone["text"]) == ("yes", f"S0: +50.0 [+40.0, +60.0] points {where}.")


def test_yes_and_no_are_corrected_for_the_number_of_students() -> None:
    just = (0.051, 0.001, 0.101)
    assert better([line(1, held_out=held_out(S0=just))], 1, 9)["value"] == "yes"
    # Among eight students one is so far above by chance in every eighth run.
    others = {f"S{number}": (0.0, -0.05, 0.05) for number in range(1, 8)}
    assert better([line(1, held_out=held_out(S0=just, **others))], 1, 9)["value"] == "no clear gain"
    clear = (0.2, 0.1, 0.3)
    assert better([line(1, held_out=held_out(S0=clear, **others))], 1, 9)["value"] == "yes: 1 of 8 students"
    below = {f"S{number}": (-0.051, -0.101, -0.001) for number in range(8)}
    assert better([line(1, held_out=held_out(**below))], 1, 9)["value"] == "no clear gain"


def test_a_newborn_does_not_count_as_its_parent() -> None:
    same = (0.08, 0.03, 0.13)
    members = {"S0": {"born": 0}, "S2": {"born": 4}}
    found = better([line(4, held_out=held_out(S0=same, S2=same), members=members)], 4, 9)
    assert found["value"] == "yes"
    assert found["text"].endswith("Born in that step, so not counted: S2.")
    # A step later it has learned something itself.
    assert better([line(5, held_out=held_out(S0=same, S2=same), members=members)], 5, 9)["value"].startswith(
        "yes: 2 of 2"
    )


def test_few_problems_are_said_to_be_few() -> None:
    few = {**held_out(S0=(0.0, 0.0, 0.0)), "problems": 9}
    assert "`redqueen eval`" in better([line(4, held_out=few)], 4, 9)["text"]
    assert "few" not in better([line(4, held_out=held_out(S0=(0.0, -0.1, 0.1)))], 4, 9)["text"]


def test_where_no_interval_is_above_zero_nothing_is_claimed() -> None:
    assert better([line(4, held_out=held_out(S0=(0.02, -0.03, 0.07)))], 4, 9)["value"] == "no clear gain"
    # One problem gives no interval.
    alike = better([line(4, held_out=held_out(S0=(0.5, None, None)))], 4, 9)
    assert alike["value"] == "no clear gain"
    assert "after step 4 (no interval: every problem changed in the same way)." in alike["text"]
    same = better([line(4, held_out=held_out(S0=(0.0, None, None)))], 4, 9)
    assert "after step 4 (no interval: no problem changed)." in same["text"]
    assert better([line(4, held_out=held_out(S0=(-0.2, -0.3, -0.1)))], 4, 9)["value"] == "no: below the start"


def test_it_says_when_there_will_be_an_answer_and_how_to_get_one() -> None:
    assert better([], 6, 9)["text"] == "Held-out problems are asked after step 6."
    # A short run asks them at its end.
    assert better([], 20, 9)["text"] == "Held-out problems are asked after step 9."
    assert better([line(3)], 6, 9)["value"] == "not known yet"
    assert "redqueen eval" in better([line(3)], 0, 9)["text"]


def played(step: int, valid: float | None, contested: int, **outcomes: int) -> dict[str, Any]:
    return line(
        step, valid_rate=valid, tasks_by_kind={"code_o": 10}, contested_by_kind={"code_o": contested}, outcomes=outcomes
    )


def test_health_is_that_of_the_last_steps() -> None:
    old = [played(step, 0.1, 0, student=9) for step in range(1, 4)]
    new = [played(step, 0.8, 5, student=1, teacher=2, draw=1) for step in range(4, 4 + RECENT)]
    found = health([*old, *new])
    assert (found["value"], found["tone"]) == ("80% valid, 50% contested", "good")
    assert found["text"] == "In the last 10 steps; healthy: at least 50% valid, at least 10% contested."


def test_what_is_wrong_is_said_first() -> None:
    assert health([played(1, 0.3, 5)])["text"].startswith("Most proposals are refused. In the last step;")
    assert health([played(1, 0.9, 0)])["tone"] == "bad"
    assert "no member learns" in health([played(1, 0.9, 0)])["text"]


def test_tasks_that_can_be_guessed_are_a_matter_of_health_above_a_third() -> None:
    fine = health([{**played(1, 0.9, 5), "guessable": {"rate": 0.3}}])
    assert (fine["value"], fine["tone"]) == ("90% valid, 50% contested", "good")
    assert "at most 33% guessable" in fine["text"]
    bad = health([{**played(1, 0.9, 5), "guessable": {"rate": 0.44}}])
    assert (bad["value"], bad["tone"]) == ("90% valid, 50% contested, 44% guessable", "bad")


def test_a_winner_is_named_only_where_chance_is_no_reason() -> None:
    few = winners([played(1, 0.9, 5, student=3, teacher=1)])
    assert few is not None
    assert few["value"] == "neither side clearly"
    assert "students won 3, teachers 1, 0 drawn" in few["text"]
    many = winners([played(step, 0.9, 5, teacher=3, student=1) for step in range(1, 9)])
    assert many is not None
    assert many["value"] == "teachers"
    assert winners([played(1, 0.9, 5)]) is None


@pytest.mark.parametrize(("won", "lost", "clear"), [(5, 0, False), (6, 0, True), (7, 1, False), (8, 1, True)])
def test_few_games_name_a_side_only_by_the_exact_test(won: int, lost: int, clear: bool) -> None:
    found = winners([played(1, 0.9, 5, student=won, teacher=lost, draw=3)])
    assert found is not None
    assert found["value"] == ("students" if clear else "neither side clearly")


def test_what_a_run_does_not_have_is_not_shown() -> None:
    assert health([played(1, None, 5)])["value"] == "50% contested"
    assert health([line(1)])["value"] == "not known"
    assert health([])["value"] == "not known yet"
    assert contested_share(line(1)) is None
