"""One word about what a run is doing, by a rule that docs/reference/METRICS.md states.

It reads the lines of metrics.jsonl alone, so that a page can say it while the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.analysis.trends import LEAST_STEPS, LEVEL, SHORTEST, Oscillation, Trend, oscillation, trend
from redqueen.base.intervals import interval_text, mean
from redqueen.run.recording.metrics import kinds_of, standardised
from redqueen.run.recording.metrics.complexity import mean_size
from redqueen.run.recording.metrics.panel import Line, contested_share
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import find_or_plain

Word = Literal["collapse", "arms race", "disengagement", "solved", "learning", "forgetting", "undecided"]

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
    alone: bool
    """Whether students play alone, on fixed tasks: then there is no curriculum to judge, only the solve rate."""
    too_short: bool
    """Whether the run has too few steps for any word."""

    @property
    def title(self) -> str:
        """What the word is about."""
        return "Fixed tasks" if self.alone else "Curriculum"


def verdict(lines: Sequence[StepMetrics]) -> RunVerdict:
    """Returns what the run is doing, as far as these lines show it."""
    kinds = kinds_of(lines)
    solve_rates = [standardised(line.get("solve_rate_by_kind") or {}, kinds) for line in lines]
    sizes, size_of = _sizes(lines)
    solve_rate = trend(solve_rates)
    contested = trend([contested_share(line) for line in lines])
    size = trend(sizes)
    alone = _alone(lines)
    found: tuple[Word, str] | None = None
    if solve_rate is not None and contested is not None and alone:
        found = _of_fixed_tasks(solve_rate, contested)
    elif solve_rate is not None and contested is not None and size is not None:
        found = _decide(solve_rate, contested, size)
    word, reason = found or ("undecided", _too_short(len(lines)))
    return RunVerdict(
        word=word,
        reason=reason,
        solve_rate=solve_rate,
        contested=contested,
        size=size,
        size_of=size_of,
        oscillation=oscillation(solve_rates),
        alone=alone,
        too_short=found is None,
    )


def _alone(lines: Sequence[Line]) -> bool:
    """Returns whether students play without a teacher, as far as the newest line knows its members."""
    members: Mapping[str, Mapping[str, Any]] = (lines[-1].get("members") or {}) if lines else {}
    return bool(members) and all(member.get("role") == "student" for member in members.values())


def _too_short(steps: int) -> str:
    if steps < SHORTEST:
        return f"Too short: {steps} steps are played, and the rule needs {SHORTEST}."
    return f"Fewer than {SHORTEST} of the {steps} steps have a solve rate and valid tasks."


def _of_fixed_tasks(solve_rate: Trend, contested: Trend) -> tuple[Word, str]:
    """Returns the word and its reason of students alone."""
    solved = f"the solve rate went from {solve_rate.first:.2f} to {solve_rate.last:.2f}, in sample"
    if solve_rate.last >= SOLVED:
        return "solved", f"Nearly every task is solved ({solve_rate.last:.2f}): only harder ones teach more."
    if contested.last < CONTESTED:
        return "disengagement", _uncontested(contested)
    if solve_rate.rises and solve_rate.change.mean >= CLIMB:
        return "learning", f"The tasks stay the same, and {solved}."
    if solve_rate.falls and solve_rate.change.mean <= -CLIMB:
        return "forgetting", f"The tasks stay the same, and {solved}."
    return "undecided", f"The solve rate changed too little to tell: {solved}."


def _uncontested(contested: Trend) -> str:
    return (
        f"Only {contested.last:.0%} of the tasks are contested: the others are solved always or never, "
        "so no member learns from them."
    )


def _decide(solve_rate: Trend, contested: Trend, size: Trend) -> tuple[Word, str]:
    """Returns the word and its reason. The order of the questions is a part of the rule."""
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
        return "disengagement", _uncontested(contested)
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
