"""A verdict as text, for the report, the comparison and the model card."""

from __future__ import annotations

from redqueen.analysis.dynamics.oscillation import SHORTEST, Oscillation
from redqueen.analysis.dynamics.trend import LEVEL
from redqueen.analysis.dynamics.verdict import RunVerdict
from redqueen.base.intervals import interval_text

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
        return f"Whether the solve rate oscillates needs {SHORTEST} steps with a solve rate."
    spread = f"it varies around its trend with a standard deviation of {found.deviation:.3f}"
    if not found.swings:
        return f"The solve rate does not swing more than independent noise (p = {found.p:.3f}); {spread}."
    more = f"The solve rate swings more than independent noise (p = {found.p:.3f}); {spread}."
    if found.cycles:
        return f"{more} A wave of about {found.period:.0f} steps stands out of a drift (p = {found.p_cycle:.3f})."
    return f"{more} No wave stands out of a drift (p = {found.p_cycle:.3f}), so a cycle is not shown."
