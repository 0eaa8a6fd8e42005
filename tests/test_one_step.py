"""examples/one_step.py plays a step on the bundled model, and pays as Red Queen does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from redqueen.config import GameConfig
from redqueen.method import rewards
from redqueen.method.rating import Rating
from redqueen.method.reward_probe import probe_attempt, probe_proposal
from redqueen.records import Verdict

EXAMPLE = Path(__file__).parents[1] / "examples" / "one_step.py"


@pytest.fixture
def example() -> dict[str, Any]:
    """The example's names, of which a test may replace some."""
    names: dict[str, Any] = {"__name__": "one_step"}
    exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), names)
    return names


def test_it_is_short_enough_to_be_read_at_once() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 200


@pytest.mark.parametrize("rho", [0.0, 0.25, 1.0])
def test_teachers_are_paid_as_in_a_run(example: dict[str, Any], rho: float) -> None:
    pay = GameConfig()
    valid = probe_proposal(Verdict("valid"))
    assert example["teacher_reward"](valid.task, rho) == rewards.teacher_reward(valid, rho, True, pay)
    assert example["teacher_reward"](None, 0.0) == rewards.teacher_reward(
        probe_proposal(Verdict("error")), None, False, pay
    )


@pytest.mark.parametrize("status", ["correct", "wrong", "malformed", "timeout", "oversize"])
def test_students_are_paid_as_in_a_run(example: dict[str, Any], status: Any) -> None:
    verdict = Verdict(status)
    assert example["student_reward"](verdict) == rewards.student_reward(probe_attempt(verdict), GameConfig())


@pytest.mark.integration
def test_a_step_is_played(example: dict[str, Any], tiny_folder: Callable[[str], Path]) -> None:
    small = (f"model.name={tiny_folder('llama')}", "model.dtype=float32", "model.threads=1", "sandbox.workers=1")
    example["CONFIG"] = example["CONFIG"].override([*small, "sampling.proposal_tokens=8"])
    ratings, updates = example["main"]()
    # A tiny random model proposes nothing valid: its teachers are paid for that and lose their games.
    assert {update.member for update in updates} == {"T0", "T1"}
    assert ratings.keys() == {"T2", "S2"} | (ratings.keys() & {"T0", "T1", "S0", "S1"})
    assert len(ratings) == 4


@pytest.mark.parametrize(("status", "is_game"), [("error", True), ("infra_error", False)])
def test_a_match_that_the_machine_lost_is_no_game(example: dict[str, Any], status: Any, is_game: bool) -> None:
    text = probe_proposal(Verdict(status)).rollout
    example["propose"] = lambda step, matches, *_: [(match, (text, Verdict(status)), None) for match in matches]
    example["solve"] = lambda *_: {}
    ratings = {name: Rating() for name in ("T0", "S0")}
    example["play"](1, ratings, [], SimpleNamespace(update=lambda _: []), None)
    assert (ratings["S0"].mu > Rating().mu) == is_game
    assert (ratings["T0"] == Rating()) != is_game


@pytest.mark.slow
@pytest.mark.integration
def test_on_the_bundled_model_tasks_are_written_and_attempted(
    example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    ratings, updates = example["main"]()
    played = capsys.readouterr().out.splitlines()
    assert sum(" -> " in line and "solved" in line for line in played) == 2 * 2
    assert {update.member for update in updates} >= {"T0", "T1"}
    assert all(update.adapter_norm > 0 for update in updates)
    # One of each role was replaced.
    assert {"T2", "S2"} < set(ratings)
    assert len(ratings) == 4
