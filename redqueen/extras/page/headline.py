"""What a reader of a run wants to know first, each as a word or a number with one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from redqueen.base.intervals import LEVEL, Interval, interval_text, mean, t_quantile
from redqueen.run.recording.held_out import OWN_SCORES, SHOWN, sentence
from redqueen.run.recording.metrics.panel import Line, column, contested_share

RECENT = 10
"""Over so many of the last steps the run's health is looked at."""
FEW_VALID = 0.5
"""Below this share of valid proposals most of what teachers write is wasted."""
FEW_CONTESTED = 0.1
"""Below this share of contested tasks hardly any task tells a student's attempts apart; the verdict's limit."""


class HeadlineAnswer(TypedDict):
    """The answer to one question."""

    value: str
    text: str
    tone: Literal["good", "bad", "open"]


def better(lines: Sequence[Line], every: int) -> HeadlineAnswer:
    """Returns whether a student is above the start on held-out problems, at the last step that measured it.

    The more students there are, the more likely one of them is above by chance, so the level is that of all together.
    `every` is the setting evals.every, by which the answer says when there will be one.
    """
    measured = [line for line in lines if line.get("held_out")]
    if not measured and every and (not lines or lines[-1]["step"] < every):
        return HeadlineAnswer(
            value="not known yet", text=f"Held-out problems are asked after step {every}.", tone="open"
        )
    if not measured:
        text = "No held-out problem was asked while it trained (evals.every). `redqueen eval` asks them now."
        return HeadlineAnswer(value="not measured", text=text, tone="open")
    step: int = measured[-1]["step"]
    held_out: Mapping[str, Any] = measured[-1]["held_out"]
    own: Mapping[str, Any] | None = measured[-1].get(OWN_SCORES)
    students: Mapping[str, Mapping[str, float | None]] = held_out["students"]
    if not students:
        return HeadlineAnswer(value="not known", text=f"Step {step} measured no student.", tone="open")
    problems: int = held_out["problems"]
    gains = [_corrected(score, problems, len(students)) for score in students.values()]
    above = sum(gain.above for gain in gains)
    where = f"on {problems} held-out problems after step {step}"
    if len(gains) == 1:
        text = f"{next(iter(students))}: {interval_text(gains[0], '+.1f', 100)} points {where} (95 % interval)."
    else:
        # The mean, and not the best one: the best of several noisy gains is too good.
        average = mean(gain.mean for gain in gains) or 0.0
        text = f"The {len(gains)} students: {100 * average:+.1f} points on average {where}."
    if own is not None:
        said = (sentence(name, own, "YOUR ") for name in list(own["students"])[:SHOWN])
        text = f"{text} {'; '.join(said)}."
    if above:
        value = "yes" if len(gains) == 1 else f"yes: {above} of {len(gains)} students"
        return HeadlineAnswer(value=value, text=text, tone="good")
    if all(gain.below for gain in gains):
        return HeadlineAnswer(value="no: below it", text=text, tone="bad")
    return HeadlineAnswer(value="not shown", text=text, tone="open")


def _corrected(score: Mapping[str, float | None], problems: int, students: int) -> Interval:
    """Returns a student's gain with an interval so wide that chance puts none of them beside zero in 95 % of runs."""
    gain = score["gain"] or 0.0
    low, high = score["low"], score["high"]
    if low is None or high is None:
        return Interval(gain, None, None, problems)
    # Bonferroni's correction. What is kept is Student's interval of 95 %.
    freedom = problems - 1
    wider = t_quantile(1 - (1 - LEVEL) / students, freedom) / t_quantile(LEVEL, freedom)
    return Interval(gain, gain - wider * (gain - low), gain + wider * (high - gain), problems)


def health(lines: Sequence[Line]) -> HeadlineAnswer:
    """Returns how much is valid and contested, and who wins, in the last steps."""
    recent = lines[-RECENT:]
    if not recent:
        return HeadlineAnswer(value="not known yet", text="No step has been played.", tone="open")
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
    return HeadlineAnswer(value=", ".join(words) or "not known", text=text, tone="bad" if faults else "good")


def _games(lines: Sequence[Line]) -> str:
    def won(side: str) -> int:
        return int(sum(count or 0 for count in column(lines, "outcomes", side)))

    played = won("student") + won("draw") + won("teacher")
    if not played:
        return "no game was rated."
    return f"of {played} games students won {won('student')}, teachers {won('teacher')}."
