"""How broad the tasks of the arms are: what needs the archive, at equal numbers of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redqueen.analysis.compare.arms import Arm, ComparedRun, runs_of
from redqueen.analysis.compare.charts import ArmCurve, Chart, with_values
from redqueen.analysis.compare.summary import Quantity
from redqueen.analysis.diversity.rarefaction import levels, rarefaction
from redqueen.analysis.diversity.vendi import rarefied_vendi_score
from redqueen.base.intervals import interval
from redqueen.run.recording.metrics import Panel
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import MeasureRow
from redqueen.store.directory import RunDirectory, RunError

VENDI_TASKS = 40
"""Tasks of which a Vendi score is taken. A quarter of a quickstart of 30 steps has about 100."""
_TITLES = {
    "programs": "programs up to names and constants",
    "paths": "paths of syntax",
    "functions": "functions of the library",
    "signatures": "types of inputs and outputs",
}

Rows = Mapping[str, Sequence[MeasureRow]]
"""By the name of a run: the measures of all tasks that its members wrote."""


def measures(arms: Sequence[Arm]) -> tuple[dict[str, Sequence[MeasureRow]], list[str]]:
    """Returns the measures of each run, and why a run has none: an archive of a former version, say."""
    rows: dict[str, Sequence[MeasureRow]] = {}
    missing: list[str] = []
    for run in runs_of(arms):
        try:
            with ArchiveReader(RunDirectory(run.path).archive) as archive:
                rows[run.name] = archive.measures_of_members()
        except RunError as error:
            missing.append(f"{run.name} has no measures of its tasks: {error}")
    return rows, missing


def rarefaction_charts(arms: Sequence[Arm], rows: Rows) -> list[Chart]:
    """Returns how many different cells the arms have over numbers of tasks, up to the shortest run of each arm."""
    counts = [len(rows[run.name]) for run in runs_of(arms) if rows.get(run.name)]
    if not counts:
        return []
    at = tuple(sorted({level for tasks in counts for level in levels(tasks)}))
    charts: list[Chart] = []
    for what, title in _TITLES.items():
        curves = [_arm_curve(arm, rows, what, at) for arm in arms]
        panel = Panel(
            key=f"rarefaction-{what}",
            section="coverage",
            title=f"Different {title}",
            unit="number",
            note="The expected number in so many tasks, drawn without replacement from all tasks of a run. The higher "
            "curve is the broader run, whatever their lengths.",
            low=0,
            high=None,
            steps=at,
            curves={},
        )
        charts.append(Chart(panel=panel, label="whole run", steps=at, curves=with_values(curves), along="tasks"))
    return charts


def vendi_quantities(arms: Sequence[Arm], rows: Rows) -> list[Quantity]:
    """Returns the Vendi score of equally many tasks of the first and of the last quarter of each run."""
    table: list[Quantity] = []
    for arm in arms:
        name = f"Vendi score of {VENDI_TASKS} tasks"
        table.append(Quantity.of(name, arm, lambda run, last: _vendi(run, rows, last=last)))
    return table if any(row.last is not None for row in table) else []


def _vendi(run: ComparedRun, rows: Rows, *, last: bool) -> float | None:
    steps = [line["step"] for line in run.lines]
    quarter = max(1, len(steps) // 4)
    chosen = set(steps[-quarter:] if last else steps[:quarter])
    tasks = [row.paths.split() for row in rows.get(run.name, ()) if row.step in chosen]
    return rarefied_vendi_score(tasks, VENDI_TASKS)


def _arm_curve(arm: Arm, rows: Rows, what: str, at: Sequence[int]) -> ArmCurve:
    measured = [rows[run.name] for run in arm.runs if rows.get(run.name)]
    if not measured:
        return ArmCurve(arm=arm.name, points=(None,) * len(at))
    shortest = min(map(len, measured))
    within = [level for level in at if level <= shortest]
    columns = [rarefaction(of_run, what, within) for of_run in measured]
    points = [interval(values) for values in zip(*columns, strict=True)]
    return ArmCurve(arm=arm.name, points=(*points, *[None] * (len(at) - len(within))))
