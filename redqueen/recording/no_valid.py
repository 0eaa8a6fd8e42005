"""Notices that no proposal is valid: then there is no task, no game and nothing to learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from redqueen.runs.metrics import StepMetrics

WINDOW = 2
"""Steps without a valid proposal in a row that make a warning."""
AGAIN = 20
"""Steps after which it is said again."""

ADVICE = (
    "try members that were warm-started (redqueen warm-start OUT, then population.init=OUT), model.prompts=chat for an "
    "instruct model, a larger sampling.proposal_tokens if texts are cut off, or a larger model.name"
)


class NoValid:
    """Keeps the steps in a row in which no proposal was valid."""

    def __init__(self) -> None:
        self.steps: list[StepMetrics] = []

    def warning(self, line: StepMetrics) -> str | None:
        """Counts a step. Returns a warning at the second step of a stretch, and at every 20th from there on."""
        # Students alone have no proposals.
        if line["valid_rate"] or not line["statuses"]["proposals"]:
            self.steps = []
            return None
        self.steps.append(line)
        if len(self.steps) < WINDOW or (len(self.steps) - WINDOW) % AGAIN:
            return None
        return (
            f"warning: no proposal was valid for {len(self.steps)} steps, so nobody learns: {why(self.steps)}; {ADVICE}"
        )


def summary(lines: Sequence[StepMetrics], run: str) -> str | None:
    """Returns a warning about a whole run if at least half of its steps had no valid proposal. `run` is its folder."""
    empty = [line for line in lines if line["statuses"]["proposals"] and not line["valid_rate"]]
    if not empty or 2 * len(empty) < len(lines):
        return None
    return (
        f"warning: {len(empty)} of {len(lines)} steps had no valid proposal, so nobody learnt in them: {why(empty)}; "
        f"see them with redqueen show {run} --worst; {ADVICE}"
    )


def why(lines: Sequence[StepMetrics]) -> str:
    """Returns how the proposals of these steps ended, the most frequent reason first."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line["statuses"]["proposals"])
    reasons = ", ".join(f"{count} {status}" for status, count in counts.most_common() if count)
    cut = [rate for line in lines if (rate := line["truncated_rate"]["proposals"]) is not None]
    if cut and max(cut):
        reasons += f" ({sum(cut) / len(cut):.0%} of all were cut off by sampling.proposal_tokens)"
    return reasons or "there were no proposals"
