"""The verdict says the right word about made series of each kind, and seldom a wrong one about noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from redqueen.analysis.verdict import LEAST_STEPS, oscillation, trend, verdict
from redqueen.store.metrics import StepMetrics

STEPS = 60
T = np.linspace(0, 1, STEPS)


def lines(solve: ArrayLike, size: ArrayLike, contested: ArrayLike = 0.4) -> list[StepMetrics]:
    """Lines of a run with these curves."""
    columns = np.broadcast_arrays(np.arange(STEPS) + 1, np.clip(solve, 0, 1), size, np.clip(contested, 0, 1))
    made: list[StepMetrics] = []
    for step, rate, lines_of_program, share in np.transpose(columns).tolist():
        line = {
            "step": int(step),
            "solve_rate_by_kind": {"code_o": rate, "code_i": rate},
            "lines_by_kind": {"code_o": lines_of_program, "code_f": 2.0},
            "tasks_by_kind": {"code_o": 1000},
            "contested_by_kind": {"code_o": round(1000 * share)},
        }
        made.append(line)
    return made


def noise(seed: int, spread: float, persistence: float = 0.0, steps: int = STEPS) -> np.ndarray:
    """An autoregression of order 1 with this standard deviation."""
    draws = np.random.default_rng(seed).normal(size=steps + 50)
    for step in range(1, len(draws)):
        draws[step] += persistence * draws[step - 1]
    return spread * draws[50:] * np.sqrt(1 - persistence**2)


@pytest.mark.parametrize("seed", range(3))
def test_each_kind_of_run_gets_its_word(seed: int) -> None:
    jitter = noise(seed, 0.05)
    wobble = noise(seed + 10, 0.3)
    wave = 0.15 * np.sin(2 * np.pi * T * 4)
    assert verdict(lines(0.4 + 0.5 * T + jitter, 6 - 3 * T + wobble)).word == "collapse"
    assert verdict(lines(0.97 + jitter / 5, 3 + wobble, contested=0.05)).word == "collapse"
    assert verdict(lines(0.5 + wave + jitter, 3 + 5 * T + wobble)).word == "arms race"
    assert verdict(lines(0.5 + jitter, 4 + wobble, contested=0.4 - 0.38 * T)).word == "disengagement"
    assert verdict(lines(0.5 + jitter, 4 + wobble)).word == "undecided"


def test_students_that_fall_behind_are_no_arms_race() -> None:
    found = verdict(lines(0.7 - 0.5 * T + noise(0, 0.03), 3 + 5 * T))
    assert found.word == "undecided"
    assert "fell behind" in found.reason


def test_a_fall_that_may_be_chance_does_not_show_that_students_kept_up() -> None:
    found = verdict(lines(0.7 - 0.35 * T + noise(0, 0.4), 3 + 5 * T))
    assert found.solve_rate is not None
    assert found.solve_rate.change.mean < -0.1
    assert not found.solve_rate.falls
    assert found.word == "undecided"
    assert "not clear" in found.reason


def test_a_short_run_is_undecided_and_says_why() -> None:
    found = verdict(lines(0.4 + 0.5 * T, 6 - 3 * T)[:20])
    assert found.word == "undecided"
    assert found.reason.startswith("Too short")
    assert found.solve_rate is None
    assert verdict([]).word == "undecided"


def alone(solve: ArrayLike, contested: ArrayLike = 0.4) -> list[StepMetrics]:
    """Lines of a run of students alone: nobody writes programs, so they have no size."""
    members = {"S0": {"role": "student"}, "S1": {"role": "student"}}
    return [{**line, "lines_by_kind": {"code_o": None}, "members": members} for line in lines(solve, 1, contested)]


def test_a_run_without_teachers_gets_a_word_from_its_solve_rate() -> None:
    jitter = noise(1, 0.03)
    assert verdict(alone(0.3 + 0.4 * T + jitter)).word == "learning"
    assert verdict(alone(0.7 - 0.4 * T + jitter)).word == "forgetting"
    assert verdict(alone(0.97 + jitter / 5)).word == "solved"
    assert verdict(alone(0.5 + jitter, contested=0.4 - 0.38 * T)).word == "disengagement"
    found = verdict(alone(0.5 + jitter))
    assert (found.word, found.title, found.too_short) == ("undecided", "Fixed tasks", False)
    short = verdict(alone(0.3 + 0.4 * T)[:20])
    assert (short.reason, short.too_short) == ("Too short: 20 steps are played, and the rule needs 24.", True)
    # With a teacher the rule needs the size of what it writes.
    assert verdict(lines(0.3 + 0.4 * T, 4)).title == "Curriculum"


def test_noise_seldom_gets_a_word() -> None:
    # docs/reference/METRICS.md has the shares of 1,000 runs each: 1 to 2 %.
    for persistence in (0.0, 0.5):
        words: list[str] = []
        for seed in range(40):
            rates = 0.5 + noise(seed, 0.08, persistence)
            sizes = 4 + noise(seed + 500, 0.8, persistence)
            words.append(verdict(lines(rates, sizes)).word)
        assert words.count("undecided") >= 36


def test_independent_noise_does_not_swing_and_drift_has_no_cycle() -> None:
    independent = [oscillation(noise(i, 0.1).tolist(), draws=199) for i in range(50)]
    assert sum(found is not None and found.swings for found in independent) <= 7
    drifting = [oscillation(noise(i, 0.1, 0.7).tolist(), draws=199) for i in range(50)]
    assert sum(found is not None and found.swings for found in drifting) > 40
    assert sum(found is not None and found.cycles for found in drifting) <= 7


def test_a_wave_is_found_with_its_period() -> None:
    found = oscillation((0.5 + 0.15 * np.sin(2 * np.pi * T * 5) + noise(0, 0.05)).tolist())
    assert found is not None
    assert found.swings
    assert found.cycles
    assert found.period == pytest.approx(STEPS / 5)
    assert found == oscillation((0.5 + 0.15 * np.sin(2 * np.pi * T * 5) + noise(0, 0.05)).tolist())


def test_curves_that_cannot_be_tested() -> None:
    assert oscillation([0.5] * (LEAST_STEPS - 1)) is None
    assert oscillation([0.5] * LEAST_STEPS) is None
    assert oscillation((T**3 - T).tolist()) is None
    assert oscillation([*noise(0, 0.1).tolist(), None]) == oscillation(noise(0, 0.1).tolist())
    assert trend([0.5, None] * 20) is None


def test_a_trend_has_its_change_over_the_run() -> None:
    found = trend((0.2 + 0.4 * T + noise(1, 0.02)).tolist())
    assert found is not None
    assert found.rises
    assert found.change.mean == pytest.approx(0.4, abs=0.05)
    assert found.first < 0.3 < 0.5 < found.last
