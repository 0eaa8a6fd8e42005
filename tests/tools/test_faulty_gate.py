"""A fault at the gate: a share of wrong golds, of proposals alone, and nobody is told which."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen import plugins
from redqueen.config import Config, ConfigError
from redqueen.errors import UserError
from redqueen.evals.benchmark import ProblemSet
from redqueen.evals.held_out import check_held_out, most_tasks
from redqueen.evals.in_training import load_held_out
from redqueen.extras.expr.modes import EXPR
from redqueen.extras.studies.sweep import SweepRun, check_probe
from redqueen.method.judging import judge_proposals
from redqueen.method.planting import seed_tasks
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Pair, Proposal
from redqueen.tasks.kinds import find, task_on
from tests.grading import grade

MODULE = "tools.faulty_gate"


def check(config: Config) -> None:
    check_held_out(config.game, config.league)


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The faulty kinds, which are forgotten at the end."""
    monkeypatch.setattr(plugins, "_parts", {})
    sys.modules.pop(MODULE, None)
    plugins.load([MODULE])
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(("mode", "percent"), [("expr_o", 10), ("expr_o", 30), ("expr_i", 30)])
def test_a_share_of_the_golds_is_wrong(mode: str, percent: int, verifier: LocalVerifier) -> None:
    kind = f"{mode}_wrong{percent}"
    proposals = [
        Proposal(id=f"1.{number}", kind=kind, author="T0", step=1, draft=Draft("x + y", (f"{number % 90}, 1",)))
        for number in range(400)
    ]
    tasks = [task for _, task in judge_proposals(verifier, proposals) if task is not None]
    assert len(tasks) == len(proposals)
    wrong = [task for task in tasks if task.pairs[0].output != str(int(task.pairs[0].input.partition(",")[0]) + 1)]
    assert percent - 5 < 100 * len(wrong) / len(tasks) < percent + 5
    # The same proposals pass in the same way again.
    assert tasks == [task for _, task in judge_proposals(verifier, proposals) if task is not None]
    # An answer is judged by what was recorded, and the task is not found out.
    asked = wrong[0]
    right = asked.pairs[0].output if mode == "expr_o" else f"{asked.pairs[0].output}, 0"
    other = "1000" if mode == "expr_o" else asked.pairs[0].input
    judged = grade(verifier, [(asked, right), (asked, other)])
    assert [verdict.status for verdict in judged] == ["correct", "wrong"]


def test_seeds_and_held_out_tasks_stay_right(verifier: LocalVerifier) -> None:
    for whole in seed_tasks(verifier, EXPR, range(40)):
        task = task_on(whole, "expr_o_wrong30")
        assert task is not None
        assert task.pairs == (Pair(whole.pairs[0].input, whole.pairs[0].output),)
    assert find("expr_o_wrong30").language is EXPR


def asked(config: Config, verifier: LocalVerifier) -> ProblemSet:
    return load_held_out(config.evals, config.league, config.play_settings, verifier)[0]


def test_students_are_tested_on_the_tasks_of_the_kinds_without_the_fault(verifier: LocalVerifier) -> None:
    faulty, right = (
        asked(Config().override([f"game.kinds={kinds}", "evals.limit=6"]), verifier)
        for kinds in ("expr_o_wrong30,expr_i_wrong30", "expr_o,expr_i")
    )
    assert faulty.sha256 == right.sha256
    assert [problem.id for problem in faulty.problems] == [problem.id for problem in right.problems]


def test_a_sweep_asks_the_kinds_without_the_fault_whatever_their_order() -> None:
    runs: list[SweepRun] = []
    for kinds in ("expr_o_wrong30,expr_i_wrong30", "expr_o,expr_i"):
        config = Config().override([f"game.kinds={kinds}"])
        runs.append(SweepRun(kinds, 0, (), config, Path("run")))
    assert [run.probed for run in runs] == [["expr_i", "expr_o"]] * 2
    # A fault adds no tasks: both kinds are asked as the one without it.
    both = Config().override(["game.kinds=expr_o,expr_o_wrong30", "league.student_fitness=held_out"])
    most = most_tasks("selection", ["expr_o"])
    check(both.override([f"league.held_out_tasks={most}"]))
    with pytest.raises(ConfigError, match=f"there are {most} held-out tasks"):
        check(both.override([f"league.held_out_tasks={most + 1}"]))
    check_probe([SweepRun("both", 0, (), both, Path("run"))], most_tasks("report", ["expr_o"]))
    with pytest.raises(UserError, match="reserved tasks, choose at most that"):
        check_probe([SweepRun("both", 0, (), both, Path("run"))], most_tasks("report", ["expr_o"]) + 1)
