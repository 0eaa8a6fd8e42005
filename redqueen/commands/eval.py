"""`redqueen eval`: what members, adapters and the bare base solve, on the reserved programs and on benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from redqueen.commands.eval_curve import FIGURE, curve_document, curve_figure, curve_table
from redqueen.commands.eval_table import (
    document,
    markdown,
    member_table,
    notes,
    paper_table,
    rich_table,
    weakest_lines,
)
from redqueen.commands.figure_files import write_figure
from redqueen.commands.listening import Lines
from redqueen.commands.tables import table_console
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.evals import contamination, paper
from redqueen.evals.benchmarks.benchmark import Loaded, Template, form_of
from redqueen.evals.benchmarks.registry import chosen, load_benchmarks
from redqueen.evals.evaluation import evaluate
from redqueen.evals.graders.opened import OpenGraders
from redqueen.evals.runner import Plan
from redqueen.evals.samples import SampleStore
from redqueen.evals.targets import Step, read_targets
from redqueen.plugins import load as load_plugins
from redqueen.policy.model.base import fingerprint_of, load
from redqueen.recording.task_reporter import TaskReporter
from redqueen.runs.allowed import Allowed, with_allowed
from redqueen.runs.directory import RunDirectory
from redqueen.session import fit
from redqueen.verifier import LocalVerifier

MARKDOWN = "results.md"
JSON = "results.json"
EXPECTED = "expected.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the options of the command say."""

    benchmarks: Sequence[str]
    plugins: Sequence[str] = ()
    """Modules that register benchmarks of their own."""
    data: Path | None
    limit: int | None
    samples: int
    temperature: float
    template: Template | None
    max_tokens: int | None
    out: Path | None
    allowed: Allowed
    step: Step = None
    """The step of runs' checkpoints, or "all" for the curves of runs."""


def as_step(text: str | None) -> Step:
    """Returns what the option --step means. Raises UserError if it is neither a number nor "all"."""
    if text is None or text == "all":
        return text
    if not text.isdecimal():
        raise UserError(f"--step {text}: give the number of a step, or all")
    return int(text)


def run_eval(targets: Sequence[str], members: str, model: str | None, wanted: EvalOptions, *, as_json: bool) -> int:
    """Evaluates the targets and prints the table; returns the exit code.

    Raises UserError if a target, a benchmark or an option cannot be used.
    """
    if wanted.samples > 1 and wanted.temperature == 0:
        raise UserError(f"--samples {wanted.samples}: greedy answers are all the same, so add e.g. --temperature 0.6")
    load_plugins(wanted.plugins)
    config, entrants = read_targets(targets, members, model, wanted.step)
    config = with_allowed(config, wanted.allowed)
    names = chosen(wanted.benchmarks)
    # Progress goes to standard error: --json is for pipes.
    progress = Console(stderr=True)
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier:
        # Data that are missing are known before a model is loaded.
        loaded = load_benchmarks(names, config, verifier, wanted.data, wanted.limit)
        config = _fitted(config, loaded, wanted, len(entrants), progress)
        base = load(config.model)
        plan = Plan(
            template=wanted.template or form_of(config.model.prompts),
            samples=wanted.samples,
            temperature=wanted.temperature,
            max_tokens=wanted.max_tokens,
            base=fingerprint_of(base),
        )
        cache = wanted.out / EXPECTED if wanted.out else None
        with (
            SampleStore(wanted.out) as store,
            OpenGraders(verifier, cache) as graders,
            TaskReporter(progress) as report,
        ):
            results = evaluate(base, config, entrants, loaded, plan, graders, store, report)
    runs = [target for target in dict.fromkeys(targets) if RunDirectory(Path(target)).archive.exists()]
    overlaps, said = contamination.notes(runs, loaded)
    sentences = [*weakest_lines(results), *said]
    table = paper.document(results, sentences, notes(loaded, plan))
    # The page shows what a run has come to, and a run's curve has other columns.
    for run in runs if wanted.step is None else ():
        _keep(RunDirectory(Path(run)), table, progress)
    whole = document(results, plan, config.model.name, overlaps)
    if wanted.step == "all":
        whole["curves"] = curve_document(results)
    if wanted.out is not None:
        (wanted.out / MARKDOWN).write_text(markdown(results, plan, sentences), encoding="utf-8")
        (wanted.out / JSON).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        if wanted.step == "all":
            write_figure(curve_figure(results), wanted.out / FIGURE)
    if as_json:
        print(json.dumps(whole, indent=1))
        return 0
    console = table_console()
    if wanted.step == "all":
        console.print(rich_table(curve_table(results)))
    else:
        console.print(rich_table(paper_table(results)))
        console.print()
        console.print(rich_table(member_table(results)))
    console.print()
    for line in [*sentences, *notes(loaded, plan)]:
        console.print(line, soft_wrap=True, markup=False)
    return 0


def _keep(run: RunDirectory, table: Mapping[str, object], console: Console) -> None:
    """Writes the table into a run's folder, where its report and its live page find it."""
    try:
        run.evaluation.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        console.print(
            f"the report of {run.path} will not show this: cannot write {run.evaluation}: {error.strerror}",
            markup=False,
            soft_wrap=True,
        )


def _fitted(config: Config, loaded: Sequence[Loaded], wanted: EvalOptions, members: int, console: Console) -> Config:
    """Returns the configuration with as many workers and rows as fit into memory with the longest answers."""
    longest = max(wanted.max_tokens or one.benchmark.max_tokens for one in loaded)
    sampling = config.sampling.model_copy(update={"attempt_tokens": longest})
    fitted = fit(config.model_copy(update={"sampling": sampling}), members, Lines(console))
    # What else `fit` knows is about training. The run's own limit stays: the reserved programs go by it.
    sampling = config.sampling.model_copy(update={"batch_rows": fitted.sampling.batch_rows})
    return config.model_copy(update={"model": fitted.model, "sampling": sampling})
