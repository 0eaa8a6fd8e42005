"""Does a curve rise or fall over the run? The change with an interval that slow noise does not fool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from redqueen.base.intervals import Interval, slope

BLOCKS = 8
"""Into so many blocks of consecutive steps a run is cut."""
SHORTEST = 3 * BLOCKS
"""Steps that are needed: three in each block."""
LEVEL = 0.98
"""The level of the interval. Neighbouring blocks are still a little alike, so it is above the usual 0.95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a curve changed from the start to the end of a run."""

    first: float
    """Mean over the first quarter of the steps."""
    last: float
    """Mean over the last quarter of the steps."""
    change: Interval
    """The slope of a straight line through the block means, times the length of the run."""

    @property
    def rises(self) -> bool:
        """Whether the interval of the change is above 0; a line without any noise has no interval."""
        return self.change.above or (self.change.low is None and self.change.mean > 0)

    @property
    def falls(self) -> bool:
        """Whether the interval of the change is below 0."""
        return self.change.below or (self.change.low is None and self.change.mean < 0)


def trend(values: Sequence[float | None]) -> Trend | None:
    """Returns the trend of the values of consecutive steps, None with fewer than `SHORTEST`.

    Steps resemble their neighbours, so a straight line through all of them would be far too sure of itself. The means
    of long blocks are nearly independent (the method of batch means: Law and Kelton, *Simulation Modeling and
    Analysis*, chapter 9), and the line is fitted to these.
    """
    measured = [value for value in values if value is not None]
    if len(measured) < SHORTEST:
        return None
    middles: list[float] = []
    means: list[float] = []
    for block in range(BLOCKS):
        start = block * len(measured) // BLOCKS
        end = (block + 1) * len(measured) // BLOCKS
        # From the first step to the last is a length of 1.
        middles.append((start + end - 1) / 2 / (len(measured) - 1))
        means.append(fmean(measured[start:end]))
    change = slope(middles, means, LEVEL)
    assert change is not None, "eight blocks are enough for a line"
    quarter = len(measured) // 4
    return Trend(first=fmean(measured[:quarter]), last=fmean(measured[-quarter:]), change=change)
