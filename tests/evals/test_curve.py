"""The curve of a run: its checkpoints as points, each against the first."""

from __future__ import annotations

from redqueen.cli.eval import curve_figure, curve_table
from redqueen.evals.scores import ScoreEntry, curves
from tests.evals.made_up import results

ENTRIES = [
    ScoreEntry(target="run@0", member="S0", step=0),
    ScoreEntry(target="run@10", member="S0", step=10),
    ScoreEntry(target="run@10", member="S1", step=10),
    ScoreEntry(target="base", member=""),
]


def test_a_point_is_the_mean_of_its_members_and_its_gain_is_over_the_first() -> None:
    found = curves(results({"gsm8k": (4, 20, 28, 1)}, entries=ENTRIES), "gsm8k")
    assert found.keys() == {"run"}
    first, last = found["run"]
    assert (first.step, first.members, first.score.mean, first.gain) == (0, ("S0",), 0.1, None)
    assert (last.step, last.members, last.score.mean) == (10, ("S0", "S1"), 0.6)
    assert last.gain is not None
    assert (last.gain.mean, last.gain.above) == (0.5, True)


def test_a_gain_is_paired_by_problem() -> None:
    # All answers are equal, problem by problem: whatever problems are drawn, there is no difference.
    point = curves(results({"gsm8k": (20, 20, 20, 1)}, entries=ENTRIES), "gsm8k")["run"][1]
    assert point.gain is not None
    assert (point.gain.mean, point.gain.low) == (0.0, None)
    assert point.score.low is not None


def test_the_table_and_the_figure_show_each_checkpoint() -> None:
    found = results({"gsm8k": (4, 20, 28, 1)}, entries=ENTRIES)
    head, first, last = curve_table(found)
    assert head[:6] == ["run", "benchmark", "step", "members", "solved %", "gain over the first"]
    assert first[2:4] == ["0", "S0"]
    assert first[5] == "-"
    assert last[2:4] == ["10", "S0 S1"]
    assert last[5].startswith("+50.0 [+")
    (axes,) = curve_figure(found).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 10]]
