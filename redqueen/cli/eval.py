"""`redqueen eval`: what members, adapters and the bare base solve, on the reserved programs and on benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from redqueen.cli.eval_curve import FIGURE, curve_document, curve_figure, curve_table
from redqueen.cli.eval_table import markdown, member_table, notes, paper_table, rich_table, weakest_lines
from redqueen.cli.figure_files import write_figure
from redqueen.cli.listening import Lines
from redqueen.cli.plain_console import PlainConsole
from redqueen.cli.tables import table_console
from redqueen.errors import UserError
from redqueen.evals import contamination, paper
from redqueen.evals.targets import Step
from redqueen.members.evaluating import EvalOptions, evaluate_targets
from redqueen.members.scores import document
from redqueen.run.recording.task_reporter import TaskReporter
from redqueen.store.directory import RunDirectory, write_json, write_text

MARKDOWN = "results.md"
JSON = "results.json"


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
    # Progress goes to standard error: --json is for pipes.
    progress = PlainConsole(stderr=True)
    with TaskReporter(progress) as report:
        evaluated = evaluate_targets(targets, members, model, wanted, Lines(progress), report)
    results, plan = evaluated.results, evaluated.plan
    runs = [target for target in dict.fromkeys(targets) if RunDirectory(Path(target)).archive.exists()]
    overlaps, overlap_notes = contamination.notes(runs, results.benchmarks)
    sentences = [*weakest_lines(results), *overlap_notes]
    table = paper.document(results, sentences, notes(results.benchmarks, plan))
    # The page shows what a run has come to, and a run's curve has other columns.
    for run in runs if wanted.step is None else ():
        _keep(RunDirectory(Path(run)), table, progress)
    whole = document(results, plan, evaluated.base, overlaps)
    if wanted.step == "all":
        whole["curves"] = curve_document(results)
    if wanted.out is not None:
        write_text(wanted.out / MARKDOWN, markdown(results, plan, sentences))
        write_text(wanted.out / JSON, json.dumps(whole, indent=1) + "\n")
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
    for line in [*sentences, *notes(results.benchmarks, plan)]:
        console.print(line, soft_wrap=True)
    return 0


def _keep(run: RunDirectory, table: Mapping[str, object], console: Console) -> None:
    """Writes the table into a run's folder, where its report and its live page find it."""
    try:
        write_json(run.evaluation, table)
    except OSError as error:
        console.print(
            f"the report of {run.path} will not show this: cannot write {run.evaluation}: {error.strerror}",
            markup=False,
            soft_wrap=True,
        )
