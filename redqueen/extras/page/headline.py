"""What a reader of a run wants to know first, each as a word or a number with one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from redqueen.base.intervals import LEVEL, Interval, interval_text, mean, t_quantile
from redqueen.run.recording.metrics.dynamics import OWN_SCORES, SHOWN, sentence
from redqueen.run.recording.metrics.metric import Line, at, column, contested_share

RECENT = 10
"""Over so many of the last steps the run's health is looked at."""
FEW_VALID = 0.5
"""Below this share of valid proposals most of what teachers write is wasted."""
FEW_CONTESTED = 0.1
"""Below this share of contested tasks hardly any task tells a student's attempts apart; the verdict's limit."""
MANY_GUESSED = 1 / 3
"""Above this share of tasks that can be guessed a right answer says little."""
FEW_PROBLEMS = 100
"""With fewer held-out problems than this only a gain of about ten points or more can be shown."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """Up to where, or from where on, a share is healthy, and what is wrong beyond it."""

    share: float
    fault: str
    most: bool = False

    def holds(self, share: float) -> bool:
        return share <= self.share if self.most else share >= self.share

    @property
    def words(self) -> str:
        return f"at {'most' if self.most else 'least'} {self.share:.0%}"


_LIMITS = {
    "valid": _Limit(FEW_VALID, "Most proposals are refused."),
    "contested": _Limit(FEW_CONTESTED, "Nearly all tasks are solved always or never, so no member learns from them."),
    "guessable": _Limit(MANY_GUESSED, "Many right answers can be guessed, and teach little.", most=True),
}


class HeadlineAnswer(TypedDict):
    """The answer to one question. What stands between back quotes is a command or a setting."""

    value: str
    text: str
    tone: Literal["good", "bad", "open"]


def better(lines: Sequence[Line], every: int, steps: int) -> HeadlineAnswer:
    """Returns whether a student is above the start on held-out problems, at the last step that measured it.

    The more students there are, the more likely one of them is above by chance, so the level is that of all together.
    By `every`, the setting evals.every, and `steps`, those of the whole run, it says when there will be an answer.
    """
    measured = [line for line in lines if line.get("held_out")]
    if not measured and every and (not lines or lines[-1]["step"] < min(every, steps)):
        text = f"Held-out problems are asked after step {min(every, steps)}."
        return HeadlineAnswer(value="not known yet", text=text, tone="open")
    if not measured:
        text = "No held-out problem was asked while it trained (`evals.every`). `redqueen eval` asks them now."
        return HeadlineAnswer(value="not measured", text=text, tone="open")
    step: int = measured[-1]["step"]
    scores, newborn = trained(measured[-1])
    if not scores:
        return HeadlineAnswer(value="not known", text=f"Step {step} measured no student.", tone="open")
    problems: int = measured[-1]["held_out"]["problems"]
    gains = [_corrected(score, problems, len(scores)) for score in scores.values()]
    where = f"on {problems} held-out problems after step {step}"
    if len(gains) == 1:
        text = f"{next(iter(scores))}: {interval_text(gains[0], '+.1f', 100)} points {where} ({_interval(gains[0])})."
    else:
        # The mean, and not the best one: the best of several noisy gains is too good.
        average = mean(gain.mean for gain in gains) or 0.0
        text = f"The {len(gains)} students: {100 * average:+.1f} points on average {where}."
    if newborn:
        text += f" Born in that step, so not counted: {', '.join(newborn)}."
    own = measured[-1].get(OWN_SCORES)
    if own is not None:
        said = (sentence(name, own, "YOUR ") for name in list(own["students"])[:SHOWN])
        text = f"{text} {'; '.join(said)}."
    return _by_gains(gains, problems, text)


def _interval(gain: Interval) -> str:
    """Returns what is said of a gain's interval, which needs problems that changed and problems that did not."""
    if gain.low is not None:
        return "95 % interval"
    return f"no interval: {'every problem changed in the same way' if gain.mean else 'no problem changed'}"


def trained(line: Line) -> tuple[Mapping[str, Mapping[str, float | None]], list[str]]:
    """Returns the held-out scores of the students that have trained, and the names of those that have not.

    A child of that very step is its parent, changed by chance: what it solves, the parent has learned.
    """
    scores: Mapping[str, Mapping[str, float | None]] = line["held_out"]["students"]
    newborn = [name for name in scores if at(line, "members", name, "born") == line["step"]]
    return {name: score for name, score in scores.items() if name not in newborn}, newborn


def _by_gains(gains: Sequence[Interval], problems: int, text: str) -> HeadlineAnswer:
    """Returns yes or no, as far as the intervals of the gains allow either."""
    above = sum(gain.above for gain in gains)
    if above:
        value = "yes" if len(gains) == 1 else f"yes: {above} of {len(gains)} students"
        return HeadlineAnswer(value=value, text=text, tone="good")
    if all(gain.below for gain in gains):
        return HeadlineAnswer(value="no: below the start", text=text, tone="bad")
    if problems < FEW_PROBLEMS:
        text += " With so few problems only large gains can be shown: `redqueen eval` poses all of them."
    return HeadlineAnswer(value="no clear gain", text=text, tone="open")


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
    """Returns how much is valid and contested in the last steps, and from where on that is healthy."""
    recent = lines[-RECENT:]
    if not recent:
        return HeadlineAnswer(value="not known yet", text="No step has been played.", tone="open")
    shares = {
        "valid": mean(line.get("valid_rate") for line in recent),
        "contested": mean(contested_share(line) for line in recent),
        "guessable": mean(at(line, "guessable", "rate") for line in recent),
    }
    # Where students play alone, nothing is proposed.
    known = {name: share for name, share in shares.items() if share is not None}
    if not known:
        return HeadlineAnswer(value="not known", text=f"{_period(recent)} nothing was counted.", tone="open")
    faults = {name: _LIMITS[name].fault for name, share in known.items() if not _LIMITS[name].holds(share)}
    # What can be guessed is a detail, unless it is a fault.
    value = ", ".join(f"{share:.0%} {name}" for name, share in known.items() if name != "guessable" or name in faults)
    healthy = ", ".join(f"{_LIMITS[name].words} {name}" for name in known)
    text = " ".join([*faults.values(), f"{_period(recent)}; healthy: {healthy}."])
    return HeadlineAnswer(value=value, text=text, tone="bad" if faults else "good")


def winners(lines: Sequence[Line]) -> HeadlineAnswer | None:
    """Returns who won the games of the last steps, if that is no chance; None without a game."""
    recent = lines[-RECENT:]
    won = {
        side: int(sum(count or 0 for count in column(recent, "outcomes", side)))
        for side in ("student", "teacher", "draw")
    }
    if not any(won.values()):
        return None
    lead = won["student"] - won["teacher"]
    # The sign test: two equal sides are so far apart, either way, in less than one of twenty runs.
    games = won["student"] + won["teacher"]
    ways = as_few = 1
    for count in range(min(won["student"], won["teacher"])):
        # Each binomial coefficient from the one before: thousands of games take a moment.
        ways = ways * (games - count) // (count + 1)
        as_few += ways
    clear = 2 * as_few / 2**games < 1 - LEVEL
    value = ("students" if lead > 0 else "teachers") if clear else "neither side clearly"
    text = (
        f"{_period(recent)}: students won {won['student']}, teachers {won['teacher']}, {won['draw']} drawn. "
        "A student wins by solving more than usual."
    )
    return HeadlineAnswer(value=value, text=text, tone="open")


def _period(recent: Sequence[Line]) -> str:
    return "In the last step" if len(recent) == 1 else f"In the last {len(recent)} steps"
