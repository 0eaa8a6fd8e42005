"""Two or more runs of a folder beside one another: their settings, what they came to, and their curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redqueen.analysis.compare.arms import Arm, ComparedRun
from redqueen.analysis.compare.charts import answering, charts, gain_charts
from redqueen.analysis.compare.summary import budget
from redqueen.config import Config
from redqueen.config.keys import keys
from redqueen.errors import UserError
from redqueen.extras.page.folder import Folder
from redqueen.extras.page.headline import better, health
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.report.comparison import chart_panel, folded_panels
from redqueen.extras.page.settings import setting_of
from redqueen.run.recording.metrics import panels
from redqueen.store.files import damage_of

MOST = 6
"""So many runs can be told apart in a chart."""
_OF_STUDENTS = "held-out-students"
"""Students of two runs have nothing in common but their names."""


def comparison(folder: Folder, names: Sequence[str]) -> dict[str, object]:
    """Returns what is compared of the runs of these names, and which runs there are to choose from.

    Raises UserError for more than `MOST` runs, UnknownError for a name that is no run.
    """
    chosen = list(dict.fromkeys(names))
    if len(chosen) > MOST:
        raise UserError(f"at most {MOST} runs can be compared on this page: `redqueen compare` takes more")
    choice = {"names": folder.names(), "chosen": chosen, "most": MOST}
    if len(chosen) < 2:
        return {**choice, "runs": [], "differ": [], "first": [], "panels": []}
    runs = {name: folder.run(name) for name in chosen}
    arms = [_arm(folder.title(name), run) for name, run in runs.items()]
    begun = [arm for arm in arms if arm.runs[0].lines]
    shown = [chart for chart in charts(begun) if chart.curves]
    answers = answering([*gain_charts(begun), *shown])
    first = [chart_panel(chart, question.title) for question, drawn in answers for chart in drawn]
    keys_shown = {panel["key"] for panel in first}
    return {
        **choice,
        "runs": [_row(arm, run) for arm, run in zip(arms, runs.values(), strict=True)],
        "differ": _differ([arm.runs[0].config for arm in arms]),
        "first": first,
        "panels": folded_panels(
            chart for chart in shown if chart.key not in keys_shown and chart.panel.key != _OF_STUDENTS
        ),
    }


def _arm(name: str, run: LiveRun) -> Arm:
    # Here, so that it is said which of the runs is damaged.
    with damage_of(run.directory.path):
        lines = run.lines()
        compared = ComparedRun(
            name=name,
            path=run.directory.path,
            arm=name,
            config=run.config(),
            lines=lines,
            verdict=run.verdict(),
            panels=panels(lines, run.directory.own_metrics()),
        )
    return Arm(name=name, runs=(compared,))


def _row(arm: Arm, run: LiveRun) -> dict[str, object]:
    with damage_of(run.directory.path):
        lines = run.lines()
        spent = budget(arm) if lines else None
        return {
            "title": arm.name,
            "verdict": arm.runs[0].verdict.word,
            "better": better(lines, run.config().evals.every),
            "health": health(lines),
            "steps": lines[-1]["step"] if lines else 0,
            "tokens": spent.tokens_sampled + spent.tokens_trained if spent else 0,
            "seconds": spent.seconds if spent else 0,
        }


def _differ(configs: Sequence[Config]) -> list[dict[str, Any]]:
    """Returns the settings that are not the same in all runs."""
    rows: list[dict[str, Any]] = []
    for key in ("recipe", *keys(Config)):
        values = [setting_of(config, key) for config in configs]
        if len(set(values)) > 1:
            rows.append({"key": key, "values": values})
    return rows
