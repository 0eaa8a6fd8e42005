"""`redqueen eval`: how many held-out tasks members, adapters and the bare base solve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from redqueen.commands.environment import check_memory
from redqueen.commands.tables import table_console, unsigned_interval
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.evals.evaluation import HALF, Score, all_tasks, answer_tokens, evaluate, population_mean
from redqueen.evals.targets import Members, read_targets
from redqueen.policy.model.base import load
from redqueen.recording.task_reporter import TaskReporter
from redqueen.records import KINDS
from redqueen.verifier import LocalVerifier

NOTES = """\
Held out: {tasks} tasks on reserved programs, on which runs neither train nor select; greedy, {prompts} prompts with
{shots} worked examples, answers of at most {tokens} tokens. [..]: 95 % intervals, of one adapter over tasks
(Wilson), of a mean over the members of the run (Student's t; other tasks would add to it)."""


def run_eval(targets: Sequence[str], members: Members, model: str | None, limit: int | None, *, as_json: bool) -> int:
    """Evaluates the targets and prints the table; returns the exit code.

    Raises UserError if a target cannot be read, or `limit` is more tasks than there are.
    """
    tasks = limit or all_tasks()
    if tasks > all_tasks():
        raise UserError(f"--limit {tasks}: there are {all_tasks()} tasks, choose at most that")
    config, entrants = read_targets(targets, members, model)
    # Progress goes to standard error: --json is for pipes.
    progress = Console(stderr=True)
    config = check_memory(config, len(entrants), progress)
    base = load(config.model)
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier, TaskReporter(progress) as report:
        scores = evaluate(
            base, config, entrants, verifier, tasks, lambda done, total: report("held-out tasks", done, total)
        )
    if as_json:
        print(json.dumps(document(scores, config, tasks), indent=1))
    else:
        console = table_console()
        console.print(table(scores))
        notes = NOTES.format(
            tasks=tasks, prompts=config.model.prompts, shots=config.game.shots or "no", tokens=answer_tokens(config)
        )
        console.print(notes, soft_wrap=True, markup=False)
    return 0


def table(scores: Sequence[Score]) -> Table:
    """Returns a table with one row for each entrant, and one with the mean of each run of several members."""
    rows = Table(box=None, pad_edge=False)
    for name in ("target", "member", *KINDS, "solved", "rate"):
        rows.add_column(name, no_wrap=True, justify="left" if name in ("target", "member", "rate") else "right")
    for target, group in _by_target(scores).items():
        for score in group:
            kinds = [f"{score.solved[kind]}/{score.judged[kind]}" for kind in KINDS]
            whole = f"{sum(score.solved.values())}/{sum(score.judged.values())}"
            rows.add_row(target, score.member or "-", *kinds, whole, unsigned_interval(score.rate))
        if len(group) > 1:
            mean = unsigned_interval(population_mean(group))
            rows.add_row(target, f"mean of {len(group)}", *("" for _ in KINDS), "", mean)
    return rows


def document(scores: Sequence[Score], config: Config, tasks: int) -> dict[str, object]:
    """Returns the JSON: how it was measured, every entrant's counts, the mean of each run of several members."""
    means: dict[str, object] = {}
    for target, group in _by_target(scores).items():
        mean = population_mean(group)
        if mean is not None and len(group) > 1:
            means[target] = asdict(mean)
    return {
        "programs": f"reserved, {HALF}",
        "tasks": tasks,
        "base": config.model.name,
        "prompts": config.model.prompts,
        "shots": config.game.shots,
        "temperature": 0,
        "answer_tokens": answer_tokens(config),
        "scores": [{**asdict(score), "rate": score.rate and asdict(score.rate)} for score in scores],
        "means": means,
    }


def _by_target(scores: Sequence[Score]) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(score.target, []).append(score)
    return groups
