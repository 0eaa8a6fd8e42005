"""One word about what a run is doing, by a rule that docs/reference/METRICS.md states.

It reads the lines of metrics.jsonl alone, so that a page can say it while the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from redqueen.analysis.trends import LEAST_STEPS, LEVEL, SHORTEST, Oscillation, Trend, oscillation, trend
from redqueen.base.intervals import interval_text, mean
from redqueen.run.recording.metrics import kinds_of, standardised
from redqueen.run.recording.metrics.complexity import mean_size
from redqueen.run.recording.metrics.panel import Line, contested_share
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import find_or_plain

Word = Literal["collapse", "arms race", "disengagement", "undecided"]

SOLVED = 0.9
"""A solve rate of at least this is close to 1, and at most 1 minus this close to 0."""
CONTESTED = 0.1
"""Below this share of contested tasks hardly any task tells attempts apart."""
CLIMB = 0.1
"""A change of the solve rate by less than this is too small to speak of."""
GROWTH = 0.1
"""A relative change of the programs' size by less than this is too small to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The word, and the numbers that led to it. A number is None where the run is too short or does not have it."""

    word: Word
    reason: str
    """One plain sentence."""
    solve_rate: Trend | None
    """The mean of the kinds."""
    contested: Trend | None
    """The share of contested tasks."""
    size: Trend | None
    """The size of the programs that teachers write."""
    size_of: str
    """What the size is counted in."""
    oscillation: Oscillation | None
    """Of the solve rate."""


def verdict(lines: Sequence[StepMetrics]) -> RunVerdict:
    """Returns what the run is doing, as far as these lines show it."""
    kinds = kinds_of(lines)
    solve_rates = [standardised(line.get("solve_rate_by_kind") or {}, kinds) for line in lines]
    sizes, size_of = _sizes(lines)
    solve_rate = trend(solve_rates)
    contested = trend([contested_share(line) for line in lines])
    size = trend(sizes)
    word, reason = _decide(solve_rate, contested, size)
    return RunVerdict(
        word=word,
        reason=reason,
        solve_rate=solve_rate,
        contested=contested,
        size=size,
        size_of=size_of,
        oscillation=oscillation(solve_rates),
    )


def _decide(solve_rate: Trend | None, contested: Trend | None, size: Trend | None) -> tuple[Word, str]:
    """Returns the word and its reason. The order of the questions is a part of the rule."""
    if solve_rate is None or contested is None or size is None:
        return "undecided", f"Too short: the rule needs {SHORTEST} steps with a solve rate and valid tasks."
    climbs = solve_rate.rises and solve_rate.change.mean >= CLIMB
    drops = solve_rate.falls and solve_rate.change.mean <= -CLIMB
    grows = size.rises and size.change.mean >= GROWTH * size.first
    shrinks = size.falls and size.change.mean <= -GROWTH * size.first
    solved = f"the solve rate went from {solve_rate.first:.2f} to {solve_rate.last:.2f}"
    # A solve rate close to 1 pays teachers nothing, but as long as their programs grow they may still get away.
    if shrinks and climbs:
        return "collapse", f"The programs became smaller and {solved}."
    if solve_rate.last >= SOLVED and not grows:
        return "collapse", f"Nearly every task is solved ({solve_rate.last:.2f}) and the programs do not grow."
    if contested.last < CONTESTED:
        return "disengagement", (
            f"Only {contested.last:.0%} of the tasks are contested: the others are solved always or never, "
            "so nobody learns from them."
        )
    if grows and not drops and 1 - SOLVED <= solve_rate.last <= SOLVED:
        return "arms race", f"The programs grew and the students kept up: {solved}."
    if grows and drops:
        return "undecided", f"The programs grew and the students fell behind: {solved}."
    return "undecided", f"The programs neither grew nor became smaller enough to tell: {solved}."


def _sizes(lines: Sequence[Line]) -> tuple[Sequence[float | None], str]:
    """Returns the mean size of the programs that teachers write, step by step, and what it is counted in."""
    # A third of a program can be code that never runs. A run that grows by that alone is in no arms race.
    reached = mean_size(lines, "reached", "nodes")
    if any(size is not None for size in reached):
        return reached, "nodes that can run"
    # Runs of former versions have lines only. A program that was given to the teacher says nothing about it.
    sizes: list[float | None] = []
    for line in lines:
        means: Mapping[str, float | None] = line.get("lines_by_kind") or {}
        sizes.append(mean(size for kind, size in means.items() if not find_or_plain(kind).starts_from_program))
    return sizes, "lines as written"


HEAD = ("quantity", "first quarter", "last quarter", f"change over the run [{LEVEL:.0%} interval]")


def trend_rows(verdict: RunVerdict) -> list[list[str]]:
    """Returns the numbers that a verdict rests on, below `HEAD`; none where the run is too short."""
    named = (
        ("solve rate, mean of the kinds", verdict.solve_rate),
        ("contested tasks, share", verdict.contested),
        (f"size of the programs, {verdict.size_of}", verdict.size),
    )
    return [
        [name, f"{trend.first:.2f}", f"{trend.last:.2f}", interval_text(trend.change)]
        for name, trend in named
        if trend is not None
    ]


def oscillation_words(found: Oscillation | None) -> str:
    """Returns what the tests for swings and for a cycle found, in words."""
    if found is None:
        return f"Whether the solve rate oscillates needs {LEAST_STEPS} steps with a solve rate."
    spread = f"it varies around its trend with a standard deviation of {found.deviation:.3f}"
    if not found.swings:
        return f"The solve rate does not swing more than independent noise (p = {found.p:.3f}); {spread}."
    more = f"The solve rate swings more than independent noise (p = {found.p:.3f}); {spread}."
    if found.cycles:
        return f"{more} A wave of about {found.period:.0f} steps stands out of a drift (p = {found.p_cycle:.3f})."
    return f"{more} No wave stands out of a drift (p = {found.p_cycle:.3f}), so a cycle is not shown."
