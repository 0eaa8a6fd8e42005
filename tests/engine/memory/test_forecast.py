"""The model of a step's time: it agrees with counted kernels, and what it plays through is what a batch does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.gpu.launches import decode_line, decode_seconds
from benchmarks.gpu.plans import plan as planned
from redqueen.engine.kernels.flash import flash_takes_pages
from redqueen.engine.memory import forecast as forecasting
from redqueen.engine.memory.forecast import CARDS, Card, card_of, forecast
from redqueen.engine.memory.machine import Demand
from redqueen.records import PromptLengths

LENGTHS = PromptLengths(proposal=1102, attempt=2048)
H200 = CARDS[-1]
# The numbers are those of a torch whose flash attention reads pages.
pytestmark = pytest.mark.skipif(not flash_takes_pages(), reason="torch 2.12 or newer")


def fitted(card: Card, base: str = "7B", *overrides: str) -> Demand:
    found = planned(base, card.memory, *overrides)
    assert found is not None
    return replace(found.demand, lengths=LENGTHS)


def test_a_decode_step_takes_what_its_counted_kernels_take() -> None:
    line = decode_line()
    speed = forecasting._Speed(fitted(H200), H200)
    for rows, tokens in ((8, 900), (64, 900), (192, 900), (512, 900)):
        expected = decode_seconds(*line, forecasting._DECODING, rows, rows * tokens)
        # The counted line is the sum over kernels, of which some are limited by memory where others are not.
        assert speed.step(rows, rows * tokens) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("card", CARDS[1:], ids=lambda card: card.name)
def test_pages_never_make_a_step_slower(monkeypatch: pytest.MonkeyPatch, card: Card) -> None:
    paged = forecast(fitted(card), card)
    monkeypatch.setenv("REDQUEEN_PAGES", "off")
    dense = forecast(fitted(card), card)
    assert paged.solved_tokens == dense.solved_tokens
    assert paged.solve < dense.solve
    assert paged.learn == dense.learn
    assert dense.put_back == 0
    # A row that is put back is computed again: few are.
    assert paged.put_back < 50


def test_hours_are_those_of_all_steps() -> None:
    plan = fitted(H200)
    step = forecast(plan, H200)
    assert step.step == step.propose + step.solve + step.learn
    assert step.hours(200) == pytest.approx(200 * step.step / 3600)
    recomputed = plan.with_values("learning", checkpointing=True)
    assert forecast(recomputed, H200).learn == pytest.approx(1.5 * step.learn)


@pytest.mark.slow
@pytest.mark.parametrize(
    "few", ["sampling.batch_rows=4", "sampling.cache_tokens=256", "game.attempts=600", "sampling.batch_rows=1"]
)
def test_a_batch_that_holds_fewer_texts_than_a_task_has_attempts_ends(few: str) -> None:
    plan = fitted(H200, "7B", few)
    section, name = few.partition("=")[0].split(".")
    value = int(few.partition("=")[2])
    step = forecast(plan.with_values("sampling", **{name: value}) if section == "sampling" else plan, H200)
    assert step.solve > 0
    assert step.solved_tokens > 0


def test_students_alone_propose_nothing() -> None:
    alone = fitted(H200, "7B", "population.teachers=0", "evolution.enabled=false")
    step = forecast(alone, H200)
    assert step.propose == 0
    assert step.solve > 0


def test_a_card_is_chosen_by_its_memory() -> None:
    names = {size: card_of(size * 10**9).name for size in (12, 24, 40, 48, 80, 86, 141, 192)}
    assert list(names.values()) == ["RTX 4090", "RTX 4090", "L40S", "L40S", "H100", "H100", "H200", "H200"]


def test_matches_against_champions_are_part_of_the_hours() -> None:
    plain = forecast(fitted(H200), H200)
    met = forecast(fitted(H200, "7B", "league.hall_of_fame=4", "league.hall_matches=0.5"), H200)
    assert met.solved_tokens == pytest.approx(1.5 * plain.solved_tokens, rel=0.05)
    assert met.learn > plain.learn
