"""What the overview answers first, on lines that were made up."""

from __future__ import annotations

from typing import Any

from redqueen.extras.page.headline import RECENT, better, contested_share, health


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
    found = better(lines, 1)
    assert (found["value"], found["tone"]) == ("yes: 1 of 2 students", "good")
    assert found["text"] == "The 2 students: +5.0 points on average on 250 held-out problems after step 2."
    alone = better(lines[:1], 1)
    where = "on 250 held-out problems after step 1 (95 % interval)"
    assert (alone["value"], alone["text"]) == ("yes", f"S0: +50.0 [+40.0, +60.0] points {where}.")


def test_yes_and_no_are_corrected_for_the_number_of_students() -> None:
    just = (0.051, 0.001, 0.101)
    assert better([line(1, held_out=held_out(S0=just))], 1)["value"] == "yes"
    # Among eight students one is so far above by chance in every eighth run.
    others = {f"S{number}": (0.0, -0.05, 0.05) for number in range(1, 8)}
    assert better([line(1, held_out=held_out(S0=just, **others))], 1)["value"] == "not shown"
    clear = (0.2, 0.1, 0.3)
    assert better([line(1, held_out=held_out(S0=clear, **others))], 1)["value"] == "yes: 1 of 8 students"
    below = {f"S{number}": (-0.051, -0.101, -0.001) for number in range(8)}
    assert better([line(1, held_out=held_out(**below))], 1)["value"] == "not shown"


def test_where_no_interval_is_above_zero_nothing_is_claimed() -> None:
    assert better([line(4, held_out=held_out(S0=(0.02, -0.03, 0.07)))], 4)["value"] == "not shown"
    # One problem gives no interval.
    assert better([line(4, held_out=held_out(S0=(0.5, None, None)))], 4)["value"] == "not shown"
    assert better([line(4, held_out=held_out(S0=(-0.2, -0.3, -0.1)))], 4)["value"] == "no: below it"


def test_it_says_when_there_will_be_an_answer_and_how_to_get_one() -> None:
    assert better([], 6)["text"] == "Held-out problems are asked after step 6."
    assert better([line(3)], 6)["value"] == "not known yet"
    assert "redqueen eval" in better([line(3)], 0)["text"]


def played(step: int, valid: float | None, contested: int, **outcomes: int) -> dict[str, Any]:
    return line(
        step, valid_rate=valid, tasks_by_kind={"code_o": 10}, contested_by_kind={"code_o": contested}, outcomes=outcomes
    )


def test_health_is_that_of_the_last_steps() -> None:
    old = [played(step, 0.1, 0, student=9) for step in range(1, 4)]
    new = [played(step, 0.8, 5, student=1, teacher=2, draw=1) for step in range(4, 4 + RECENT)]
    found = health([*old, *new])
    assert (found["value"], found["tone"]) == ("80% valid, 50% contested", "good")
    assert found["text"] == "In the last 10 steps: of 40 games students won 10, teachers 20."


def test_what_is_wrong_is_said_first() -> None:
    assert health([played(1, 0.3, 5)])["text"].startswith("Most proposals are refused. In the last step: no game")
    assert health([played(1, 0.9, 0)])["tone"] == "bad"
    assert "nobody learns" in health([played(1, 0.9, 0)])["text"]


def test_what_a_run_does_not_have_is_not_shown() -> None:
    assert health([played(1, None, 5)])["value"] == "50% contested"
    assert health([line(1)])["value"] == "not known"
    assert health([])["value"] == "not known yet"
    assert contested_share(line(1)) is None
