"""The results of an evaluation as tables for the terminal and as Markdown, and as a document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from redqueen.evals.benchmarks.benchmark import Loaded
from redqueen.evals.contamination import Overlap
from redqueen.evals.runner import Plan
from redqueen.evals.scores import Results
from redqueen.intervals import Interval

AVERAGE_TITLES = {"code": "code average", "maths": "maths average", "all": "all"}
Cells = list[list[str]]


def paper_table(results: Results) -> Cells:
    """Returns the table with its head: a row for each benchmark and average, a column for each adapter and mean.

    A run of several members has three columns: their mean, the best and the weakest one.
    """
    head = ["%"]
    makers: list[tuple[str, list[int]]] = []
    for target, entries in results.groups().items():
        if len(entries) == 1:
            entry = results.entries[entries[0]]
            makers.append(("single", entries))
            head.append(f"{entry.target} (single agent)" if entry.single_agent else entry.label)
            continue
        ranked = results.ranked(entries)
        makers += [("mean", entries), ("single", ranked[:1]), ("single", ranked[-1:])]
        best = results.entries[ranked[0]].member
        worst = results.entries[ranked[-1]].member
        head += [f"{target} mean of {len(entries)}", f"best: {best}", f"worst: {worst}"]
    rows = [head]
    for column in results.columns():
        row = [column_title(results, column)]
        for how, entries in makers:
            found = results.population(column, entries) if how == "mean" else results.rate(column, entries[0])
            row.append(percent(found))
        rows.append(row)
    rows += _costs(results, [entries for _, entries in makers])
    return rows


def member_table(results: Results) -> Cells:
    """Returns a row for each entrant with its score in each column, and its parts and costs."""
    head = ["%", *(column_title(results, column) for column in results.columns())]
    part_names = [(name, part) for name, cells in results.cells.items() for part in cells[0].parts]
    rows = [[*head, *(part for _, part in part_names)]]
    for number, entry in enumerate(results.entries):
        row = [entry.label]
        for column in results.columns():
            found = results.rate(column, number)
            row.append(f"{100 * found.mean:.1f}" if found else "-")
        for name, part in part_names:
            right, judged = results.cells[name][number].parts.get(part, (0, 0))
            row.append(f"{right}/{judged}")
        rows.append(row)
    return rows


def _costs(results: Results, columns: Sequence[Sequence[int]]) -> Cells:
    """Returns the rows with the share of cut-off texts and the tokens of each column's entries."""
    cut = ["cut off"]
    tokens = ["tokens"]
    for entries in columns:
        cells = [cells[entry] for entry in entries for cells in results.cells.values()]
        samples = sum(cell.samples for cell in cells)
        ended = sum(cell.cut_off * cell.samples for cell in cells)
        cut.append(f"{100 * ended / samples:.1f}" if samples else "-")
        tokens.append(f"{sum(cell.tokens for cell in cells):,}")
    return [cut, tokens]


def column_title(results: Results, column: str) -> str:
    """Returns a column's name for people."""
    for loaded in results.benchmarks:
        if loaded.benchmark.name == column:
            return loaded.benchmark.title
    return AVERAGE_TITLES[column]


def percent(interval: Interval | None) -> str:
    """Formats a rate in per cent with its interval: `43.0 [35, 51]`."""
    if interval is None:
        return "-"
    ends = "" if interval.low is None or interval.high is None else f" [{_ends(interval)}]"
    return f"{100 * interval.mean:.1f}{ends}"


def _ends(interval: Interval) -> str:
    return f"{100 * (interval.low or 0):.0f}, {100 * (interval.high or 0):.0f}"


def weakest_lines(results: Results) -> list[str]:
    """Returns a sentence on the weakest member of each run against each single adapter: computed, with its interval."""
    said: list[str] = []
    groups = results.groups()
    singles = [entries[0] for entries in groups.values() if len(entries) == 1]
    for target, entries in groups.items():
        if len(entries) == 1:
            continue
        for baseline in singles:
            found = results.weakest_against(entries, baseline)
            if found is None:
                continue
            ends = (
                "no interval" if found.low is None else f"95 % interval {_points(found.low)} to {_points(found.high)}"
            )
            verdict = "is above" if found.above else "is not shown to be above"
            if found.below:
                verdict = "is below"
            said.append(
                f"The weakest member of {target} {verdict} {results.entries[baseline].label} "
                f"({results.overall()}: {_points(found.mean)} points, {ends})."
            )
    return said


def _points(value: float | None) -> str:
    return f"{100 * (value or 0):+.1f}"


def notes(benchmarks: Sequence[Loaded], plan: Plan) -> list[str]:
    """Returns how it was measured, in lines: sampling, the form of prompts and the data of each benchmark."""
    how = "greedy" if plan.temperature == 0 else f"temperature {plan.temperature:g}"
    count = "1 answer" if plan.samples == 1 else f"{plan.samples} answers"
    lines = [
        f"{how}, {count} to each problem, prompts: {plan.template}. [..]: 95 % bootstrap intervals, of an adapter over "
        "problems, of a mean over the members of the run. Best and worst are chosen on these problems.",
    ]
    for loaded in benchmarks:
        benchmark = loaded.benchmark
        form = benchmark.form(plan.template) if benchmark.source.files else benchmark.standard
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
        table.add_row(*(text.replace("[", "\\[") for text in row))
    return table


def markdown_table(cells: Cells) -> str:
    """Returns cells as a table of Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines.insert(1, "|---" + "|---:" * (len(cells[0]) - 1) + "|")
    return "\n".join(lines)


def markdown(results: Results, plan: Plan, sentences: Sequence[str]) -> str:
    """Returns the results as a page of Markdown, with the first prompt of each benchmark as the model reads it."""
    parts = ["# Evaluation", markdown_table(paper_table(results)), *sentences]
    parts += ["## Every adapter", markdown_table(member_table(results))]
    parts += ["## How it was measured", "\n".join(f"- {line}" for line in notes(results.benchmarks, plan))]
    parts.append("## The first prompt of each benchmark")
    for loaded in results.benchmarks:
        benchmark = loaded.benchmark
        prompt = benchmark.pose(loaded.problems[0], benchmark.form(plan.template))
        how = "one message" if prompt.chat else "text to go on with"
        # Four backticks, because prompts hold fences of three.
        parts.append(f"{benchmark.title} ({how}):\n\n````text\n{prompt.text}{prompt.prefix}\n````")
    return "\n\n".join(parts) + "\n"


def document(results: Results, plan: Plan, base: str, overlaps: Sequence[Overlap]) -> dict[str, object]:
    """Returns everything as plain data."""
    scores: list[dict[str, object]] = []
    for number, entry in enumerate(results.entries):
        cells = {name: asdict(cells[number]) for name, cells in results.cells.items()}
        averages = {name: _plain(results.rate(name, number)) for name in results.columns() if name not in cells}
        scores.append({**asdict(entry), "benchmarks": cells, "averages": averages})
    runs: dict[str, object] = {}
    singles = [entries[0] for entries in results.groups().values() if len(entries) == 1]
    for target, entries in results.groups().items():
        if len(entries) > 1:
            ranked = results.ranked(entries)
            runs[target] = {
                "best": results.entries[ranked[0]].member,
                "worst": results.entries[ranked[-1]].member,
                "means": {name: _plain(results.population(name, entries)) for name in results.columns()},
                "weakest_against": {
                    results.entries[single].label: _plain(results.weakest_against(entries, single))
                    for single in singles
                },
            }
    return {
        "base": base,
        "base_fingerprint": plan.base,
        "template": plan.template,
        "samples": plan.samples,
        "temperature": plan.temperature,
        "benchmarks": {loaded.benchmark.name: _data(loaded, plan) for loaded in results.benchmarks},
        "scores": scores,
        "runs": runs,
        "overlaps": [asdict(overlap) for overlap in overlaps],
    }


def _plain(interval: Interval | None) -> dict[str, object] | None:
    return None if interval is None else asdict(interval)


def _data(loaded: Loaded, plan: Plan) -> dict[str, object]:
    benchmark = loaded.benchmark
    return {
        "problems": len(loaded.problems),
        "available": loaded.available,
        "whole": benchmark.source.rows,
        "origin": loaded.origin,
        "sha256": loaded.sha256,
        "form": benchmark.form(plan.template) if benchmark.source.files else benchmark.standard,
        "max_tokens": plan.sampling(benchmark).max_tokens,
    }
