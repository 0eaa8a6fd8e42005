"""What a reader of a run wants to know first, each as a word or a number with one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from redqueen.base.intervals import Interval, interval_text, mean
from redqueen.recording.metrics.panel import Line, column, contested_share

RECENT = 10
"""Over so many of the last steps the run's health is looked at."""
FEW_VALID = 0.5
"""Below this share of valid proposals most of what teachers write is wasted."""
FEW_CONTESTED = 0.1
"""Below this share of contested tasks hardly any task tells a student's attempts apart; the verdict's limit."""


class Answer(TypedDict):
    """The answer to one question."""

    value: str
    text: str
    tone: Literal["good", "bad", "open"]


def better(lines: Sequence[Line], every: int) -> Answer:
    """Returns whether a student is above the start on held-out problems, at the last step that measured it.

    `every` is the setting evals.every, by which the answer says when there will be one.
    """
    measured = [line for line in lines if line.get("held_out")]
    if not measured and every and (not lines or lines[-1]["step"] < every):
        return Answer(value="not known yet", text=f"Held-out problems are asked after step {every}.", tone="open")
    if not measured:
        text = "No held-out problem was asked while it trained (evals.every). `redqueen eval` asks them now."
        return Answer(value="not measured", text=text, tone="open")
    step: int = measured[-1]["step"]
    held_out: Mapping[str, Any] = measured[-1]["held_out"]
    students: Mapping[str, Mapping[str, float | None]] = held_out["students"]
    above = [name for name, score in students.items() if (low := score["low"]) is not None and low > 0]
    below = [name for name, score in students.items() if (high := score["high"]) is not None and high < 0]
    best = max(students, key=lambda name: students[name]["gain"] or 0, default=None)
    if best is None:
        return Answer(value="not known", text=f"Step {step} measured no student.", tone="open")
    where = f"on {held_out['problems']} held-out problems after step {step} (95 % interval)"
    text = f"The best, {best}: {_points(students[best])} points {where}."
    if above:
        value = "yes" if len(students) == 1 else f"yes: {len(above)} of {len(students)} students"
        return Answer(value=value, text=text, tone="good")
    if len(below) == len(students):
        return Answer(value="no: below it", text=text, tone="bad")
    return Answer(value="not shown", text=text, tone="open")


def health(lines: Sequence[Line]) -> Answer:
    """Returns how much is valid and contested, and who wins, in the last steps."""
    recent = lines[-RECENT:]
    if not recent:
        return Answer(value="not known yet", text="No step has been played.", tone="open")
    valid = mean(line.get("valid_rate") for line in recent)
    contested = mean(contested_share(line) for line in recent)
    # Where students play alone, nothing is proposed.
    words = [f"{share:.0%} {what}" for share, what in ((valid, "valid"), (contested, "contested")) if share is not None]
    faults: list[str] = []
    if valid is not None and valid < FEW_VALID:
        faults.append("Most proposals are refused.")
    if contested is not None and contested < FEW_CONTESTED:
        faults.append("Nearly all tasks are solved always or never, so nobody learns from them.")
    steps = "the last step" if len(recent) == 1 else f"the last {len(recent)} steps"
    text = " ".join([*faults, f"In {steps}: {_games(recent)}"])
    return Answer(value=", ".join(words) or "not known", text=text, tone="bad" if faults else "good")


def _games(lines: Sequence[Line]) -> str:
    def won(side: str) -> int:
        return int(sum(count or 0 for count in column(lines, "outcomes", side)))

    played = won("student") + won("draw") + won("teacher")
    if not played:
        return "no game was rated."
    return f"of {played} games students won {won('student')}, teachers {won('teacher')}."


def _points(score: Mapping[str, float | None]) -> str:
    return interval_text(Interval(score["gain"] or 0, score["low"], score["high"], 0), "+.1f", 100)
