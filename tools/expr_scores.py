"""What the experiments in expr need of a run beside its metrics: scores and contested tasks by depth, wrong golds."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from redqueen.extras.expr.expressions import parse, size_of
from redqueen.extras.expr.modes import EXPR
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import EvaluationRow, TaskRow
from redqueen.store.directory import RunDirectory


def depth_scores(run: RunDirectory, step: int) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the students' scores in the run's own evaluation after a step, by member and depth.

    Answers are drawn as in training. Each score is the share of right answers and the number of problems, without those
    that the machine lost. At step 0 the member is the adapter that all others started from. `deep 4` to `deep 7` are of
    `tools/deep_expressions.py`, `depth 2` to `depth 4` of the expressions that the language lists as reserved.
    """
    programs = {f"reserved-all-{number}": draft.program for number, draft in enumerate(EXPR.reserved())}
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    with ArchiveReader(run.archive) as reader:
        for row in reader.every(EvaluationRow, step):
            if row.status == "infra_error":
                continue
            name, _, _ = row.problem.rpartition("-")
            if row.benchmark == "deep_expressions":
                cell = name.replace("depth-", "deep ")
            else:
                cell = f"depth {size_of(parse(programs[name]))[0]}"
            right[row.member][f"{cell} drawn"].append(row.status == "correct")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for member, by_depth in sorted(right.items()):
        cells = sorted(by_depth.items())
        found[member] = {name: {"rate": round(fmean(one), 6), "problems": len(one)} for name, one in cells}
    return found


def contested_depths(run: RunDirectory) -> dict[int, float]:
    """Returns by step the mean depth of the tasks that some attempts solved and others did not."""
    depths: dict[int, list[int]] = defaultdict(list)
    with ArchiveReader(run.archive) as reader:
        for task in reader.every(TaskRow):
            if task.rho is not None and 0 < task.rho < 1:
                depths[task.step].append(size_of(parse(task.program))[0])
    return {step: round(fmean(each), 4) for step, each in sorted(depths.items())}


def wrong_golds(run: RunDirectory) -> float | None:
    """Returns the share of a run's tasks whose outputs are not those of their programs; None without tasks."""
    with ArchiveReader(run.archive) as reader:
        tasks = [row.task() for row in reader.every(TaskRow)]
    wrong: list[bool] = []
    for task in tasks:
        outputs = EXPR.job(task.program, [pair.input for pair in task.pairs]).outputs
        wrong.append(outputs != tuple(pair.output for pair in task.pairs))
    return round(fmean(wrong), 4) if wrong else None
