"""Warnings about a run that goes wrong, from the lines of its steps.

- No proposal is valid: then there is no task, no game and nothing to learn from.
- One side wins every game for a while: ratings and selection then see nothing but noise.
- Sampler and learner drift apart: an engine that samples with stale weights shows there first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from redqueen.store.metrics import StepMetrics

AGAIN = 20
"""Steps after which a warning is given again."""
NO_VALID_STEPS = 2
"""Steps without a valid proposal in a row that make a warning."""
ONE_SIDED_STEPS = 10
"""Steps with games in a row that one side must win entirely before there is a warning."""
GAP = 0.2
"""Nats a token from which there is a warning: four times what rounding in bf16 gives, 40 % of what stops a run."""

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
        if len(self.steps) < NO_VALID_STEPS or (len(self.steps) - NO_VALID_STEPS) % AGAIN:
            return None
        count = len(self.steps)
        return f"warning: no proposal was valid for {count} steps, so nothing is learnt: {why(self.steps)}; {ADVICE}"


def summary(lines: Sequence[StepMetrics], run: str) -> str | None:
    """Returns a warning about a whole run if at least half of its steps had no valid proposal. `run` is its folder."""
    empty = [line for line in lines if line["statuses"]["proposals"] and not line["valid_rate"]]
    if not empty or 2 * len(empty) < len(lines):
        return None
    return (
        f"warning: {len(empty)} of {len(lines)} steps had no valid proposal, so nothing was learnt in them: "
        f"{why(empty)}; see them with redqueen show {run} --worst; {ADVICE}"
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


class OneSided:
    """Counts the steps in a row in which one side won every game."""

    def __init__(self) -> None:
        self.side = ""
        self.steps = 0

    def warning(self, outcomes: Mapping[str, int]) -> str | None:
        """Counts a step. Returns a warning when a stretch has become `ONE_SIDED_STEPS` long, once a stretch.

        A step without games counts as nothing: it neither continues a stretch nor ends it.
        """
        winners = [side for side, count in outcomes.items() if count]
        if not winners:
            return None
        # A draw ends a stretch as well: it says that the sides are close.
        side = winners[0] if len(winners) == 1 and winners[0] != "draw" else ""
        self.steps = self.steps + 1 if side == self.side else 1
        self.side = side
        if not side or self.steps != ONE_SIDED_STEPS:
            return None
        return f"warning: {side}s have won every game for {ONE_SIDED_STEPS} steps; ratings and selection see only noise"


class Mismatch:
    """Counts the steps since the last warning."""

    def __init__(self) -> None:
        self.quiet = AGAIN

    def warning(self, line: StepMetrics) -> str | None:
        """Counts a step. Returns a warning if a member's gap is too large and none was given in the last 20 steps."""
        self.quiet += 1
        gaps = {name: ratio["gap"] or 0.0 for name, ratio in line["importance_ratio"].items()}
        worst = max(gaps, key=lambda name: gaps[name], default=None)
        if worst is None or gaps[worst] <= GAP or self.quiet <= AGAIN:
            return None
        self.quiet = 0
        return (
            f"warning: sampler and learner of {worst} differ by {gaps[worst]:.2f} nats a token, where rounding gives "
            "under 0.05: the sampler has other weights, or sampling.top_p or top_k cuts much off"
        )


class Warnings:
    """The warnings that a step may give rise to."""

    def __init__(self) -> None:
        self.one_sided = OneSided()
        self.no_valid = NoValid()
        self.mismatch = Mismatch()

    def of(self, line: StepMetrics) -> list[str]:
        """Counts a step and returns its warnings."""
        warnings = (self.no_valid.warning(line), self.one_sided.warning(line["outcomes"]), self.mismatch.warning(line))
        return [warning for warning in warnings if warning]
