"""`redqueen eval`: what members, adapters and the bare base solve, on the reserved programs and on benchmarks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from redqueen.analysis.drawing import HUES, write_figure
from redqueen.base.intervals import Interval, interval_text
from redqueen.errors import UserError
from redqueen.evals import contamination, paper
from redqueen.evals.benchmark import ProblemSet
from redqueen.evals.paper import cell, columns, cut_off, row_title, tokens
from redqueen.evals.runner import Plan
from redqueen.evals.scores import Point, Results, curves
from redqueen.evals.targets import Step
from redqueen.members.evaluating import EvalOptions, document, evaluate_targets
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole, TaskReporter, table_console
from redqueen.store.directory import RunDirectory, write_json, write_text

# The results as tables for the terminal and as Markdown.

Cells = list[list[str]]


def paper_table(results: Results) -> Cells:
    """Returns the paper's table with its head, and below it what the columns cost."""
    paper_columns = columns(results)
    # A column of a run's mean names the run, and its best and worst member follow it.
    head = [
        f"{column.target} {column.title}" if column.kind == "mean" else column.title.strip() for column in paper_columns
    ]
    rows = [["%", *head]]
    for name in results.columns():
        rows.append([row_title(results, name), *(percent(cell(results, name, column)) for column in paper_columns)])
    shares = [cut_off(results, column) for column in paper_columns]
    rows.append(["cut off", *("-" if share is None else f"{100 * share:.1f}" for share in shares)])
    rows.append(["tokens", *(f"{tokens(results, column):,}" for column in paper_columns)])
    return rows


def member_table(results: Results) -> Cells:
    """Returns a row for each entrant with its score in each column, and its parts and costs."""
    head = ["%", *(row_title(results, column) for column in results.columns())]
    part_names = [(name, part) for name, cells in results.cells.items() for part in cells[0].parts]
    # With several samples a member may solve more by trying more often: RL may sharpen what it can do already.
    passes = [(name, k) for name, cells in results.cells.items() for k in cells[0].pass_at if k in (4, 16)]
    # Two benchmarks may have parts of one name, as the reserved programs and a run's own tasks do.
    times = Counter(part for _, part in part_names)
    parts = [f"{name} {part}" if times[part] > 1 else part for name, part in part_names]
    rows = [[*head, *(f"{name} pass@{k}" for name, k in passes), *parts]]
    for number, entry in enumerate(results.entries):
        row = [entry.label]
        for column in results.columns():
            rate = results.rate(column, number)
            row.append(f"{100 * rate.mean:.1f}" if rate else "-")
        for name, k in passes:
            passed = results.cells[name][number].pass_at.get(k)
            row.append("-" if passed is None else f"{100 * passed:.1f}")
        for name, part in part_names:
            right, judged = results.cells[name][number].parts.get(part, (0, 0))
            row.append(f"{right}/{judged}")
        rows.append(row)
    return rows


def percent(interval: Interval | None) -> str:
    """Formats a rate in per cent with its interval: `43.0 [35, 51]`."""
    if interval is None:
        return "-"
    ends = "" if interval.low is None or interval.high is None else f" [{_bounds(interval)}]"
    return f"{100 * interval.mean:.1f}{ends}"


def _bounds(interval: Interval) -> str:
    ends = (100 * (interval.low or 0), 100 * (interval.high or 0))
    # Two members that are nearly alike give an interval within one point.
    digits = 1 if f"{ends[0]:.0f}" == f"{ends[1]:.0f}" else 0
    return ", ".join(f"{end:.{digits}f}" for end in ends)


def weakest_lines(results: Results) -> list[str]:
    """Returns a sentence on the weakest member of each run against each single adapter: computed, with its interval."""
    sentences: list[str] = []
    groups = results.groups()
    singles = [entries[0] for entries in groups.values() if len(entries) == 1]
    for target, entries in groups.items():
        if len(entries) == 1:
            continue
        for baseline in singles:
            difference = results.weakest_against(entries, baseline)
            if difference is None:
                continue
            ends = (
                "no interval"
                if difference.low is None
                else f"95 % interval {_points(difference.low)} to {_points(difference.high)}"
            )
            # Never "is below": the least of several noisy scores is low by itself, and the least of redrawn ones lower.
            verdict = "is above" if difference.above else "is not shown to be above"
            sentences.append(
                f"The weakest member of {target} {verdict} {results.entries[baseline].label} "
                f"({results.overall()}: {_points(difference.mean)} points, {ends})."
            )
    return sentences


def _points(value: float | None) -> str:
    return f"{100 * (value or 0):+.1f}"


def notes(benchmarks: Sequence[ProblemSet], plan: Plan) -> list[str]:
    """Returns how it was measured, in lines: sampling, the form of prompts and the data of each benchmark."""
    how = "greedy" if plan.temperature == 0 else f"temperature {plan.temperature:g}"
    count = "1 answer" if plan.samples == 1 else f"{plan.samples} answers"
    lines = [
        f"{how}, {count} to each problem, prompts: {plan.template}. [..]: 95 % bootstrap intervals, of an adapter over "
        "problems, of a mean over the members of the run. Best and worst are chosen on these problems."
    ]
    for loaded in benchmarks:
        benchmark = loaded.benchmark
        form = benchmark.form(plan.template)
        lines.append(
            f"{benchmark.title}: {len(loaded.problems)} of {benchmark.source.rows} problems, {form}, at most "
            f"{plan.sampling(benchmark).max_tokens} tokens; {loaded.origin}, sha256 {loaded.sha256[:16]}"
        )
    return lines


def rich_table(cells: Cells) -> Table:
    """Returns cells as a table of the terminal."""
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(cells[0]):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in cells[1:]:
        table.add_row(*row)
    return table


def markdown_table(cells: Cells) -> str:
    """Returns cells as a table of Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines.insert(1, "|---" + "|---:" * (len(cells[0]) - 1) + "|")
    return "\n".join(lines)


def markdown(results: Results, plan: Plan, sentences: Sequence[str]) -> str:
    """Returns the results as a page of Markdown, with the first prompt of each benchmark as the model reads it."""
    blocks = ["# Evaluation", markdown_table(paper_table(results)), *sentences]
    blocks += ["## Every adapter", markdown_table(member_table(results))]
    blocks += ["## How it was measured", "\n".join(f"- {line}" for line in notes(results.benchmarks, plan))]
    blocks.append("## The first prompt of each benchmark")
    for loaded in results.benchmarks:
        benchmark = loaded.benchmark
        prompt = benchmark.pose(loaded.problems[0], benchmark.form(plan.template))
        how = "one message" if prompt.chat else "text to go on with"
        # Four backticks, because prompts hold fences of three.
        blocks.append(f"{benchmark.title} ({how}):\n\n````text\n{prompt.text}{prompt.prefix}\n````")
    return "\n\n".join(blocks) + "\n"


# The learning curves of an evaluation as a table, as plain data and as a figure.

FIGURE = "curve.png"


def curve_table(results: Results) -> Cells:
    """Returns a row for each benchmark and checkpoint: the members' mean, its gain over the first, and pass@k."""
    passes = _all_passes(results)
    rows = [["run", "benchmark", "step", "members", "solved %", "gain over the first", *(f"pass@{k}" for k in passes)]]
    for column in results.columns():
        for run, points in curves(results, column).items():
            for point in points:
                rows.append(
                    [
                        run,
                        row_title(results, column),
                        str(point.step),
                        " ".join(point.members),
                        percent(point.score),
                        interval_text(point.gain, "+.1f", 100),
                        *(f"{100 * point.pass_at[k]:.1f}" if k in point.pass_at else "-" for k in passes),
                    ]
                )
    return rows


def curve_document(results: Results) -> dict[str, object]:
    """Returns the curves as plain data, by benchmark and run."""
    return {
        column: {run: list(map(asdict, points)) for run, points in curves(results, column).items()}
        for column in results.columns()
    }


def curve_figure(results: Results) -> Figure:
    """Returns a chart for each benchmark: the members' mean over the steps, with its interval over problems."""
    columns = results.columns()
    figure = Figure(figsize=(4.6 * len(columns), 3.4), layout="constrained")
    for index, column in enumerate(columns, 1):
        axes = figure.add_subplot(1, len(columns), index)
        for number, (run, points) in enumerate(curves(results, column).items()):
            colour = HUES[number % len(HUES)]
            steps = [point.step for point in points]
            axes.plot(steps, [100 * point.score.mean for point in points], "o-", color=colour, label=run)
            axes.fill_between(steps, _ends(points, "low"), _ends(points, "high"), color=colour, alpha=0.15)
        axes.set_title(row_title(results, column), fontsize=10)
        axes.set_xlabel("step")
        axes.set_ylabel("solved, % (95 % interval over problems)" if index == 1 else "")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7, frameon=False)
    return figure


def _ends(points: Sequence[Point], end: str) -> list[float]:
    percents: list[float] = []
    for point in points:
        value: float | None = getattr(point.score, end)
        percents.append(100 * (point.score.mean if value is None else value))
    return percents


def _all_passes(results: Results) -> list[int]:
    """Returns the k of pass@k that are worth a column: 4 and 16, as far as there are so many samples, or the most."""
    most = max((cells[0].pass_at for cells in results.cells.values()), key=len, default={})
    wanted = [k for k in (4, 16) if k in most]
    return wanted or [k for k in most if k > 1][-1:]


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
    runs = [target for target in targets if RunDirectory(Path(target)).archive.exists()]
    overlaps, overlap_notes = contamination.notes(runs, results.benchmarks)
    sentences = [*weakest_lines(results), *overlap_notes]
    steps = {entry.target: entry.step for entry in results.entries if entry.step is not None}
    dated = [f"{target}: as it was after step {step}" for target, step in steps.items()]
    table = paper.document(results, sentences, [*dated, *notes(results.benchmarks, plan)])
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
