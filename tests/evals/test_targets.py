"""Targets: which adapters a run, a folder and the two words stand for, and what cannot be evaluated together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from redqueen.assets import WARM, WARM_WORK
from redqueen.config import BUNDLED, Config
from redqueen.errors import UserError
from redqueen.evals.benchmark import Template
from redqueen.evals.targets import BASE, WARM_START, Entrant, check_asked, own_tasks, read_targets
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, Task
from redqueen.store.directory import RunDirectory, RunError
from tests import toy


def run(folder: Path, name: str, *changes: str) -> str:
    directory = RunDirectory(folder / name)
    directory.create(Config().override(list(changes)), {})
    return str(directory.path)


def test_the_words_stand_for_the_bare_base_and_the_shipped_adapter() -> None:
    config, (base, warm, folder) = read_targets([BASE, WARM_START, str(WARM)], "students", None)
    assert config.model.name == BUNDLED
    assert base.adapter is None
    assert warm.adapter is not None
    assert folder.adapter is not None
    assert warm.adapter.keys() == folder.adapter.keys()
    assert (warm.target, warm.member, warm.alpha) == (WARM_START, "", folder.alpha)


def test_a_target_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="base is given twice: leave one out"):
        read_targets([BASE, WARM_START, BASE], "students", None)
    path = run(tmp_path, "a")
    with pytest.raises(UserError, match=r"a/\.\./a is given twice, also as .*a: leave one out"):
        read_targets([path, f"{path}/../a"], "students", None)


def test_a_run_without_a_checkpoint_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no checkpoint to evaluate"):
        read_targets([run(tmp_path, "a")], "students", None)


@pytest.mark.parametrize("change", ["model.name=elsewhere", "model.prompts=chat"])
def test_runs_with_another_base_or_other_prompts_are_refused(tmp_path: Path, change: str) -> None:
    targets = [run(tmp_path, "a"), run(tmp_path, "b", change)]
    with pytest.raises(UserError, match=r"b has another base or other prompts than .*a: evaluate it alone"):
        read_targets(targets, "students", None)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("game.kinds=expr_o", "languages"),
        ("game.shots=2", r"game\.shots"),
        ("sampling.attempt_tokens=512", r"sampling\.attempt_tokens"),
    ],
)
def test_runs_that_would_be_asked_other_reserved_tasks_are_refused(tmp_path: Path, change: str, named: str) -> None:
    targets = [run(tmp_path, "a"), run(tmp_path, "b", change)]
    with pytest.raises(UserError, match=rf"b is asked other tasks than .*a, by its {named}: evaluate it"):
        check_asked(targets, None)


def test_runs_that_are_asked_the_same_reserved_tasks_are_evaluated_together(tmp_path: Path) -> None:
    # All kinds of a language are posed, and no limit is below what the longest answer needs.
    targets = [run(tmp_path, "a"), run(tmp_path, "b", "game.kinds=code_o", "sampling.attempt_tokens=40"), BASE]
    check_asked(targets, None)
    check_asked([targets[0], run(tmp_path, "c", "sampling.attempt_tokens=512")], 300)


def entrant(target: str, own: tuple[Task, ...] | None) -> Entrant:
    return Entrant(target=target, member="S0", adapter=None, alpha=1.0, fingerprint=None, own=own)


def test_held_out_tasks_of_the_user_are_those_of_all_runs_that_have_some() -> None:
    mine, others = (
        Task(id="seed-1", kind="code_o", author="own", step=0, program=program, pairs=(Pair("1", "1"),))
        for program in ("def f(x):\n    return x", "def f(x):\n    return 1")
    )
    assert own_tasks([entrant("a", (mine,)), entrant("b", None), entrant("c", (mine,))]) == (mine,)
    with pytest.raises(UserError, match="no target is a run of tasks of yours"):
        own_tasks([entrant("b", None)])
    with pytest.raises(UserError, match="b has held out none of your tasks"):
        own_tasks([entrant("a", (mine,)), entrant("b", ())])
    with pytest.raises(UserError, match="c has held out others of your tasks than a: evaluate it alone"):
        own_tasks([entrant("a", (mine,)), entrant("c", (others,))])


def test_a_warm_start_for_another_base_is_refused() -> None:
    with pytest.raises(UserError, match="no warm start ships for this base"):
        read_targets([WARM_START], "students", "elsewhere")


@pytest.mark.integration
def test_a_step_or_all_steps_of_a_run(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {"run.steps": 4, "run.checkpoint_every": 1, "run.keep_every": 2, "run.keep_last": 1}
    path = str(toy.played(tmp_path, verifier, **changes).path)
    _, newest = read_targets([path], "students", None)
    _, every = read_targets([path], "students", None, "all")
    _, second = read_targets([path], "all", None, 2)
    assert [(one.target, one.step) for one in newest] == [(path, 4)] * 2
    assert [(one.target, one.step) for one in every] == [(f"{path}@{step}", step) for step in (0, 0, 2, 2, 4, 4)]
    assert [(one.member, one.step) for one in second] == [("T0", 2), ("T1", 2), ("S0", 2), ("S1", 2)]
    with pytest.raises(RunError, match="has kept no checkpoint of step 3, but of 0, 2, 4"):
        read_targets([path], "students", None, 3)


@pytest.mark.parametrize(
    ("template", "prompts", "shipped"),
    [
        (None, "completion", WARM),
        ("standard", "completion", WARM),
        ("work", "work", WARM_WORK),
        # None ships for it.
        ("chat", "chat", WARM),
    ],
)
def test_without_a_run_the_template_decides_the_prompts_and_which_start_is_meant(
    template: Template | None, prompts: str, shipped: Path
) -> None:
    config, (warm, folder) = read_targets([WARM_START, str(shipped)], "students", None, template=template)
    assert config.model.prompts == prompts
    assert warm.adapter is not None
    assert folder.adapter is not None
    assert all(torch.equal(warm.adapter[name].a, folder.adapter[name].a) for name in folder.adapter)
