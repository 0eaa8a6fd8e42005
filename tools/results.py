"""Repeats the experiments of docs/reports: trains what is missing, and writes a small file of numbers for each run.

    python -m tools.results runs                     # trains and evaluates, in the order of the plan; can be stopped
    python -m tools.results runs --only C --seeds 1
    python -m tools.results list                     # the plan, and what is done
    python -m tools.results again                    # reads finished runs once more, without scoring anybody
    python -m tools.results passes                   # adds pass@1, 4 and 16 to the numbers of finished runs
    python -m tools.results panels                   # plays students of all times against tasks of all times
    python -m tools.results runs --experiment expr   # the experiment of docs/reports/RESULTS_EXPR.md

A run is an ordinary run of `redqueen train`, in `runs/results/ARM-SEED`; its numbers are `docs/results/ARM-SEED.json`.
What differs between the experiments is in `tools/experiments.py`.
With `--data DIR` the last students and the start are also scored on CRUXEval, whose file `cruxeval.jsonl` is in DIR.
`T` are the strangers (`redqueen transfer`) of the runs C, A and E of one seed, whose tasks are kept in
`docs/results/tasks`, so that strangers need no machine that has the runs. A run that is trained again for its tasks
is in `runs/results/again`, and its numbers stay those of the first time. `tools/results_report.py` makes tables and
figures of the numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from redqueen.analysis.compare import rarefaction
from redqueen.analysis.verdict import oscillation
from redqueen.base.intervals import mean
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import TaskRow
from redqueen.store.directory import RunDirectory
from tools.experiments import EXPERIMENTS, EXPR, PASSES, STRANGERS, WINDOW, Experiment
from tools.expr_scores import contested_depths, depth_scores, wrong_golds
from tools.work_pay import pay_of_work

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "results"
NUMBERS = ROOT / "docs" / "results"
AGAIN = RUNS / "again"
TASKS = NUMBERS / "tasks"
PANELS = NUMBERS / "panels"
PANEL = ("--epochs", "6", "--tasks", "60", "--attempts", "4", "--students", "2")
"""Who plays what in a panel: options of `redqueen ancestry`."""
CURRICULA = ("C", "A", "E")
"""The arms whose tasks strangers are trained on."""
STRANGER_STEPS = 30
MACHINE = ("gpu", "processor", "cores", "dtype")
RAREFIED = 100
"""Coverage is counted in so many tasks of a window."""


def main() -> None:
    """Reads the arguments and does what they say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["runs", "list", "again", "passes", "panels"])
    parser.add_argument("--experiment", choices=list(EXPERIMENTS), default="code", help="the language (default: code)")
    parser.add_argument("--only", metavar="ARM", help="one arm")
    parser.add_argument("--seeds", type=int, help="at most so many seeds of each arm")
    parser.add_argument("--data", type=Path, help="the folder with cruxeval.jsonl")
    parser.add_argument("--at-once", metavar="N", type=int, default=1, help="runs side by side, as on one GPU")
    given = parser.parse_args()
    experiment = EXPERIMENTS[given.experiment]
    plan = experiment.plan(given.only, given.seeds)
    pool = ThreadPoolExecutor(given.at_once)
    try:
        for one in [pool.submit(_do, given.what, experiment, arm, seed, given.data) for arm, seed in plan]:
            one.result()
    finally:
        # After a failure, or Ctrl-C, those that have not begun do not begin.
        pool.shutdown(cancel_futures=True)


def _do(what: str, experiment: Experiment, arm: str, seed: int, data: Path | None) -> None:
    """Does with one run what the command line asks for."""
    name = f"{experiment.prefix}{arm}-{seed}"
    numbers = NUMBERS / f"{name}.json"
    print(f"{name}: {'done' if numbers.exists() else 'to do'}", flush=True)
    if what == "runs" and not numbers.exists():
        NUMBERS.mkdir(exist_ok=True)
        _write(numbers, _document(experiment, arm, seed, data))
    if what == "panels":
        _keep_panels(experiment, arm, seed)
    # The folder of strangers holds runs and is none itself.
    if what in ("again", "passes") and numbers.exists() and (RUNS / name / "metrics.jsonl").exists():
        document = json.loads(numbers.read_text(encoding="utf-8"))
        run = RunDirectory(RUNS / name)
        if what == "again":
            document |= {"secondary": _secondary(run), "breadth": _breadth(run), "pay_of_work": pay_of_work(run)}
            document["steps"] = [_step(line) for line in run.metrics()]
            _keep_tasks(experiment, arm, seed, run)
        elif "passes" not in document:
            document["passes"] = {str(step): _passes(run, step, data) for step in (0, experiment.steps)}
        _write(numbers, document)


def _write(numbers: Path, document: dict[str, Any]) -> None:
    numbers.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _document(experiment: Experiment, arm: str, seed: int, data: Path | None) -> dict[str, Any]:
    return _strangers(experiment, seed, data) if arm == STRANGERS else _numbers(experiment, arm, seed, data)


def _train(experiment: Experiment, arm: str, seed: int, folder: Path = RUNS) -> RunDirectory:
    """Trains the rest of a run, in a folder of runs. Raises CalledProcessError if it fails."""
    run = RunDirectory(folder / f"{experiment.prefix}{arm}-{seed}")
    command = [sys.executable, "-m", "redqueen", "train"]
    if _is_finished(run, experiment):
        return run
    if run.saved():
        # The plugins of an arm are modules of this repository.
        command += ["--resume", str(run.path), "--load-plugins"]
    else:
        command += [*experiment.settings(arm), f"run.seed={seed}", "--run", str(run.path)]
    subprocess.run(command, check=True, cwd=ROOT)
    return run


def _is_finished(run: RunDirectory, experiment: Experiment) -> bool:
    return max(run.saved(), default=0) >= experiment.steps


def _finished(experiment: Experiment, arm: str, seed: int) -> RunDirectory | None:
    """Returns the finished run that is here, of the first time or made again; None without one."""
    runs = [RunDirectory(folder / f"{experiment.prefix}{arm}-{seed}") for folder in (RUNS, AGAIN)]
    return next((run for run in runs if _is_finished(run, experiment)), None)


def _strangers(experiment: Experiment, seed: int, data: Path | None) -> dict[str, Any]:
    """Trains the strangers of a seed, and returns what the report needs of them.

    A run whose tasks are not there is trained once more: the numbers of the first runs were kept without them.
    """
    for arm in CURRICULA:
        if not _tasks_file(arm, seed).exists():
            run = _finished(experiment, arm, seed) or _train(experiment, arm, seed, AGAIN)
            _keep_tasks(experiment, arm, seed, run)
    out = RUNS / f"{STRANGERS}-{seed}"
    command = [sys.executable, "-m", "redqueen", "transfer", "--seeds", "1", "--out", str(out), "--json"]
    command += [str(_tasks_file(arm, seed)) for arm in CURRICULA]
    settings = [f"run.seed={seed}", f"run.steps={STRANGER_STEPS}", f"evals.every={STRANGER_STEPS}"]
    done = subprocess.run([*command, *settings], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    runs = {path.parent.name: RunDirectory(path) for path in sorted(out.glob(f"*/seed-{seed}"))}
    start = next(iter(runs.values()))
    return {
        "arm": STRANGERS,
        "seed": seed,
        **_origin(start),
        "settings": settings,
        "hours": round(sum(line["seconds"]["total"] for run in runs.values() for line in run.metrics()) / 3600, 3),
        "table": json.loads(done.stdout),
        # All strangers of a seed start from the same weights.
        "start": _scores(start, 0, data),
        "evaluations": {name: _scores(run, STRANGER_STEPS, data) for name, run in runs.items()},
    }


def _numbers(experiment: Experiment, arm: str, seed: int, data: Path | None) -> dict[str, Any]:
    """Trains the rest of a run, and returns what the report needs of it."""
    run = _train(experiment, arm, seed)
    _keep_tasks(experiment, arm, seed, run)
    lines = run.metrics()
    seconds = sum(line["seconds"]["total"] for line in lines)
    return {
        "arm": arm,
        "seed": seed,
        **_origin(run),
        "settings": experiment.settings(arm),
        "hours": round(seconds / 3600, 3),
        "evaluation_hours": round(sum(line["seconds"].get("evaluate", 0) for line in lines) / 3600, 3),
        "log_nodes": _log_nodes(run),
        "steps": [_step(line) for line in lines],
        "secondary": _secondary(run),
        "breadth": _breadth(run),
        "held_out": [{"step": line["step"], **line["held_out"]} for line in lines if "held_out" in line],
        "wrong_golds": wrong_golds(run) if experiment is EXPR else None,
        "contested_depths": contested_depths(run) if experiment.by_depth else None,
        "pay_of_work": pay_of_work(run),
        "evaluations": {
            str(step): depth_scores(run, step) if experiment.by_depth else _scores(run, step, data)
            for step in _evaluated(run, experiment)
        },
    }


def _evaluated(run: RunDirectory, experiment: Experiment) -> list[int]:
    """Returns the steps whose scores are kept: the first and the last, or all at which the run was evaluated."""
    between = [line["step"] for line in run.metrics() if "held_out" in line] if experiment.late else []
    return sorted({0, *between, experiment.steps})


def _origin(run: RunDirectory) -> dict[str, Any]:
    """Returns the commit and the machine that made a run."""
    environment = json.loads((run.path / "environment.json").read_text())
    return {"commit": environment["commit"], "machine": {key: environment[key] for key in MACHINE}}


def _keep_tasks(experiment: Experiment, arm: str, seed: int, run: RunDirectory) -> None:
    """Writes the tasks of a finished run to a file, if strangers are trained on them and it is not there."""
    if STRANGERS not in experiment.seeds or arm not in CURRICULA or _tasks_file(arm, seed).exists():
        return
    TASKS.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "redqueen", "tasks", "export", str(run.path)]
    subprocess.run([*command, "--out", str(_tasks_file(arm, seed))], check=True, cwd=ROOT)


def _tasks_file(arm: str, seed: int) -> Path:
    return TASKS / f"{arm}-{seed}.parquet"


def _keep_panels(experiment: Experiment, arm: str, seed: int) -> None:
    """Plays the panel of a finished run whose teachers wrote tasks, if the run is here and the panel is not kept."""
    kept = PANELS / f"{experiment.prefix}{arm}-{seed}.json"
    run = _finished(experiment, arm, seed)
    if kept.exists() or run is None or not run.config().population.teachers:
        return
    command = [sys.executable, "-m", "redqueen", "ancestry", str(run.path), "--json", *PANEL, "--load-plugins"]
    played = json.loads(subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout)
    PANELS.mkdir(parents=True, exist_ok=True)
    document = {
        "arm": arm,
        "seed": seed,
        **_origin(run),
        "students": [epoch["step"] for epoch in played["students"]],
        "tasks": [[epoch["first"], epoch["last"]] for epoch in played["tasks"]],
        "solve_rates": [[_short(rate) for rate in row] for row in played["solve_rates"]],
        "changes": {role: _short(finding["change"]) for role, finding in played["findings"].items()},
    }
    _write(kept, document)


def _step(line: Any) -> dict[str, Any]:
    names = ("valid_rate", "novel_rate", "solve_rate", "solve_rate_by_kind", "lines_by_kind", "contested_by_kind")
    entropy = mean(line["entropy"]["student"].values())
    return {"step": line["step"], **{name: _short(line[name]) for name in names}, "entropy": _short(entropy)}


def _secondary(run: RunDirectory) -> dict[str, list[float] | None]:
    """Returns by endpoint the means over the first and over the last ten steps; None where nothing was measured.

    What is one number of a whole run is a list of that one.
    """
    lines = run.metrics()
    endpoints: dict[str, Callable[[dict[str, Any]], Iterable[float | None]]] = {
        "entropy of students": lambda line: line["entropy"]["student"].values(),
        "entropy of teachers": lambda line: line["entropy"].get("teacher", {}).values(),
        "contested tasks": lambda line: [
            sum(line["contested_by_kind"].values()) / max(1, sum(line["tasks_by_kind"].values()))
        ],
        "dead code": lambda line: line.get("dead_code_by_kind", {}).values(),
        "guessable tasks": lambda line: [line["guessable"]["rate"]] if "guessable" in line else [],
        "new shapes": lambda line: [line["new_shape_rate"]] if "new_shape_rate" in line else [],
        "attempts with work": lambda line: [line.get("work_rate")],
        "work that is true": lambda line: [line.get("faithful_rate")],
        "tokens of work": lambda line: [line.get("work_tokens")],
    }
    found: dict[str, list[float] | None] = {}
    for name, values in endpoints.items():
        means = [value for line in lines if (value := mean(values(line))) is not None]
        found[name] = [round(fmean(means[:10]), 4), round(fmean(means[-10:]), 4)] if means else None
    swings = oscillation([line["solve_rate"] for line in lines])
    rates = [each["rate"] for each in lines[-1]["held_out"]["students"].values()]
    return {
        **found,
        "solve rate swings (share of runs)": [float(swings.swings)] if swings else None,
        "best less weakest student, points": [round(100 * (max(rates) - min(rates)), 2)] if rates[1:] else None,
    }


def _breadth(run: RunDirectory) -> dict[str, dict[int, float]]:
    """Returns how much the tasks of ten steps cover by the last of these steps, in equally many tasks (rarefied)."""
    with ArchiveReader(run.archive) as reader:
        measures = reader.measures_of_members()
    found: dict[str, dict[int, float]] = {"programs": {}, "paths": {}}
    for last in range(WINDOW, max((row.step for row in measures), default=0) + 1, WINDOW):
        rows = [row for row in measures if last - WINDOW < row.step <= last]
        if len(rows) < RAREFIED:
            continue
        for what, by_step in found.items():
            by_step[last] = round(rarefaction(rows, what, [RAREFIED])[0], 2)
    return found


def _short(value: Any) -> Any:
    """Returns numbers with four decimals, also within a dictionary."""
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def _log_nodes(run: RunDirectory) -> dict[str, dict[int, float]]:
    """Returns by kind and step the mean log of the reached AST nodes of members' valid tasks."""
    with ArchiveReader(run.archive) as reader:
        kinds = {task.id: (task.step, task.kind) for task in reader.every(TaskRow)}
        found: dict[str, dict[int, list[float]]] = {}
        for row in reader.measures_of_members():
            step, kind = kinds[row.task]
            found.setdefault(kind, {}).setdefault(step, []).append(math.log(row.reached_nodes))
    means: dict[str, dict[int, float]] = {}
    for kind, steps in found.items():
        means[kind] = {step: round(fmean(logs), 4) for step, logs in sorted(steps.items())}
    return means


def _scores(run: RunDirectory, step: int, data: Path | None) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the students' scores at a checkpoint, greedy and drawn as in training: by member and benchmark.

    Each score is the share of right answers and the number of problems.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for temperature in ("0", "1"):
        for score in _evaluate(run, step, data, "--temperature", temperature):
            cells = found.setdefault(score["member"], {})
            for name, cell in score["benchmarks"].items():
                key = name if temperature == "0" else f"{name} drawn"
                cells[key] = {"rate": cell["rate"]["mean"], "problems": cell["problems"]}
    return found


def _passes(run: RunDirectory, step: int, data: Path | None) -> dict[str, float]:
    """Returns the students' mean pass@k at a checkpoint by k, over the first 100 problems of each set.

    A run that only does more surely what its start could do before gains at pass@1 and not at pass@16.
    """
    options = ("--samples", str(max(PASSES)), "--temperature", "1", "--limit", "100")
    cells = [cell for score in _evaluate(run, step, data, *options) for cell in score["benchmarks"].values()]
    return {str(k): round(fmean(cell["pass_at"][str(k)] for cell in cells), 4) for k in PASSES}


def _evaluate(run: RunDirectory, step: int, data: Path | None, *options: str) -> list[dict[str, Any]]:
    """Returns what `redqueen eval` says of each student at a checkpoint."""
    command = [sys.executable, "-m", "redqueen", "eval", str(run.path), "--step", str(step), "--json", *options]
    command += ["--benchmarks", "reserved"] if data is None else ["--benchmarks", "reserved,cruxeval-i,cruxeval-o"]
    command += [] if data is None else ["--data", str(data)]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    return json.loads(done.stdout)["scores"]


if __name__ == "__main__":
    main()
