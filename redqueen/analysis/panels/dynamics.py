"""Panels: who solves what, what is refused, and what is paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redqueen.analysis.panels.panel import (
    IN_SAMPLE,
    Curves,
    Line,
    Panel,
    by_key,
    column,
    each,
    kinds_of,
    names,
    panel,
    share,
    standardised,
)


def dynamics(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the section "dynamics"."""
    return [*_tasks(lines), *_proposals(lines), *_pay(lines)]


def _tasks(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about who solves what."""
    kinds = kinds_of(lines)

    def over_kinds(line: Line) -> float | None:
        return standardised(line.get("solve_rate_by_kind") or {}, kinds)

    return [
        share(
            lines,
            "solve-rate",
            "dynamics",
            "Solve rate",
            "Correct attempts among the judged ones, over all tasks and as the mean of the kinds. A change in the "
            f"mix of kinds does not move the mean of the kinds. {IN_SAMPLE}",
            {"all tasks": column(lines, "solve_rate"), "mean of kinds": each(lines, over_kinds)},
        ),
        share(
            lines,
            "solve-rate-by-kind",
            "dynamics",
            "Solve rate by kind",
            f"Correct attempts among the judged ones, each kind of task for itself. {IN_SAMPLE}",
            by_key(lines, "solve_rate_by_kind"),
        ),
        share(
            lines,
            "contested",
            "dynamics",
            "Contested tasks",
            "Tasks that the matched student solved in some attempts but not in all, among the tasks with a solve rate. "
            f"Only these tell a student's attempts apart. {IN_SAMPLE}",
            _contested(lines),
        ),
    ]


def _proposals(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about what is valid, and why the rest is refused."""
    return [
        share(
            lines,
            "valid-rate",
            "dynamics",
            "Valid proposals",
            "Proposals that the sandbox could run and that gave the same result again, among the judged ones.",
            {"all": column(lines, "valid_rate"), **by_key(lines, "valid_rate_by_kind")},
        ),
        share(
            lines,
            "rejections",
            "dynamics",
            "Why proposals were refused",
            "Each reason's share of all proposals of the step. The rest was valid.",
            _statuses(lines, "proposals", without="valid"),
        ),
        share(
            lines,
            "verdicts",
            "dynamics",
            "Verdicts about attempts",
            "Each verdict's share of all attempts of the step, champions of the hall of fame included.",
            _statuses(lines, "attempts"),
        ),
    ]


def _pay(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about rewards and games."""
    rewards = {"teachers": column(lines, "teacher_reward"), "students": column(lines, "student_reward")}
    usual = all(-1 <= value <= 1 for column in rewards.values() for value in column if value is not None)
    return [
        panel(
            lines,
            "rewards",
            "dynamics",
            "Mean reward by role",
            "reward",
            "With the default reward a teacher is paid -1 for an invalid task, 0 for one that no attempt solves and "
            "1 - solve rate otherwise; a student 1 for a correct attempt, -0.5 for a wrong one and -1 for one that "
            f"cannot be read. {IN_SAMPLE}",
            rewards,
            low=-1 if usual else None,
            high=1 if usual else None,
        ),
        panel(
            lines,
            "outcomes",
            "dynamics",
            "Games by winner",
            "games",
            "Rated matches of the step by outcome. A student wins if it solves more than par, the running solve rate.",
            by_key(lines, "outcomes"),
            low=0,
        ),
    ]


def _contested(lines: Sequence[Line]) -> Curves:
    """Returns the share of contested tasks, over all kinds and by kind."""
    kinds = names(line.get("tasks_by_kind") or {} for line in lines)

    def of(line: Line, chosen: Sequence[str]) -> float | None:
        tasks: Mapping[str, int] = line.get("tasks_by_kind") or {}
        contested: Mapping[str, int] = line.get("contested_by_kind") or {}
        total = sum(tasks.get(kind, 0) for kind in chosen)
        return sum(contested.get(kind, 0) for kind in chosen) / total if total else None

    curves = {"all": tuple(of(line, kinds) for line in lines)}
    for kind in kinds:
        curves[kind] = tuple(of(line, [kind]) for line in lines)
    return curves


def _statuses(lines: Sequence[Line], what: str, without: str = "") -> Curves:
    """Returns the share of each status among all proposals, or all attempts, of a step."""
    counts: list[Mapping[str, int]] = [(line.get("statuses") or {}).get(what) or {} for line in lines]
    totals = [sum(count.values()) for count in counts]
    curves: Curves = {}
    for name in sorted(names(counts)):
        if name != without:
            pairs = zip(counts, totals, strict=True)
            curves[name] = tuple(count.get(name, 0) / total if total else None for count, total in pairs)
    return curves
