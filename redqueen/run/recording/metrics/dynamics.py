"""Metrics: who solves what, what is refused, and what is paid."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from redqueen.base.intervals import mean
from redqueen.base.machine import now
from redqueen.evals.held_out import OWN, START, HeldOutAnswer, Problem, gain_over, judged, kind_of
from redqueen.method.played_step import ScoredAttempt, ScoredProposal
from redqueen.records import Kind, Verdict
from redqueen.run.recording.metrics.metric import (
    IN_SAMPLE,
    CountedStep,
    Curves,
    Line,
    MetricChart,
    Metrics,
    at,
    by_key,
    column,
    contested_share,
    is_valid,
    kinds_of,
    named,
    names,
    several,
    standardised,
    with_curves,
    with_kinds,
)
from redqueen.store.metrics import StepMetrics

OWN_SCORES = "held_out_own"
"""The metric of the user's own held-out tasks."""
SHOWN = 4
"""The most students that have a sentence each at the end of a run."""
LEAST_OF_A_KIND = 30
"""The least held-out problems of each kind for a sentence by kind: the rates of fewer say next to nothing."""


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
    first, members = _compared(answers, start, own)
    if not members or not first:
        return None
    students: dict[str, dict[str, float | None]] = {}
    for member, right in members.items():
        gain = gain_over(first, right)
        if gain is not None:
            rate = fmean(right[problem] for problem in first)
            students[member] = {"rate": rate, "gain": gain.mean, "low": gain.low, "high": gain.high}
    return {"problems": len(first), "start": fmean(first.values()), "students": students}


def held_out_by_kind_scores(
    answers: Sequence[HeldOutAnswer], start: Sequence[HeldOutAnswer]
) -> dict[Kind, dict[str, float]]:
    """Returns the students' mean beside the start's, each kind of task for itself, over the problems of `held_out`."""
    first, members = _compared(answers, start, own=False)
    problems: dict[Kind, list[Problem]] = {}
    for problem in first if members else ():
        if kind := kind_of(problem[1]):
            problems.setdefault(kind, []).append(problem)
    return {
        kind: {
            "problems": len(posed),
            "start": fmean(first[problem] for problem in posed),
            "students": fmean(right[problem] for right in members.values() for problem in posed),
        }
        for kind, posed in sorted(problems.items())
    }


def _compared(
    answers: Sequence[HeldOutAnswer], start: Sequence[HeldOutAnswer], own: bool
) -> tuple[dict[Problem, bool], dict[str, dict[Problem, bool]]]:
    """Returns which problems the start solved, of those that everyone has an answer to, and which each student did."""
    members = judged(answer for answer in answers if (answer.benchmark == OWN) == own)
    asked = judged(answer for answer in start if (answer.benchmark == OWN) == own).get(START, {})
    first = {problem: right for problem, right in asked.items() if all(problem in one for one in members.values())}
    return first, members


def held_out_lines(lines: Sequence[StepMetrics]) -> list[str]:
    """Returns a sentence on each student of the last evaluation, the fittest first, and how to read it.

    Returns nothing if the run has no evaluation.
    """
    last = lines[-1] if lines else {}
    sentences = _sentences(last, "held_out", "")
    kinds = last.get("held_out_by_kind") or {}
    if kinds and min(one["problems"] for one in kinds.values()) >= LEAST_OF_A_KIND:
        told = [f"{kind} {100 * one['start']:.0f} to {100 * one['students']:.0f} %" for kind, one in kinds.items()]
        sentences.append(f"by kind, from the start to the mean of the students: {', '.join(told)}")
    sentences += _sentences(last, OWN_SCORES, "YOUR ")
    # Where no answer has changed there is no interval.
    if any("[" in sentence for sentence in sentences):
        sentences.append("[..]: 95 % interval over the tasks, which no member was trained or selected on")
    return sentences


def _sentences(line: StepMetrics, name: str, whose: str) -> list[str]:
    scores = line.get(name)
    if scores is None:
        return []
    fitness = {name: member["fitness"] for name, member in line["members"].items()}
    # By what selection ranks by, and not by the scores themselves: the best of several scores is too good.
    # An unknown fitness comes last, as in selection.
    known = {name: value for name, value in fitness.items() if value is not None}
    ranked = sorted(scores["students"], key=lambda name: -known.get(name, -math.inf))
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


METRICS = Metrics("dynamics")


@METRICS.add("steps")
def step(step: CountedStep) -> int:
    """Counted from 1."""
    return step.record.step


@METRICS.add("")
def time(_: CountedStep) -> str:
    """When the line was written: 2026-01-31T12:00:00Z."""
    return now()


def _measured(lines: Sequence[Line], name: str) -> list[Mapping[str, Any]]:
    return [line[name]["students"] for line in lines]


def _students(lines: Sequence[Line], name: str) -> Curves:
    students = with_curves(_measured(lines, name))
    rates = {student: column(lines, name, "students", student, "rate") for student in students}
    return {"the start": column(lines, name, "start"), **rates}


@METRICS.add(
    "share",
    MetricChart(
        "held-out-students",
        "Held-out problems, by student",
        "Right answers among the judged ones, all benchmarks of evals.benchmarks together. The start is the "
        "adapter that all members began with. No member is trained or selected by these problems.",
        _students,
        only="held_out",
        members=_measured,
    ),
    optional=True,
)
def held_out(step: CountedStep) -> dict[str, Any] | None:
    """All benchmarks of `evals` together: the number of `problems`, without those that the machine lost for one of
    them, the share that the `start` solves, and of each of the `students` the `rate` and its `gain`, paired by problem,
    with a 95 % interval from `low` to `high` over programs (Student's t; null if their answers differ at no problem, or
    alike at all). Runs with another `asked` were asked other problems.
    """
    scores = held_out_scores(step.record.answers, step.record.start)
    return None if scores is None else {**scores, "asked": step.record.asked}


@METRICS.add(
    "share",
    MetricChart(
        "held-out-own",
        "Your held-out tasks, by student",
        "Right answers among the judged ones. The start is the adapter that all members began with. Nothing similar to "
        "these tasks is trained on.",
        _students,
        only=OWN_SCORES,
        members=_measured,
    ),
    optional=True,
)
def held_out_own(step: CountedStep) -> dict[str, Any] | None:
    """The same of your own tasks that the run holds out (`evals.own`); these are not in `held_out`."""
    return held_out_scores(step.record.answers, step.record.start, own=True)


def _starts_and_students(lines: Sequence[Line], name: str) -> Curves:
    curves: Curves = {}
    for kind in named(lines, name):
        curves[kind] = column(lines, name, kind, "students")
        curves[f"{kind}, the start"] = column(lines, name, kind, "start")
    return curves


@METRICS.add(
    "share",
    MetricChart(
        "held-out-by-kind",
        "Held-out problems, by kind",
        "Right answers among the judged ones, as the mean of the living students, each kind of task for itself, beside "
        "the adapter that all members began with.",
        _starts_and_students,
        only="held_out_by_kind",
    ),
    optional=True,
)
def held_out_by_kind(step: CountedStep) -> dict[Kind, dict[str, float]] | None:
    """The reserved programs in `held_out` by kind, where they are posed in several: the number of `problems`, the share
    that the `start` solves, and the mean of the `students`.
    """
    scores = held_out_by_kind_scores(step.record.answers, step.record.start)
    return scores if len(scores) > 1 else None


def _benchmarks(lines: Sequence[Line], name: str) -> Curves:
    benchmarks = names(line[name] for line in lines)
    return {
        benchmark: tuple(mean((at(line, name, benchmark) or {}).values()) for line in lines) for benchmark in benchmarks
    }


@METRICS.add(
    "share",
    MetricChart(
        "held-out",
        "Held-out problems",
        "Right answers among the judged ones, as the mean of the living students, by benchmark. Held-out: no "
        "member is trained or selected by these problems.",
        _benchmarks,
        only="evals",
    ),
    optional=True,
)
def evals(step: CountedStep) -> dict[str, dict[str, float | None]] | None:
    """[Held-out](../EVALUATION.md#while-a-run-goes-on): right / judged answers by benchmark and student."""
    return rates(step.record.answers) or None


def _with_mean_of_kinds(lines: Sequence[Line], name: str) -> Curves:
    kinds = kinds_of(lines)
    means = tuple(standardised(line.get(f"{name}_by_kind") or {}, kinds) for line in lines)
    return {"all tasks": column(lines, name), "mean of kinds": means}


def _solve_rate(answered: Sequence[ScoredAttempt]) -> float | None:
    return mean(attempt.attempted.verdict.status == "correct" for attempt in answered)


@METRICS.drawn(
    "share",
    "solve-rate",
    "Solve rate",
    "Correct attempts among the judged ones, over all tasks and as the mean of the kinds. A change in the "
    f"mix of kinds does not move the mean of the kinds. {IN_SAMPLE}",
    _with_mean_of_kinds,
)
def solve_rate(step: CountedStep) -> float | None:
    """Correct / judged attempts, in sample."""
    return _solve_rate(step.answered)


@METRICS.drawn(
    "share",
    "solve-rate-by-kind",
    "Solve rate by kind",
    f"Correct attempts among the judged ones, each kind of task for itself. {IN_SAMPLE}",
    by_key,
)
def solve_rate_by_kind(step: CountedStep) -> dict[Kind, float | None]:
    """The same by kind."""
    return step.by_kind(step.answered, _solve_rate)


@METRICS.add(
    "share",
    MetricChart(
        "solve-rate-own",
        "Solve rate of your tasks and of teachers' tasks",
        f"Correct attempts among the judged ones, in runs that pose fixed tasks. {IN_SAMPLE}",
        several(fixed="solve_rate_own", teachers="solve_rate_teachers"),
        only="solve_rate_own",
    ),
    optional=True,
)
def solve_rate_own(step: CountedStep) -> float | None:
    """Correct / judged attempts at fixed tasks: your own, or the seeds; only where some are posed."""
    return _solve_rate(step.answered_fixed)


@METRICS.add("share", optional=True)
def solve_rate_teachers(step: CountedStep) -> float | None:
    """The same at teachers' tasks; only where fixed ones are posed too."""
    fixed = {id(attempt) for attempt in step.answered_fixed}
    return _solve_rate([one for one in step.answered if id(one) not in fixed]) if fixed else None


@METRICS.add("tasks")
def tasks_by_kind(step: CountedStep) -> dict[Kind, int]:
    """Tasks with a solve rate, those of the task bank too."""
    return step.by_kind(step.rated, len)


def _shares_contested(lines: Sequence[Line], _: str) -> Curves:
    """Returns the share of contested tasks, over all kinds and by kind."""
    kinds = named(lines, "tasks_by_kind")

    def share(line: Line, kind: str) -> float | None:
        tasks = at(line, "tasks_by_kind", kind)
        return (at(line, "contested_by_kind", kind) or 0) / tasks if tasks else None

    by_kind = {kind: tuple(share(line, kind) for line in lines) for kind in kinds}
    return {"all": tuple(map(contested_share, lines)), **by_kind}


@METRICS.add(
    "tasks",
    MetricChart(
        "contested",
        "Contested tasks",
        "Tasks that the matched student solved in some attempts but not in all, among the tasks with a solve rate. "
        f"Only these tell a student's attempts apart. {IN_SAMPLE}",
        _shares_contested,
        unit="share",
    ),
)
def contested_by_kind(step: CountedStep) -> dict[Kind, int]:
    """Those with a solve rate above 0 and below 1."""
    contested = [proposal for proposal in step.rated if 0 < (proposal.solve_rate or 0) < 1]
    return step.by_kind(contested, len)


def _valid_rate(judged: Sequence[ScoredProposal]) -> float | None:
    return mean(is_valid(proposal) for proposal in judged)


@METRICS.drawn(
    "share",
    "valid-rate",
    "Valid proposals",
    "Proposals that the sandbox could run and that gave the same result again, among the judged ones.",
    with_kinds("all"),
)
def valid_rate(step: CountedStep) -> float | None:
    """Valid tasks / judged proposals."""
    return _valid_rate(step.judged)


@METRICS.add("share")
def valid_rate_by_kind(step: CountedStep) -> dict[Kind, float | None]:
    """The same by kind."""
    return step.by_kind(step.judged, _valid_rate)


def _shares_of_statuses(lines: Sequence[Line], what: str, without: str = "") -> Curves:
    """Returns the share of each status among all proposals, or all attempts, of a step."""
    counts: list[Mapping[str, int]] = [at(line, "statuses", what) or {} for line in lines]
    totals = [sum(count.values()) for count in counts]
    curves: Curves = {}
    for status in sorted(names(counts)):
        if status != without:
            pairs = zip(counts, totals, strict=True)
            curves[status] = tuple(count.get(status, 0) / total if total else None for count, total in pairs)
    return curves


def _counts_of_statuses(verdicts: Iterable[Verdict]) -> dict[str, int]:
    return dict(sorted(Counter(verdict.status for verdict in verdicts).items()))


@METRICS.add(
    "texts",
    MetricChart(
        "rejections",
        "Why proposals were refused",
        "Each reason's share of all proposals of the step. The rest was valid.",
        lambda lines, _: _shares_of_statuses(lines, "proposals", without="valid"),
        unit="share",
    ),
    MetricChart(
        "verdicts",
        "Verdicts about attempts",
        "Each verdict's share of all attempts of the step, champions of the hall of fame included.",
        lambda lines, _: _shares_of_statuses(lines, "attempts"),
        unit="share",
    ),
)
def statuses(step: CountedStep) -> dict[str, dict[str, int]]:
    """How many `proposals` and `attempts` ended with each status."""
    return {
        "proposals": _counts_of_statuses(proposal.proposed.verdict for proposal in step.all_proposals),
        "attempts": _counts_of_statuses(attempt.attempted.verdict for attempt in step.all_attempts),
    }


@METRICS.add(
    "reward",
    MetricChart(
        "rewards",
        "Mean reward by role",
        "With the default reward a teacher is paid -1 for an invalid task, 0 for one that no attempt solves and "
        "1 - solve rate otherwise; a student 1 for a correct attempt, -0.5 for a wrong one and -1 for one that "
        f"cannot be read. {IN_SAMPLE}",
        several(teachers="teacher_reward", students="student_reward"),
        limits=(None, None),
        usual=(-1, 1),
    ),
)
def teacher_reward(step: CountedStep) -> float | None:
    """Mean reward of proposals."""
    # A proposal can be judged and still have no reward: the machine may have lost every attempt at its task.
    return mean(proposal.reward for proposal in step.proposals)


@METRICS.add("reward")
def student_reward(step: CountedStep) -> float | None:
    """Mean reward of attempts."""
    return mean(attempt.reward for attempt in step.attempts)


@METRICS.drawn(
    "games",
    "outcomes",
    "Games by winner",
    "Rated matches of the step by outcome. A student wins if it solves more than par, the running solve rate.",
    by_key,
)
def outcomes(step: CountedStep) -> dict[str, int]:
    """Games won by the `student`, by the `teacher`, by neither (`draw`)."""
    counts = Counter(game.outcome for game in step.record.games)
    return {"student": counts["student"], "draw": counts["draw"], "teacher": counts["teacher"]}


@METRICS.add("share")
def par(step: CountedStep) -> dict[Kind, float]:
    """By kind that was ever solved: the solve rate that games were judged by."""
    return {kind: step.record.par[kind] for kind in step.kinds if kind in step.record.par}
