"""The charts of a run as numbers: the live page, the report and the comparison draw the same panels.

Everything here comes from the lines of metrics.jsonl alone, so that a page can follow a run at the cost of
milliseconds. Imports no torch, no matplotlib and no sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any, Literal

from redqueen.runs.metrics import StepMetrics

Section = Literal["dynamics", "complexity", "coverage", "training", "league"]
Column = tuple[float | None, ...]
Curves = dict[str, Column]
# A line as a reader finds it. Another version of Red Queen may have written it, so any key can be missing.
Line = Mapping[str, Any]

IN_SAMPLE = "In sample: measured on the tasks that the members train on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart: curves over the steps of a run."""

    key: str
    """A stable name, used in links and file names: "solve-rate"."""
    section: Section
    title: str
    unit: str
    """What the vertical axis counts: "share", "lines", "tokens", "seconds", ..."""
    note: str
    """One or two plain sentences: what is counted, in sample or held-out."""
    low: float | None
    """The lower limit of the axis; None where it follows the data."""
    high: float | None
    """The upper limit of the axis; None where it follows the data."""
    steps: tuple[int, ...]
    curves: Mapping[str, Column]
    """By label, each as long as `steps`; None is a gap."""


def panels(lines: Sequence[StepMetrics]) -> list[Panel]:
    """Returns every panel that these lines have numbers for, section by section."""
    made = [*_dynamics(lines), *_complexity(lines), *_coverage(lines), *_training(lines), *_league(lines)]
    return [panel for panel in made if panel.curves]


def kinds_of(lines: Sequence[Line]) -> list[str]:
    """Returns the kinds of task that occur in the lines, in the order of the first line."""
    names: dict[str, None] = {}
    for line in lines:
        names.update(dict.fromkeys(line.get("solve_rate_by_kind") or {}))
    return list(names)


def standardised(by_kind: Mapping[str, float | None], kinds: Sequence[str]) -> float | None:
    """Returns the mean over `kinds`, each with the same weight; None if one of them has no value.

    The plain solve rate also moves when teachers write more of an easy kind. This one does not.
    """
    values = [value for kind in kinds if (value := by_kind.get(kind)) is not None]
    return fmean(values) if values and len(values) == len(kinds) else None


def _dynamics(lines: Sequence[Line]) -> list[Panel]:
    kinds = kinds_of(lines)

    def over_kinds(line: Line) -> float | None:
        return standardised(line.get("solve_rate_by_kind") or {}, kinds)

    rewards = {"teachers": _column(lines, "teacher_reward"), "students": _column(lines, "student_reward")}
    usual = all(-1 <= value <= 1 for column in rewards.values() for value in column if value is not None)
    return [
        _share(
            lines,
            "solve-rate",
            "dynamics",
            "Solve rate",
            "Correct attempts among the judged ones, over all tasks and as the mean of the kinds. A change in the "
            f"mix of kinds does not move the mean of the kinds. {IN_SAMPLE}",
            {"all tasks": _column(lines, "solve_rate"), "mean of kinds": _each(lines, over_kinds)},
        ),
        _share(
            lines,
            "solve-rate-by-kind",
            "dynamics",
            "Solve rate by kind",
            f"Correct attempts among the judged ones, each kind of task for itself. {IN_SAMPLE}",
            _by_key(lines, "solve_rate_by_kind"),
        ),
        _share(
            lines,
            "contested",
            "dynamics",
            "Contested tasks",
            "Tasks that the matched student solved in some attempts but not in all, among the tasks with a solve rate. "
            f"Only these tell a student's attempts apart. {IN_SAMPLE}",
            _contested(lines),
        ),
        _share(
            lines,
            "valid-rate",
            "dynamics",
            "Valid proposals",
            "Proposals that the sandbox could run and that gave the same result again, among the judged ones.",
            {"all": _column(lines, "valid_rate"), **_by_key(lines, "valid_rate_by_kind")},
        ),
        _share(
            lines,
            "rejections",
            "dynamics",
            "Why proposals were refused",
            "Each reason's share of all proposals of the step. The rest was valid.",
            _statuses(lines, "proposals", without="valid"),
        ),
        _share(
            lines,
            "verdicts",
            "dynamics",
            "Verdicts about attempts",
            "Each verdict's share of all attempts of the step, champions of the hall of fame included.",
            _statuses(lines, "attempts"),
        ),
        _panel(
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
        _panel(
            lines,
            "outcomes",
            "dynamics",
            "Games by winner",
            "games",
            "Rated matches of the step by outcome. A student wins if it solves more than par, the running solve rate.",
            _by_key(lines, "outcomes"),
            low=0,
        ),
    ]


def _complexity(lines: Sequence[Line]) -> list[Panel]:
    return [
        _panel(
            lines,
            "lines",
            "complexity",
            "Lines of a program by kind",
            "lines",
            "Mean lines of the valid tasks' programs as written. The programs of code_f are given to the teacher.",
            _by_key(lines, "lines_by_kind"),
            low=0,
        ),
    ]


def _coverage(lines: Sequence[Line]) -> list[Panel]:
    return [
        _share(
            lines,
            "new-ideas",
            "coverage",
            "Tasks with a new idea",
            "Valid tasks whose program, up to names and constants, neither a seed nor the task bank had; for code_f it "
            "is the message.",
            {"all": _column(lines, "novel_rate"), **_by_key(lines, "novel_rate_by_kind")},
        ),
        _share(
            lines,
            "seed-references",
            "coverage",
            "Seed programs among the references",
            "Of the programs that teachers are shown, the share that are seeds and not the run's own tasks.",
            {"seeds": _column(lines, "seed_references")},
        ),
        _panel(
            lines,
            "task-bank",
            "coverage",
            "Tasks in the task bank",
            "tasks",
            "The seeds and the valid tasks that teachers can be shown as references.",
            {"tasks": _column(lines, "task_bank_size")},
            low=0,
        ),
    ]


def _training(lines: Sequence[Line]) -> list[Panel]:
    tokens = {"sampled": _column(lines, "tokens_sampled"), "trained": _column(lines, "tokens_trained")}
    return [
        _panel(
            lines,
            "entropy",
            "training",
            "Entropy by role",
            "nats per token",
            "Mean over the living members of the negative log-probability of a sampled token.",
            _entropy(lines),
            low=0,
        ),
        _share(
            lines,
            "truncated",
            "training",
            "Texts cut off by the token limit",
            "Proposals and attempts that did not end by themselves; such a text counts as malformed.",
            _by_key(lines, "truncated_rate"),
        ),
        _panel(lines, "tokens", "training", "Tokens a step", "tokens", "Tokens sampled and trained on.", tokens, low=0),
        _panel(
            lines,
            "seconds",
            "training",
            "Seconds by phase",
            "seconds",
            "Wall time of the step and of its phases.",
            _by_key(lines, "seconds"),
            low=0,
        ),
        _panel(
            lines,
            "gradient-norm",
            "training",
            "Norm of the gradient by role",
            "norm",
            "Mean over the living members that were updated, before clipping.",
            _by_role(lines, "grad_norm"),
            low=0,
        ),
        _panel(
            lines,
            "logprob-gap",
            "training",
            "Sampler and learner apart",
            "nats per token",
            "Mean absolute difference between the log-probabilities of the sampler and of the learner.",
            {"gap": _column(lines, "logprob_gap")},
            low=0,
        ),
        _panel(
            lines,
            "dropped",
            "training",
            "Samples without a reward",
            "samples",
            "Faults of the machine, and attempts at tasks that were withdrawn.",
            {"dropped": _column(lines, "dropped")},
            low=0,
        ),
    ]


def _league(lines: Sequence[Line]) -> list[Panel]:
    note = "Ratings are relative to the opponents of the day: if both sides improve alike, they stand still."
    made: list[Panel] = []
    for role, name in (("teacher", "teachers"), ("student", "students"), ("both", "single agent")):
        key = name.replace(" ", "-")
        made += [
            _panel(
                lines,
                f"ratings-{key}",
                "league",
                f"Ratings: {name}",
                "rating",
                f"TrueSkill's mu of each living member. {note}",
                _members(lines, role, "mu"),
            ),
            _panel(
                lines,
                f"sigma-{key}",
                "league",
                f"Uncertainty of the ratings: {name}",
                "sigma",
                "TrueSkill's sigma of each living member; a newborn starts uncertain.",
                _members(lines, role, "sigma"),
                low=0,
            ),
        ]
    return [
        *made,
        _panel(
            lines,
            "births",
            "league",
            "Births so far",
            "births",
            "Members that were born up to the end of the step, by the operator that made them.",
            _births(lines),
            low=0,
        ),
        _panel(
            lines,
            "hall-of-fame",
            "league",
            "Champions in the hall of fame",
            "champions",
            "Frozen copies of former best members that the living ones still play against.",
            _if_any({"champions": _each(lines, _champions)}),
            low=0,
        ),
    ]


def _panel(
    lines: Sequence[Line],
    key: str,
    section: Section,
    title: str,
    unit: str,
    note: str,
    curves: Mapping[str, Column],
    *,
    low: float | None = None,
    high: float | None = None,
) -> Panel:
    """Returns a panel; a curve without any value is left out."""
    shown = {label: column for label, column in curves.items() if any(value is not None for value in column)}
    steps = tuple(int(line["step"]) for line in lines)
    return Panel(
        key=key, section=section, title=title, unit=unit, note=note, low=low, high=high, steps=steps, curves=shown
    )


def _share(
    lines: Sequence[Line], key: str, section: Section, title: str, note: str, curves: Mapping[str, Column]
) -> Panel:
    # The limits of a share are what is possible: a curve that hardly moves looks flat, in every run alike.
    return _panel(lines, key, section, title, "share", note, curves, low=0, high=1)


def _each(lines: Sequence[Line], value: Callable[[Line], float | None]) -> Column:
    return tuple(value(line) for line in lines)


def _column(lines: Sequence[Line], key: str) -> Column:
    return tuple(line.get(key) for line in lines)


def _by_key(lines: Sequence[Line], key: str) -> Curves:
    """Returns one curve for each name in the lines' mapping `key`."""
    names = _names(line.get(key) or {} for line in lines)
    return {name: tuple((line.get(key) or {}).get(name) for line in lines) for name in names}


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the keys of all mappings, in the order in which they appear."""
    names: dict[str, None] = {}
    for mapping in mappings:
        names.update(dict.fromkeys(mapping))
    return list(names)


def _contested(lines: Sequence[Line]) -> Curves:
    """Returns the share of contested tasks, over all kinds and by kind."""
    kinds = _names(line.get("tasks_by_kind") or {} for line in lines)

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
    for name in sorted(_names(counts)):
        if name != without:
            pairs = zip(counts, totals, strict=True)
            curves[name] = tuple(count.get(name, 0) / total if total else None for count, total in pairs)
    return curves


def _entropy(lines: Sequence[Line]) -> Curves:
    """Returns the mean entropy of the members in each role."""
    roles = _names(line.get("entropy") or {} for line in lines)
    curves: Curves = {}
    for role in roles:
        members = [list(((line.get("entropy") or {}).get(role) or {}).values()) for line in lines]
        curves[role] = tuple(fmean(values) if values else None for values in members)
    return curves


def _by_role(lines: Sequence[Line], key: str) -> Curves:
    """Returns the mean over the members of each role of a value that the lines have by member."""
    columns: dict[str, dict[int, list[float]]] = {}
    roles: dict[str, str] = {}
    for index, line in enumerate(lines):
        # `members` are those after the births. Who was replaced in this step is known from the lines before.
        roles.update({name: member["role"] for name, member in (line.get("members") or {}).items()})
        for name, value in (line.get(key) or {}).items():
            if value is not None and name in roles:
                columns.setdefault(roles[name], {}).setdefault(index, []).append(value)
    curves: Curves = {}
    for role in sorted(columns, reverse=True):
        by_line = columns[role]
        curves[role] = tuple(fmean(by_line[i]) if i in by_line else None for i in range(len(lines)))
    return curves


def _members(lines: Sequence[Line], role: str, value: str) -> Curves:
    """Returns a value of each member of a role, by name; a gap where it does not live."""
    living: list[Mapping[str, Any]] = []
    for line in lines:
        members: Mapping[str, Any] = line.get("members") or {}
        living.append({name: member.get(value) for name, member in members.items() if member["role"] == role})
    return {name: tuple(step.get(name) for step in living) for name in _names(living)}


def _births(lines: Sequence[Line]) -> Curves:
    """Returns how many members each operator has made since the start."""
    operators: list[list[str]] = []
    for line in lines:
        operators.append([birth["operator"] for birth in line.get("replacements") or []])
    names = sorted({operator for step in operators for operator in step})
    return {name: tuple(accumulate(step.count(name) for step in operators)) for name in names}


def _champions(line: Line) -> float | None:
    return len(line["hall"]) if "hall" in line else None


def _if_any(curves: Curves) -> Curves:
    """Returns the curves, or none where all their values are zero: the run does not have this."""
    return curves if any(value for column in curves.values() for value in column) else {}
