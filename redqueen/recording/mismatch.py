"""Notices that sampler and learner drift apart: an engine that samples with stale weights shows there first."""

from __future__ import annotations

from redqueen.runs.metrics import StepMetrics

GAP = 0.2
"""Nats a token from which there is a warning: four times what rounding in bf16 gives, 40 % of what stops a run."""
AGAIN = 20
"""Steps after which it is said again."""


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
