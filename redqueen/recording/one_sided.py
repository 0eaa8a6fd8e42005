"""Notices that one side has won every game for a while: ratings and selection then see nothing but noise."""

from __future__ import annotations

from redqueen.runs.metrics import OutcomeCounts

WINDOW = 10
"""Steps with games in a row that one side must win entirely before there is a warning."""


class OneSided:
    """Counts the steps in a row in which one side won every game."""

    def __init__(self) -> None:
        self.side = ""
        self.steps = 0

    def warning(self, outcomes: OutcomeCounts) -> str | None:
        """Counts a step. Returns a warning when a stretch has just become `WINDOW` steps long, once for each stretch.

        A step without games counts as nothing: it neither continues a stretch nor ends it.
        """
        winners = [side for side, count in outcomes.items() if count]
        if not winners:
            return None
        # A draw ends a stretch as well: it says that the sides are close.
        side = winners[0] if len(winners) == 1 and winners[0] != "draw" else ""
        self.steps = self.steps + 1 if side == self.side else 1
        self.side = side
        if not side or self.steps != WINDOW:
            return None
        return f"warning: {side}s have won every game for {WINDOW} steps; ratings and selection see only noise"
