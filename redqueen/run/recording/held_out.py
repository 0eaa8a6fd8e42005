"""What a step's answers to held-out problems add up to: scores by benchmark, and each student's gain over the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from redqueen.base.intervals import interval
from redqueen.evals.answers import OWN, START, HeldOutAnswer, differences, judged
from redqueen.store.metrics import StepMetrics

OWN_SCORES = "held_out_own"
"""The metric of the user's own held-out tasks."""
SHOWN = 4
"""The most students that have a sentence each at the end of a run."""


def rates(answers: Sequence[HeldOutAnswer]) -> dict[str, dict[str, float | None]]:
    """Returns right / judged answers by benchmark and member; None where the machine lost them all."""
    right: dict[str, dict[str, list[bool]]] = {}
    for answer in answers:
        verdicts = right.setdefault(answer.benchmark, {}).setdefault(answer.member, [])
        if answer.right is not None:
            verdicts.append(answer.right)
    shares: dict[str, dict[str, float | None]] = {}
    for benchmark, members in right.items():
        shares[benchmark] = {member: fmean(verdicts) if verdicts else None for member, verdicts in members.items()}
    return shares


def held_out_scores(
    answers: Sequence[HeldOutAnswer], start: Sequence[HeldOutAnswer], *, own: bool = False
) -> dict[str, Any] | None:
    """Returns the students' scores beside the start's, or None if there is nothing to compare.

    They are on the user's `own` held-out tasks, or on all others. All are over the same problems: those that the
    machine lost for none of them. A student is left out if it lost every answer of it.
    """
    members = judged(answer for answer in answers if (answer.benchmark == OWN) == own)
    asked = judged(answer for answer in start if (answer.benchmark == OWN) == own).get(START, {})
    first = {problem: right for problem, right in asked.items() if all(problem in own for own in members.values())}
    if not members or not first:
        return None
    students: dict[str, dict[str, float | None]] = {}
    for member, right in members.items():
        # The differences are paired. No difference is an interval of no width.
        gain = interval(differences(right, first))
        if gain is not None:
            rate = fmean(right[problem] for problem in first)
            students[member] = {"rate": rate, "gain": gain.mean, "low": gain.low, "high": gain.high}
    return {"problems": len(first), "start": fmean(first.values()), "students": students}


def held_out_lines(lines: Sequence[StepMetrics]) -> list[str]:
    """Returns a sentence on each student of the last evaluation, the fittest first, and how to read it.

    Returns nothing if the run has no evaluation.
    """
    last = lines[-1] if lines else {}
    sentences = _sentences(last, "held_out", "")
    sentences += _sentences(last, OWN_SCORES, "YOUR ")
    if sentences:
        sentences.append("[..]: 95 % interval over the tasks, which no member was trained or selected on")
    return sentences


def _sentences(line: StepMetrics, name: str, whose: str) -> list[str]:
    scores = line.get(name)
    if scores is None:
        return []
    fitness = {name: member["fitness"] for name, member in line["members"].items()}
    # By what selection ranks by, and not by the scores themselves: the best of several scores is too good.
    ranked = sorted(scores["students"], key=lambda name: -(fitness.get(name) or 0.0))
    sentences = [sentence(name, scores, whose) for name in ranked[:SHOWN]]
    if len(ranked) > SHOWN:
        mean = fmean(score["gain"] for score in scores["students"].values())
        sentences.append(f"all {len(ranked)} students on average: {100 * mean:+.0f}")
    return sentences


def sentence(member: str, scores: Mapping[str, Any], whose: str = "") -> str:
    """Returns a student's score in words: "S2 solves 28 % of 140 held-out tasks, the start 21 %: +7 [2, 12]"."""
    score = scores["students"][member]
    ends = ""
    if score["low"] is not None and score["high"] is not None:
        ends = f" [{100 * score['low']:.0f}, {100 * score['high']:.0f}]"
    return (
        f"{member} solves {100 * score['rate']:.0f} % of {whose}{scores['problems']} held-out tasks, the start "
        f"{100 * scores['start']:.0f} %: {100 * score['gain']:+.0f}{ends}"
    )
