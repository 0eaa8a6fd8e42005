"""Runs and arms side by side: what is pooled, what is written, and what is refused."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.analysis.compare import budget, measures, quantities, rarefaction_charts, vendi_quantities
from redqueen.analysis.compare.arms import Arm, answering, arms, charts, gain_charts, other_problems
from redqueen.base.intervals import Interval, interval
from redqueen.errors import UserError
from redqueen.extras.page import compare_command
from redqueen.extras.page.compare_command import draw, write_files
from redqueen.extras.page.comparison import comparison_page
from redqueen.store.directory import RunDirectory, RunError
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def runs(played: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs: two of one recipe, of which the second solves more, and one of another that is shorter."""
    folder = tmp_path_factory.mktemp("compared")
    copies = [folder / "a" / "seed-0", folder / "a" / "seed-1", folder / "b" / "seed-0"]
    for copy in copies:
        copy.mkdir(parents=True)
        for name in ("config.json", "metrics.jsonl", "run.sqlite"):
            shutil.copy(played / name, copy / name)
    lines = [json.loads(line) for line in (played / "metrics.jsonl").read_text().splitlines()]
    better = [{**line, "solve_rate": min(1.0, line["solve_rate"] + 0.1)} for line in lines]
    (copies[1] / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in better))
    (copies[2] / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines[:2]))
    config = json.loads((played / "config.json").read_text())
    (copies[2] / "config.json").write_text(json.dumps({**config, "recipe": "other"}))
    return copies


def test_each_run_is_an_arm_unless_arms_are_asked_for(runs: list[Path]) -> None:
    assert [arm.name for arm in arms(runs, "run")] == ["a/seed-0", "a/seed-1", "b/seed-0"]
    pooled = arms(runs, "recipe")
    assert [(arm.name, len(arm.runs)) for arm in pooled] == [("quickstart", 2), ("other", 1)]
    assert [arm.name for arm in arms(runs, "population.teachers")] == ["population.teachers=2"]


def test_seeds_are_pooled_into_a_mean_with_its_interval(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")
    chart = next(chart for chart in charts(pooled) if chart.key == "solve-rate--all-tasks")
    columns = [[line["solve_rate"] for line in RunDirectory(run).metrics()] for run in runs]
    for step, point in enumerate(chart.curves[0].points):
        known = [column[step] for column in columns[:2]]
        assert point == interval([rate for rate in known if rate is not None])
    # The other arm has played two steps only.
    assert [point is None for point in chart.curves[1].points] == [False, False, True, True]
    assert not any(chart.panel.key.startswith(("ratings", "sigma")) for chart in charts(pooled))


def test_budgets_are_means_over_the_runs_of_an_arm(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")
    lines = RunDirectory(runs[0]).metrics()
    cost = budget(pooled[0])
    assert cost.tokens_sampled == sum(line["tokens_sampled"] for line in lines)
    assert cost.verdicts == {"undecided": 2}
    assert {quantity.arm for quantity in quantities(pooled)} == {"quickstart", "other"}


def test_breadth_is_compared_at_equal_numbers_of_tasks(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")
    (runs[2] / "run.sqlite").rename(runs[2] / "gone")
    rows, missing = measures(pooled)
    (runs[2] / "gone").rename(runs[2] / "run.sqlite")
    assert [line.split()[0] for line in missing] == ["b/seed-0"]
    drawn = rarefaction_charts(pooled, rows)
    assert {chart.key for chart in drawn} >= {"rarefaction-programs--whole-run", "rarefaction-paths--whole-run"}
    (curve,) = drawn[0].curves
    assert drawn[0].steps[-1] == len(rows["a/seed-0"])
    assert curve.points[0] == Interval(1.0, None, None, 2)
    assert rarefaction_charts(pooled, {}) == []
    assert vendi_quantities(pooled, {}) == []


def test_counts_of_all_tasks_so_far_do_not_pass_for_a_quarters(runs: list[Path]) -> None:
    arm = arms(runs, "recipe")[0]
    counted = [panel for panel in arm.runs[0].panels if panel.key.startswith("rarefied-")]
    assert counted
    assert all("since step 1, rarefied" in panel.title for panel in counted)
    # These runs are too short for 100 tasks.
    longer = [replace(panel, curves={"in 100 tasks": (1.0,) * len(panel.steps)}) for panel in counted]
    named = {row.name for row in quantities([replace(arm, runs=(replace(arm.runs[0], panels=longer),))])}
    assert len(named) == 3
    assert all(name.endswith(" in 100 tasks since step 1") for name in named)


def test_every_figure_has_its_numbers(runs: list[Path], tmp_path: Path) -> None:
    pooled = arms(runs, "recipe")
    # Two panels are enough: a figure takes most of a second.
    drawn = [chart for chart in charts(pooled) if chart.panel.key in ("solve-rate", "covered-programs")]
    write_files(tmp_path, pooled, drawn, everything=True)
    figures = {file.stem for file in tmp_path.glob("*.png")}
    assert figures == {file.stem for file in tmp_path.glob("*.svg")}
    assert figures | {"curves", "runs"} == {file.stem for file in tmp_path.glob("*.csv")}
    with (tmp_path / "solve-rate.csv").open() as file:
        rows = list(csv.DictReader(file))
    first = next(row for row in rows if row["curve"] == "all tasks" and row["arm"] == "other")
    assert float(first["mean"]) == RunDirectory(runs[2]).metrics()[0]["solve_rate"]
    assert (first["low"], first["runs"]) == ("", "1")
    with (tmp_path / "runs.csv").open() as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["a/seed-0", "a/seed-1", "b/seed-0"]
    page = comparison_page(pooled, drawn, quantities(pooled))
    assert page == comparison_page(pooled, drawn, quantities(pooled))
    assert '"key": "solve-rate--all-tasks"' in page


def test_three_questions_come_first_and_each_has_a_figure(runs: list[Path], tmp_path: Path) -> None:
    pooled = arms(runs, "recipe")
    drawn = [*gain_charts(pooled), *charts(pooled)]
    # These runs measured nothing held out, so the first question has no answer.
    assert [question.key for question, _ in answering(drawn)] == ["curriculum", "health"]
    health = next(shown for question, shown in answering(drawn) if question.key == "health")
    files = write_files(tmp_path, pooled, health)
    assert {file.name for file in files} == {"health.png", "health.svg", "health.csv", "curves.csv", "runs.csv"}
    text = comparison_page(pooled, drawn, quantities(pooled))
    assert 0 < text.index("Is the curriculum richer?") < text.index("Is the run healthy?")


def test_gains_begin_at_the_start_and_are_pooled(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")
    measured = [
        replace(run, lines=[{**run.lines[0], "step": 5, "held_out": {"students": {"S0": {"gain": gain}}}}])
        for run, gain in zip(pooled[0].runs, (0.1, 0.2), strict=True)
    ]
    (chart,) = gain_charts([replace(pooled[0], runs=tuple(measured)), *pooled[1:]])
    (curve,) = chart.curves
    assert chart.steps == (0, 5)
    assert curve.points == (interval([0.0, 0.0]), interval([10.0, 20.0]))
    assert "leaves out what all seeds share: the problems, and the start's one answer" in chart.panel.note


def test_a_band_goes_on_where_another_arm_was_measured(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")

    def measured(arm: Arm, steps: list[int]) -> Arm:
        two = [
            replace(
                arm.runs[0],
                name=f"{arm.name} {number}",
                lines=[{"step": step, "held_out": {"students": {"S0": {"gain": number * step}}}} for step in steps],
            )
            for number in (1, 2)
        ]
        return replace(arm, runs=tuple(two))

    chosen = [measured(arm, steps) for arm, steps in zip(pooled, ([2, 4, 6], [3, 5, 7]), strict=True)]
    (axes,) = draw(gain_charts(chosen), [arm.name for arm in chosen]).axes
    assert [list(each.get_xdata()) for each in axes.lines] == [[0, 2, 4, 6], [0, 3, 5, 7]]
    assert [len(band.get_paths()) for band in axes.collections] == [1, 1]


def test_a_comparison_that_was_interrupted_can_be_written_again(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object, file: Path) -> None:
        if file.suffix == ".svg":
            raise KeyboardInterrupt
        file.touch()

    monkeypatch.setattr(compare_command, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        compare_command.run_compare(runs, "recipe", tmp_path / "out", as_json=True)
    monkeypatch.undo()
    assert compare_command.run_compare(runs, "recipe", tmp_path / "out", as_json=True) == 0
    assert (tmp_path / "out" / "index.html").exists()


def test_it_is_said_that_the_arms_were_asked_other_problems(runs: list[Path]) -> None:
    pooled = arms(runs, "recipe")

    def asked(*names: str | None) -> list[Arm]:
        one, two = pooled[0].runs
        score = {"students": {"S0": {"gain": 0.1}}}
        scores = [score if name is None else {**score, "asked": name} for name in names]
        measured = [
            replace(run, lines=[{**run.lines[0], "held_out": held_out}])
            for run, held_out in zip((one, two), scores, strict=True)
        ]
        return [replace(pooled[0], runs=tuple(measured))]

    # A run of a former version says nothing.
    assert other_problems(asked("a", "a")) == other_problems(asked("a", None)) == other_problems(pooled) == []
    (line,) = other_problems(asked("a", "b"))
    assert "different held-out problems" in line
    assert line in gain_charts(asked("a", "b"))[0].panel.note
    assert line not in gain_charts(asked("a", "a"))[0].panel.note


def test_what_cannot_be_compared_is_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="given twice"):
        arms([runs[0], runs[0]], "run")
    with pytest.raises(UserError, match=r"did you mean 'population\.teachers'"):
        arms(runs, "population.teacher")
    with pytest.raises(RunError):
        arms([tmp_path], "run")


def test_the_command_prints_tables_or_json(runs: list[Path]) -> None:
    paths = [str(run) for run in runs]
    shown = redqueen("compare", *paths, "--by", "recipe").stdout
    assert "undecided (2)" in shown
    assert "solve rate, mean of the kinds" in shown
    data = json.loads(redqueen("compare", *paths, "--json").stdout)
    assert [row["run"] for row in data["runs"]] == ["a/seed-0", "a/seed-1", "b/seed-0"]
