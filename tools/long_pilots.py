"""The pilots of docs/reports/THINKING.md that were asked held-out questions all along: gains, slopes and a figure.

Writes `docs/figures/work-long.svg` from `docs/results/long-pilots.json` and prints the numbers. There is one run of
each setting, so the units of the intervals are held-out questions: other seeds may differ by more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from redqueen.analysis.drawing import HUES, write
from redqueen.base.intervals import Interval, interval, interval_text, slope

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "results" / "long-pilots.json"
FIGURE = ROOT / "docs" / "figures" / "work-long.svg"


def gains(answers: Sequence[str]) -> list[Interval | None]:
    """Returns the gain over the first asking at each later one, over questions. An answer is `1` (right) or `0`."""
    first = answers[0]
    return [interval([int(b) - int(a) for a, b in zip(first, later, strict=True)]) for later in answers[1:]]


def rise(steps: Sequence[int], answers: Sequence[str], first: int) -> Interval | None:
    """Returns the slope in 100 steps of the share of right answers from a step on, over the slopes of questions."""
    late = [(step, right) for step, right in zip(steps, answers, strict=True) if step >= first]
    at = [step for step, _ in late]
    lines = [
        slope(at, [int(each) for each in question]) for question in zip(*(right for _, right in late), strict=True)
    ]
    return interval([100 * line.mean for line in lines if line is not None])


def draw(pilots: Mapping[str, Any]) -> Figure:
    """Draws the held-out score over the steps, with the intervals of its gain."""
    figure = Figure(figsize=(8.5, 3.4), layout="constrained")
    axes = figure.subplots()
    for hue, (name, pilot) in zip(HUES, pilots.items(), strict=False):
        scores = [100 * fmean(map(int, right)) for right in pilot["answers"]]
        axes.plot(pilot["steps"], scores, "o-", color=hue, markersize=4)
        lows, highs = [scores[0]], [scores[0]]
        for found in gains(pilot["answers"]):
            assert found is not None
            lows.append(scores[0] + 100 * (found.low or 0.0))
            highs.append(scores[0] + 100 * (found.high or 0.0))
        axes.fill_between(pilot["steps"], lows, highs, color=hue, alpha=0.13, linewidth=0)
        axes.annotate(
            name, (pilot["steps"][-1], scores[-1]), xytext=(6, 0), textcoords="offset points", va="center", color=hue
        )
    axes.set_xlabel("step")
    axes.set_ylabel("held-out questions solved, %")
    last = max(pilot["steps"][-1] for pilot in pilots.values())
    axes.set_xticks(range(0, last + 1, 50))
    # The names of the lines stand at their ends.
    axes.set_xlim(-0.02 * last, 1.32 * last)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Writes the figure and prints the numbers."""
    pilots = json.loads(NUMBERS.read_text(encoding="utf-8"))
    write(draw(pilots), FIGURE)
    for name, pilot in pilots.items():
        steps, answers = pilot["steps"], pilot["answers"]
        print(f"{name}: {pilot['problems']} questions, {pilot['hours']} hours, commit {pilot['commit'][:9]}")
        for step, found in zip(steps[1:], gains(answers), strict=True):
            print(f"  gain after {step}: {interval_text(found, '+z.1f', 100)}")
        print(f"  slope of the second half: {interval_text(rise(steps, answers, steps[-1] // 2), '+z.1f', 100)}")


if __name__ == "__main__":
    main()
