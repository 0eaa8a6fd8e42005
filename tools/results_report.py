"""Makes the tables and the figures of RESULTS.md and RESULTS_EXPR.md in docs/reports from the numbers in docs/results.

    python -m tools.results_report

Figures are docs/figures/results-*.svg. Tables replace what stands between the two marks in the page. Seeds are the
units: a run gives one number, intervals are Student's t over runs, and runs of one seed are paired.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redqueen.analysis.drawing import HUES, write
from redqueen.base.intervals import Interval, difference, interval, interval_text, slope, t_probability
from redqueen.extras.studies.retention import RetentionPlan, RetentionTrial
from redqueen.extras.studies.retention_command import draw
from tools.experiments import CODE, EXPERIMENTS, PASSES, STRANGERS, WINDOW, Experiment

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
PAGES = ROOT / "docs"
BEGIN = "<!-- tables: begin -->"
END = "<!-- tables: end -->"

Run = Mapping[str, Any]
Runs = Mapping[str, Mapping[int, Run]]
"""By arm and seed."""
Values = Mapping[str, Mapping[int, float]]
"""One number of each run, by arm and seed."""

DEEP = ("deep 4", "deep 5", "deep 6", "deep 7")
SETS = ("reserved", "cruxeval-i", "cruxeval-o", "depth 2", "depth 3", "depth 4", *DEEP)
"""All sets of held-out problems. A run has some of them."""
WAYS = ("greedy", "drawn")
COUNTED = ("paths", "programs")
"""What breadth is counted in."""
NAMES = {
    "R": "R: fixed tasks",
    "A": "A: one model in both roles",
    "B": "B: one model in both roles, all attempts",
    "S": "S: one teacher, one student, one rate",
    "C": "C: one teacher, one student",
    "D": "D: two pairs, no births",
    "E": "E: two pairs, births",
    "P": "P: E by the paper's rules",
    "Q": "Q: A by the paper's rules",
    "W10": "W10: A, a tenth of the golds wrong",
    "W30": "W30: A, three tenths of the golds wrong",
    "F": "F: the 32 in turn",
    "G": "G: the 32 by difficulty",
    "H": "H: one teacher, one student, from the 32",
    "M": "M: a teacher and the 32, half and half",
    "N": "N: two pairs and the 32, half and half",
    "U": "U: all seeds by difficulty",
    "F32": "F32: F from a start fitted on the 32",
    "M32": "M32: M from a start fitted on the 32",
}
# An arm has one colour in all figures. P and Q are never beside W10 and W30, and arms on own tasks beside no others.
HUE_OF = {
    arm: hue
    for arms in ("RABCDESPQ", ("", "", "", "", "", "", "", "W10", "W30"), (*"FGHMNU", "F32", "M32"))
    for arm, hue in zip(arms, HUES, strict=False)
}


def read(experiment: Experiment = CODE, folder: Path = NUMBERS) -> tuple[Runs, Mapping[int, Run]]:
    """Returns the finished runs of an experiment, and the strangers by seed."""
    runs: dict[str, dict[int, Run]] = {arm: {} for arm in experiment.arms}
    strangers: dict[int, Run] = {}
    names = {f"{experiment.prefix}{arm}-{seed}" for arm, seed in experiment.plan()}
    for file in sorted(folder.glob("*.json")):
        if file.stem not in names:
            continue
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["arm"] == STRANGERS:
            strangers[document["seed"]] = document
        else:
            runs[document["arm"]][document["seed"]] = document
    return {arm: by_seed for arm, by_seed in runs.items() if by_seed}, strangers


def measured(runs: Runs) -> tuple[list[str], list[str]]:
    """Returns the sets and the ways (greedy, drawn) that runs were measured on and in."""
    every = [run for by_seed in runs.values() for run in by_seed.values()]
    starts = [cells for run in every for cells in run["evaluations"]["0"].values()]
    cells: set[str] = set().union(*starts)
    ways = [way for way in WAYS if any(key.endswith(" drawn") == (way == "drawn") for key in cells)]
    return [name for name in SETS if name in cells or f"{name} drawn" in cells], ways


def score(members: Mapping[str, Any], way: str, sets: Iterable[str] = SETS) -> float:
    """Returns the mean score of the students over the problems of some sets, in [0, 1]."""
    scores: list[float] = []
    for cells in members.values():
        keys = [name if way == "greedy" else f"{name} drawn" for name in sets]
        weights = [cells[key]["problems"] for key in keys if key in cells]
        rates = [cells[key]["rate"] for key in keys if key in cells]
        scores.append(sum(w * r for w, r in zip(weights, rates, strict=True)) / sum(weights))
    return fmean(scores)


def gain(run: Run, way: str, sets: Iterable[str] = SETS) -> float:
    """Returns the mean held-out score of a run's last students less that of its members at step 0."""
    evaluations = run["evaluations"]
    last = max(evaluations, key=int)
    return score(evaluations[last], way, sets) - score(evaluations["0"], way, sets)


def gains(runs: Runs, way: str, sets: Iterable[str] = SETS) -> Values:
    """Returns the gains by arm and seed."""
    return {arm: {seed: gain(run, way, sets) for seed, run in by_seed.items()} for arm, by_seed in runs.items()}


def course(run: Run) -> dict[int, float]:
    """Returns by step the log of reached AST nodes of valid tasks: means by kind, then over the kinds."""
    by_kind: Mapping[str, Mapping[str, float]] = run["log_nodes"]
    steps = sorted({int(step) for means in by_kind.values() for step in means})
    return {step: fmean([means[str(step)] for means in by_kind.values() if str(step) in means]) for step in steps}


def slopes(runs: Runs) -> Values:
    """Returns the slope of `course` by arm and seed, in log nodes for 100 steps."""
    found: dict[str, dict[int, float]] = {}
    for arm, by_seed in runs.items():
        for seed, run in by_seed.items():
            points = course(run)
            line = slope(list(points), list(points.values()))
            # Students alone write no tasks.
            if line is not None:
                found.setdefault(arm, {})[seed] = 100 * line.mean
    return found


def late_slopes(runs: Runs, sets: Iterable[str]) -> Values:
    """Returns the slope of the drawn held-out score over the second half of a run, in 100 steps, by arm and seed."""
    found: dict[str, dict[int, float]] = {}
    for arm, by_seed in runs.items():
        for seed, run in by_seed.items():
            steps = sorted(map(int, run["evaluations"]))
            late = [step for step in steps if 2 * step >= steps[-1]]
            line = slope(late, [score(run["evaluations"][str(step)], "drawn", sets) for step in late])
            if line is not None:
                found.setdefault(arm, {})[seed] = 100 * line.mean
    return found


def depth_slopes(runs: Runs) -> Values:
    """Returns the slope of the mean depth of contested tasks that members wrote, in 100 steps, by arm and seed."""
    found: dict[str, dict[int, float]] = {}
    for arm, by_seed in runs.items():
        for seed, run in by_seed.items():
            depths: Mapping[str, float] = run["contested_depths"]
            line = slope(list(map(int, depths)), list(depths.values()))
            if line is not None and run["log_nodes"]:
                found.setdefault(arm, {})[seed] = 100 * line.mean
    return found


def breadth(run: Run) -> dict[int, float]:
    """Returns by step the paths through the programs in equally many tasks of the ten steps before (rarefied)."""
    return {int(step): value for step, value in run["breadth"]["paths"].items()}


def narrowing(runs: Runs) -> Values:
    """Returns the log of the paths at the end of a run less that at its beginning, by arm and seed."""
    found: dict[str, dict[int, float]] = {}
    for arm, by_seed in runs.items():
        for seed, run in by_seed.items():
            ends = _breadth_ends(run, "paths")
            if ends is not None:
                found.setdefault(arm, {})[seed] = math.log(ends[1] / ends[0])
    return found


def _breadth_ends(run: Run, what: str) -> tuple[float, float] | None:
    """Returns how much the first and the last ten steps cover; None if either had too few valid tasks to tell."""
    by_step: Mapping[str, float] = run["breadth"][what]
    first, last = str(WINDOW), str(run["steps"][-1]["step"])
    return (by_step[first], by_step[last]) if first in by_step and last in by_step else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms by one number of each run."""

    name: str
    one: Mapping[int, float]
    other: Mapping[int, float]
    scale: float
    digits: int

    @property
    def differences(self) -> list[float]:
        """The differences, seed by seed."""
        return [value - self.other[seed] for seed, value in sorted(self.one.items()) if seed in self.other]

    @property
    def unpaired(self) -> Interval | None:
        """The difference of the means over the same seeds, with Welch's interval."""
        seeds = self.one.keys() & self.other.keys()
        return difference([self.one[seed] for seed in seeds], [self.other[seed] for seed in seeds])


def compared(name: str, values: Values, one: str, other: str, scale: float = 100, digits: int = 1) -> Comparison:
    """Returns the comparison of two arms by some values."""
    return Comparison(f"{name}: {one} - {other}", values.get(one, {}), values.get(other, {}), scale, digits)


def p_value(differences: Sequence[float]) -> float | None:
    """Returns the p of Student's t test of differences against zero; None with fewer than two, or without spread."""
    found = interval(differences)
    if found is None or found.low is None:
        return None
    n = len(differences)
    error = math.sqrt(sum((value - found.mean) ** 2 for value in differences) / (n - 1) / n)
    return 1 - t_probability(abs(found.mean) / error, n - 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns the p values after Holm's correction (1979) over all, also those that are not known yet (None).

    So a comparison is not helped by others that are still to come.
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        corrected[place] = largest
    return corrected


def stranger_gains(strangers: Mapping[int, Run], way: str, sets: Iterable[str] = SETS) -> Values:
    """Returns the gains of strangers on some sets by curriculum (`seeds`, `C-last`, ...) and seed."""
    found: dict[str, dict[int, float]] = {}
    for seed, document in strangers.items():
        start = score(document["start"], way, sets)
        for name, members in document["evaluations"].items():
            # The cell of the run E-0 is E-0-last.
            cell = name.replace(f"-{seed}-", "-")
            found.setdefault(cell, {})[seed] = score(members, way, sets) - start
    return found


def tables(
    runs: Runs,
    strangers: Mapping[int, Run],
    experiment: Experiment = CODE,
    panels: Runs | None = None,
    elsewhere: Runs | None = None,
) -> str:
    """Returns the tables of the page as Markdown. `elsewhere` are runs of the same seeds on another machine."""
    parts = [_gain_table(runs), _course_table(runs), _secondary_table(runs)]
    if experiment.late:
        parts.insert(1, _late_table(runs, experiment))
    if any("passes" in run for by_seed in runs.values() for run in by_seed.values()):
        parts.append(_pass_table(runs))
    if strangers:
        parts.append(_stranger_table(runs, strangers))
    parts.append(_comparison_table(runs, strangers, experiment))
    if any(run.get("pay_of_work") for by_seed in runs.values() for run in by_seed.values()):
        parts.append(_work_table(runs))
    if narrowing(runs):
        parts.append(_breadth_table(runs, experiment))
    if panels:
        parts.append(_panel_table(panels))
    parts.append(_run_table(runs, strangers))
    if elsewhere:
        parts.append(_elsewhere_tables(elsewhere, experiment))
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _points(values: Iterable[float], scale: float = 100, digits: int = 1) -> str:
    """Formats the mean of some numbers with its interval: `+5.1 [+2.0, +8.2]`."""
    return interval_text(interval(list(values)), f"+z.{digits}f", scale)


def _columns(runs: Runs, gained: Callable[[str, Sequence[str]], Values]) -> dict[str, Values]:
    """Returns the columns of a table of gains by their heads: all sets in each way, and each set drawn."""
    sets, ways = measured(runs)
    everything = {f"{way}, all": gained(way, SETS) for way in ways}
    # A single set is all there is.
    return everything | {f"drawn, {name}": gained("drawn", [name]) for name in sets if sets[1:]}


def _gain_table(runs: Runs) -> str:
    columns = _columns(runs, partial(gains, runs))
    rows = [
        [NAMES[arm], str(len(by_seed)), *(_points(values[arm].values()) for values in columns.values())]
        for arm, by_seed in runs.items()
    ]
    return "**Held-out gain over the start, in points**\n\n" + _table(["arm", "seeds", *columns], rows)


def _late_table(runs: Runs, experiment: Experiment) -> str:
    """Returns by arm what says whether students still learn in the second half, and whether teachers climb."""
    sets = experiment.primary or SETS
    late, grown = late_slopes(runs, sets), depth_slopes(runs)
    gained = gains(runs, "drawn", sets)
    rows = [
        [
            NAMES[arm],
            str(len(by_seed)),
            _points(gained[arm].values()),
            _points(late.get(arm, {}).values()),
            _points(grown.get(arm, {}).values(), 1, 2),
        ]
        for arm, by_seed in runs.items()
    ]
    head = [
        "arm",
        "seeds",
        "gain at depth 4 to 7, points" if experiment.primary else "gain, points",
        "its second half, for 100 steps",
        "depth of contested tasks",
    ]
    return f"**Still learning? Still climbing?** (depth: its slope for 100 steps)\n\n{_table(head, rows)}"


def _ends(run: Run, name: str) -> tuple[float, float]:
    """Returns the means of a number over the first and over the last ten steps, over its kinds if it has some."""
    values: list[float] = []
    for line in run["steps"]:
        value = line[name]
        known = [one for one in value.values() if one is not None] if isinstance(value, dict) else [value]
        values.append(fmean(known) if known and None not in known else math.nan)
    known = [value for value in values if not math.isnan(value)]
    return fmean(known[:10]), fmean(known[-10:])


def _course_table(runs: Runs) -> str:
    head = ["arm", "log nodes for 100 steps", "lines", "valid", "novel", "solved"]
    rate = slopes(runs)
    rows: list[list[str]] = []
    for arm, by_seed in runs.items():
        if arm not in rate:
            continue
        cells = [NAMES[arm], _points(rate[arm].values(), 1, 2)]
        for name, digits in (("lines_by_kind", 1), ("valid_rate", 2), ("novel_rate", 2), ("solve_rate", 2)):
            ends = [_ends(run, name) for run in by_seed.values()]
            cells.append(_from_to(ends, digits))
        rows.append(cells)
    title = "**What teachers wrote** (the slope of log nodes; else means of the first and of the last ten steps)"
    return f"{title}\n\n{_table(head, rows)}"


def _secondary_table(runs: Runs) -> str:
    names = list(
        dict.fromkeys(name for by_seed in runs.values() for run in by_seed.values() for name in run["secondary"])
    )
    rows: list[list[str]] = []
    for arm, by_seed in runs.items():
        cells = [NAMES[arm]]
        for name in names:
            ends = [run["secondary"][name] for run in by_seed.values() if run["secondary"].get(name)]
            cells.append(_from_to(ends, 2) or "-")
        rows.append(cells)
    return "**Secondary** (means of the first and of the last ten steps; one number is of whole runs)\n\n" + _table(
        ["arm", *names], rows
    )


def _pass_table(runs: Runs) -> str:
    rows: list[list[str]] = []
    for arm, by_seed in runs.items():
        scored = [run["passes"] for run in by_seed.values() if "passes" in run]
        cells = [NAMES[arm], str(len(scored))]
        if not scored:
            continue
        for k in map(str, PASSES):
            start = fmean(passes["0"][k] for passes in scored)
            gained = [passes[max(passes, key=int)][k] - passes["0"][k] for passes in scored]
            cells.append(f"{100 * start:.1f} {_points(gained)}")
        rows.append(cells)
    head = ["arm", "seeds", *(f"pass@{k}" for k in PASSES)]
    title = (
        "**pass@k, in %: the start, and the gain over it** (drawn, first 100 problems of each set, sets weigh the same)"
    )
    return f"{title}\n\n{_table(head, rows)}"


def _stranger_table(runs: Runs, strangers: Mapping[int, Run]) -> str:
    columns = _columns(runs, partial(stranger_gains, strangers))
    cells = dict(sorted(columns["drawn, all"].items()))
    rows = [
        [name, str(len(by_seed)), *(_points(values[name].values()) for values in columns.values())]
        for name, by_seed in cells.items()
    ]
    last = [name for name in cells if name.endswith("-last")]
    pairs = [(name, name.replace("-last", "-first")) for name in last] + [(name, "seeds") for name in last]
    for one, other in pairs:
        differences = [compared("", values, one, other).differences for values in columns.values()]
        if differences[0]:
            rows.append([f"{one} less {other}", str(len(differences[0])), *(_points(each) for each in differences)])
    title = "**Strangers: gain over the start, in points** (differences: paired, secondary, not corrected)"
    return f"{title}\n\n{_table(['tasks of', 'seeds', *columns], rows)}"


def comparisons(runs: Runs, strangers: Mapping[int, Run], experiment: Experiment = CODE) -> list[Comparison]:
    """Returns the primary comparisons of the plan, those without a run included."""
    found: list[Comparison] = []
    sets = experiment.primary or SETS
    for way in measured(runs)[1]:
        values = gains(runs, way, sets)
        found += [compared(f"gain, {way}", values, one, other) for one, other in experiment.compared]
    if experiment.late:
        values = late_slopes(runs, sets)
        found += [compared("late gain for 100 steps", values, one, other) for one, other in experiment.compared]
        grown = depth_slopes(runs)
        found += [compared("contested depth for 100 steps", grown, *pair, 1, 2) for pair in experiment.slopes]
    else:
        values = slopes(runs)
        found += [compared("log nodes for 100 steps", values, *pair, 1, 2) for pair in experiment.slopes]
    for way in WAYS if STRANGERS in experiment.seeds else ():
        values = {name.removesuffix("-last"): each for name, each in stranger_gains(strangers, way).items()}
        found += [compared(f"stranger, {way}", values, one, other) for one, other in experiment.compared]
    return found


def _comparison_table(runs: Runs, strangers: Mapping[int, Run], experiment: Experiment) -> str:
    planned = comparisons(runs, strangers, experiment)
    p_values = [p_value(one.differences) for one in planned]
    rows: list[list[str]] = []
    for one, p, corrected in zip(planned, p_values, holm(p_values), strict=True):
        if pairs := one.differences:
            paired = _points(pairs, one.scale, one.digits)
            unpaired = interval_text(one.unpaired, f"+z.{one.digits}f", one.scale)
            rows.append([one.name, str(len(pairs)), paired, _p(p), _p(corrected), unpaired])
    head = ["primary comparison", "pairs", "difference, paired", "p", "p, Holm", "unpaired (Welch)"]
    title = f"**Comparisons, paired by seed** (Holm's correction is over the {len(planned)} of the plan)"
    return f"{title}\n\n{_table(head, rows)}"


def _work_table(runs: Runs) -> str:
    """Returns by arm and kind how many attempts have work, and what they gain by it at the same task."""
    rows: list[list[str]] = []
    for arm, by_seed in runs.items():
        told = [run["pay_of_work"] for run in by_seed.values() if run.get("pay_of_work")]
        for kind in sorted(set().union(*told)):
            quarters = [one[kind] for one in told if kind in one]
            shares = [(first["share"], last["share"]) for first, *_, last in quarters]
            gained = [gain for each in quarters if (gain := _gain_by_work(each)) is not None]
            tasks = sum(quarter["tasks"] for each in quarters for quarter in each)
            rows.append([NAMES[arm], kind, str(len(quarters)), _from_to(shares, 2), _points(gained), f"{tasks:,}"])
    head = ["arm", "kind", "seeds", "attempts with work", "right more often, points", "tasks"]
    title = "**What work brings** (first to last quarter; then attempts with work less others at the same tasks)"
    return f"{title}\n\n{_table(head, rows)}"


def _gain_by_work(quarters: Sequence[Mapping[str, float]]) -> float | None:
    """Returns the mean over a run's tasks that have attempts of both sorts; None without such a task."""
    tasks = sum(quarter["tasks"] for quarter in quarters)
    return sum(quarter["tasks"] * quarter["right"] for quarter in quarters) / tasks if tasks else None


def _elsewhere_tables(runs: Runs, experiment: Experiment) -> str:
    """Returns what runs of the same seeds on another machine say, which decide nothing."""
    machines = {str(run["machine"]["processor"]) for by_seed in runs.values() for run in by_seed.values()}
    rows: list[list[str]] = []
    for one in comparisons(runs, {}, experiment):
        if pairs := one.differences:
            rows.append([one.name, str(len(pairs)), _points(pairs, one.scale, one.digits)])
    head = ["comparison", "pairs", "difference, paired"]
    title = f"**The same seeds on a CPU** ({', '.join(sorted(machines))}; a check, not corrected)"
    return f"{title}\n\n{_gain_table(runs)}\n\n{_table(head, rows)}\n\n{_run_table(runs, {})}"


def _breadth_table(runs: Runs, experiment: Experiment) -> str:
    """Returns the change of the tasks' breadth by arm, and its differences between arms."""
    values = narrowing(runs)
    rows: list[list[str]] = []
    for arm, by_seed in values.items():
        cells = [NAMES[arm], str(len(by_seed))]
        for what in COUNTED:
            ends = [ends for seed in by_seed if (ends := _breadth_ends(runs[arm][seed], what)) is not None]
            cells.append(_from_to(ends, 0))
        rows.append([*cells, _points(by_seed.values(), 1, 2), "-"])
    for one, other in experiment.compared:
        if differences := compared("", values, one, other).differences:
            change = _points(differences, 1, 2)
            rows.append([f"{one} - {other}", str(len(differences)), "-", "-", change, _p(p_value(differences))])
    head = ["arm", "seeds", *COUNTED, "change of the log of paths", "p"]
    title = "**Breadth of the tasks** (secondary, not corrected): in 100 tasks of the first and of the last ten steps"
    return f"{title}\n\n{_table(head, rows)}"


def _panel_table(panels: Runs) -> str:
    rows: list[list[str]] = []
    for arm, by_seed in panels.items():
        played = list(by_seed.values())
        cells = [NAMES[arm], str(len(played))]
        for student in (0, -1):
            ends = [(run["solve_rates"][student][0], run["solve_rates"][student][-1]) for run in played]
            cells.append(_from_to(ends, 2))
        rows.append([*cells, _points(run["changes"]["teachers"]["mean"] for run in played)])
    head = ["arm", "seeds", "solved by the start", "solved by the last students", "change of difficulty, points"]
    title = (
        "**Tasks of the first and of the last sixth of a run, for the same students** (secondary, not corrected; "
        "harder is positive, fitted over all tasks and students)"
    )
    return f"{title}\n\n{_table(head, rows)}"


def _from_to(ends: Sequence[Iterable[float]], digits: int) -> str:
    """Formats the means over runs of a number at both ends, `0.50 to 0.10`, or of one number; "" without a run."""
    return " to ".join(f"{fmean(values):.{digits}f}" for values in zip(*ends, strict=True))


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    # No p is 0.
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"


def _run_table(runs: Runs, strangers: Mapping[int, Run]) -> str:
    rows: list[list[str]] = []
    everything = [run for by_seed in runs.values() for run in by_seed.values()] + list(strangers.values())
    for run in everything:
        machine = run.get("machine", {})
        what = " ".join(str(machine[key]) for key in ("gpu", "processor", "dtype", "cores") if machine.get(key))
        rows.append([f"{run['arm']}-{run['seed']}", run["commit"][:9], f"{run['hours']:.2f}", what or "not recorded"])
    hours = sum(run["hours"] for run in everything)
    head = ["run", "commit", "hours of training", "machine"]
    return f"**Runs: {len(rows)}, {hours:.1f} hours of training in all**\n\n" + _table(head, rows)


def draw_gains(runs: Runs) -> Figure:
    """Draws the gain of each run, each arm's mean with its interval, and how broad the tasks stayed."""
    ways = measured(runs)[1]
    figure = Figure(figsize=(4 + 3.6 * len(ways), 3.6), layout="constrained")
    panels = figure.subplots(1, len(ways) + 1)
    for axes, way in zip(panels, ways, strict=False):
        _dots(axes, gains(runs, way), lambda arm: NAMES[arm])
        axes.set_title("greedy" if way == "greedy" else "drawn at temperature 1, as trained", fontsize=10)
        axes.set_xlabel("held-out gain over the start, points")
        if axes is not panels[0]:
            axes.set_yticklabels([])
    _courses(panels[-1], runs, breadth, 1)
    panels[-1].set_title("paths through 100 tasks of a run", fontsize=10)
    panels[-1].set_ylim(bottom=0)
    return figure


def draw_strangers(strangers: Mapping[int, Run]) -> Figure:
    """Draws the gains of strangers by what they were trained on."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for place, way in enumerate(WAYS, 1):
        axes = figure.add_subplot(1, 2, place)
        values = stranger_gains(strangers, way)
        _dots(axes, {name: values[name] for name in sorted(values)}, str)
        axes.set_title(way, fontsize=10)
        axes.set_xlabel("gain of a stranger over the start, points")
    return figure


def _dots(axes: Axes, values: Values, name: Callable[[str], str]) -> None:
    for row, (each, by_seed) in enumerate(values.items()):
        # A stranger has the colour of the arm whose tasks it was trained on.
        hue = HUE_OF["R" if each == "seeds" else each.partition("-")[0]]
        points = [100 * value for value in by_seed.values()]
        axes.plot(points, [row] * len(points), "o", color=hue, alpha=0.45, markersize=5)
        found = interval(points)
        if found is not None:
            _mean(axes, found, row, hue)
    axes.axvline(0, color="#888888", linewidth=0.8)
    axes.set_yticks(range(len(values)), [name(arm) for arm in values], fontsize=9)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def _mean(axes: Axes, found: Interval, row: int, hue: str) -> None:
    axes.plot([found.mean], [row], "D", color=hue, markersize=7)
    # An interval of two runs is so wide (t(1) = 12.7) that nothing else would be seen.
    if found.low is not None and found.high is not None and found.n > 2:
        axes.plot([found.low, found.high], [row, row], "-", color=hue, linewidth=2)


Panel = tuple[str, Callable[[Run], dict[int, float]], int]
"""A title, what is drawn by step, and over how many steps it is smoothed."""


def draw_courses(runs: Runs, experiment: Experiment) -> Figure:
    """Draws over the steps what students and tasks did: each run, and the mean of each arm."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    gained: Panel = ("held-out gain in the run, points (drawn)", _held_out, 1)
    if experiment.late:
        panels: list[Panel] = [
            gained,
            ("mean depth of contested tasks", _contested_depths, 9),
            ("share of attempts that are right, in sample", lambda run: _line(run, "solve_rate"), 9),
            ("entropy of students, nats a token", lambda run: _line(run, "entropy"), 9),
        ]
    else:
        panels = [
            gained,
            ("log of reached AST nodes of valid tasks", course, 9),
            ("novel tasks among the valid ones", lambda run: _line(run, "novel_rate"), 9),
            ("paths through the programs in 100 tasks (rarefied)", breadth, 1),
        ]
    for place, (title, of, window) in enumerate(panels, 1):
        axes = figure.add_subplot(2, 2, place)
        _courses(axes, runs, of, window)
        axes.set_title(title, fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def _courses(axes: Axes, runs: Runs, of: Callable[[Run], dict[int, float]], window: int) -> None:
    """Draws one number over the steps, arm by arm."""
    for arm, by_seed in runs.items():
        lines = [points for run in by_seed.values() if len(points := of(run)) > 1]
        if lines:
            _curve(axes, lines, window, HUE_OF[arm], NAMES[arm])
    axes.set_xlabel("step")
    axes.spines[["top", "right"]].set_visible(False)


def _held_out(run: Run) -> dict[int, float]:
    """Returns the mean gain of the students at each evaluation of the run itself, in points."""
    points = {0: 0.0}
    for line in run["held_out"]:
        points[line["step"]] = 100 * fmean(score["gain"] for score in line["students"].values())
    return points


def _contested_depths(run: Run) -> dict[int, float]:
    return {int(step): depth for step, depth in run["contested_depths"].items()}


def _line(run: Run, name: str) -> dict[int, float]:
    return {line["step"]: line[name] for line in run["steps"] if line[name] is not None}


def _curve(axes: Axes, lines: Sequence[Mapping[int, float]], window: int, hue: str, name: str) -> None:
    """Draws each run thin and the mean of the runs thick, both smoothed over `window` steps."""
    smooth = [_smoothed(line, window) for line in lines]
    for line in smooth:
        axes.plot(list(line), list(line.values()), color=hue, alpha=0.3, linewidth=0.8)
    steps = sorted(set.intersection(*(set(line) for line in smooth)))
    axes.plot(steps, [fmean(line[step] for line in smooth) for step in steps], color=hue, linewidth=2, label=name)


def _smoothed(line: Mapping[int, float], window: int) -> dict[int, float]:
    """Returns the mean over the steps that are at most window // 2 away."""
    reach = window // 2
    return {step: fmean(value for other, value in line.items() if abs(other - step) <= reach) for step in sorted(line)}


def draw_retention(numbers: Path) -> Figure:
    """Draws what `redqueen retention --json` wrote."""
    document = json.loads(numbers.read_text(encoding="utf-8"))
    plan = RetentionPlan(**{name: size for name, size in document["plan"].items() if name != "measured"})
    return draw([RetentionTrial(**trial) for trial in document["trials"]], plan)


def main() -> None:
    """Writes the figures and the pages."""
    FIGURES.mkdir(exist_ok=True)
    for numbers in sorted(NUMBERS.glob("retention-*.json")):
        write(draw_retention(numbers), FIGURES / f"results-{numbers.stem}.svg")
    for experiment in EXPERIMENTS.values():
        runs, strangers = read(experiment)
        if not runs:
            print(f"docs/{experiment.page}: {NUMBERS} holds no numbers yet: python -m tools.results runs")
            continue
        file = PAGES / experiment.page
        page = file.read_text(encoding="utf-8")
        name = experiment.figures
        write(draw_courses(runs, experiment), FIGURES / f"{name}-course.svg")
        if f"{name}-gain.svg" in page:
            write(draw_gains(runs), FIGURES / f"{name}-gain.svg")
        if strangers:
            write(draw_strangers(strangers), FIGURES / f"{name}-strangers.svg")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        panels, elsewhere = (read(experiment, NUMBERS / folder)[0] for folder in ("panels", "cpu"))
        made = tables(runs, strangers, experiment, panels, elsewhere)
        file.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
