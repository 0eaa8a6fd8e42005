"""A run on the toy game: it learns, it is repeated exactly after a resume, and it leaves what it says it leaves."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from redqueen.engine.model.base import fingerprint
from redqueen.method.rating import inherited
from redqueen.method.seeds import AUTHOR
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, Proposal, Task, Verdict
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, ProposalRow, TaskRow
from redqueen.store.checkpoint import CheckpointError
from redqueen.store.directory import RunError
from redqueen.tasks.kinds import TaskKind
from tests import toy
from tests.reference import same

pytestmark = pytest.mark.integration


def play(trainer: Trainer, steps: int | None = None) -> list[dict]:
    """Runs to the end, or `steps` more, and closes."""
    if steps is None:
        trainer.run()
    else:
        for step in range(trainer.played + 1, trainer.played + steps + 1):
            trainer.record(trainer.step(step))
            trainer.played = step
        trainer.save()
    trainer.close()
    return trainer.directory.metrics()


def without_time(lines: list[dict]) -> list[dict]:
    """The lines without what differs from run to run."""
    return [toy.without(line, "seconds", "throughput", "time") for line in lines]


def test_the_loop_learns(tmp_path: Path, verifier: LocalVerifier) -> None:
    lines = play(toy.trainer(toy.config(tmp_path, **{"run.steps": 15}), tmp_path / "run", verifier))
    first = lines[:2]
    last = lines[-3:]
    for what, gain in (("valid_rate", 0.2), ("solve_rate", 0.3), ("student_reward", 0.4)):
        assert fmean(line[what] for line in last) > fmean(line[what] for line in first) + gain, what


@pytest.mark.slow
def test_the_loop_learns_with_another_advantage_and_every_further_term(tmp_path: Path, verifier: LocalVerifier) -> None:
    terms = {"positive_weight": 0.5, "imitation": 0.5, "entropy_bonus": 0.1, "advantage": "passk", "pass_k": 2}
    changes = {f"learning.{name}": value for name, value in terms.items()}
    lines = play(toy.trainer(toy.config(tmp_path, **changes, **{"run.steps": 15}), tmp_path / "run", verifier))
    for what, gain in (("valid_rate", 0.2), ("solve_rate", 0.3)):
        assert fmean(line[what] for line in lines[-3:]) > fmean(line[what] for line in lines[:2]) + gain, what


def test_with_learning_rate_zero_it_does_not_learn(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = toy.trainer(toy.config(tmp_path, **{"run.steps": 8, "learning.lr": 0}), tmp_path / "run", verifier)
    before = {name: trainer.policy.adapter(name) for name in trainer.population.members}
    play(trainer)
    for member, adapter in before.items():
        assert same(adapter, trainer.policy.adapter(member))


def test_the_base_is_untouched_by_a_run_with_evolution(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {
        "run.steps": 3,
        "evolution.enabled": True,
        "evolution.every": 1,
        "evolution.burn_in": 1,
        "evolution.gamma": 0.5,
    }
    trainer = toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier)
    before = trainer.base.fingerprint
    lines = play(trainer)
    assert any(line["replacements"] for line in lines)
    assert fingerprint(trainer.policy.base.model) == before


def test_withdrawn_tasks_are_recorded_and_count_in_no_rate(
    tmp_path: Path, verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = TaskKind.task

    def misrecorded(kind: TaskKind, proposal: Proposal, *rest: Any) -> tuple[Verdict, Task | None]:
        """Every other code_i task of a teacher has an output that its program does not give."""
        verdict, task = recorded(kind, proposal, *rest)
        if task is not None and task.author != AUTHOR and int(task.pairs[0].input) % 4 == 0:
            task = replace(task, pairs=(Pair(task.pairs[0].input, "2"),))
        return verdict, task

    monkeypatch.setattr(TaskKind, "task", misrecorded)
    trainer = toy.trainer(toy.config(tmp_path, **{"game.kinds": "code_i"}), tmp_path / "run", verifier)
    (line,) = play(trainer, 1)
    assert line["statuses"]["attempts"].keys() == {"correct", "nondeterministic"}
    proposals = line["statuses"]["proposals"]
    withdrawn = proposals["nondeterministic"]
    assert withdrawn > 0
    assert line["dropped"] == line["statuses"]["attempts"]["nondeterministic"] == 4 * withdrawn
    # Every answer to a task that stayed is right, so each of these rates is whole without the tasks that left.
    assert line["solve_rate"] == 1.0
    assert line["tasks_by_kind"] == {"code_i": proposals["valid"]}
    assert line["valid_rate"] == proposals["valid"] / sum(proposals.values())
    with ArchiveReader(trainer.directory.archive) as archive:
        rows = [row for row in archive.every(ProposalRow) if row.status == "nondeterministic"]
        ids = {row.id for row in rows}
        assert len(rows) == withdrawn
        assert {row.reward for row in rows} == {-1.0}
        assert not ids & {row.id for row in archive.every(TaskRow)}
        dropped = [row for row in archive.every(AttemptRow) if row.task in ids]
        assert {(row.status, row.reward) for row in dropped} == {("nondeterministic", None)}
        assert {row.status for row in archive.every(AttemptRow) if row.task not in ids} == {"correct"}
    assert not ids & {entry.task.id for entry in trainer.self_play.task_bank.entries()}


EVOLVING = {
    "run.steps": 6,
    "run.checkpoint_every": 1,
    "evolution.enabled": True,
    "evolution.every": 2,
    "evolution.burn_in": 1,
    "evolution.gamma": 0.4,
    "population.teachers": 3,
    "population.students": 3,
}


def test_a_step_that_is_sampled_ahead_is_one_version_old_and_waits_for_births(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {**EVOLVING, "evolution.every": 3, "learning.lr": 1e-3}
    fresh = play(toy.trainer(toy.config(tmp_path, **changes), tmp_path / "fresh", verifier))
    changes["learning.max_staleness"] = 1
    lines = play(toy.trainer(toy.config(tmp_path, **changes), tmp_path / "stale", verifier))

    def spread(line: dict[str, Any]) -> float:
        return max(member["std"] for member in line["importance_ratio"].values())

    # The same weights give ratios of one. Steps 3 and 6 are followed by births, so step 4 is sampled after them.
    assert max(spread(line) for line in fresh) < 1e-3
    assert [spread(line) > 1e-3 for line in lines] == [False, True, True, False, True, True]
    assert lines[0]["solve_rate"] == fresh[0]["solve_rate"]
    # A checkpoint knows nothing of the step that was sampled before it was written.
    for step in (5, 6):
        saved = checkpoint.load(tmp_path / "stale" / "checkpoints", step)
        assert {entry.task.step for entry in saved.bank if entry.task.author != AUTHOR} <= set(range(step + 1))
        assert len(saved.bank) == lines[step - 1]["task_bank_size"]


@pytest.mark.slow
def test_a_run_that_samples_ahead_goes_on_from_any_checkpoint(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {"run.steps": 4, "run.checkpoint_every": 1, "learning.lr": 1e-3, "learning.max_staleness": 1}
    config = toy.config(tmp_path, **changes)
    broken = toy.trainer(config, tmp_path / "run", verifier)
    play(broken, 2)
    resumed = toy.trainer(config, tmp_path / "run", verifier, begin=False)
    resumed.restore(checkpoint.load(resumed.directory.checkpoints, 2))
    lines = play(resumed)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]


def test_resuming_gives_exactly_the_uninterrupted_run(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **EVOLVING)
    whole = play(toy.trainer(config, tmp_path / "whole", verifier))
    assert sum(len(line["replacements"]) for line in whole) >= 2

    broken = toy.trainer(config, tmp_path / "broken", verifier)
    play(broken, 3)
    # A step that was played and recorded, but whose checkpoint was never written, is played again.
    lost = toy.trainer(config, tmp_path / "broken", verifier, begin=False)
    lost.restore(checkpoint.load(lost.directory.checkpoints, 3))
    lost.record(lost.step(4))
    lost.close()
    resumed = toy.trainer(config, tmp_path / "broken", verifier, begin=False)
    resumed.restore(checkpoint.load(resumed.directory.checkpoints, 3))
    assert without_time(play(resumed)) == without_time(whole)

    one, two = (checkpoint.load(tmp_path / name / "checkpoints", 6) for name in ("whole", "broken"))
    assert one.population.members == two.population.members
    assert one.bank == two.bank
    for member, adapter in one.adapters.items():
        for site, factors in adapter.items():
            assert torch.equal(factors.a, two.adapters[member][site].a)
            assert torch.equal(factors.b, two.adapters[member][site].b)
        state = two.optimizers[member]
        assert all(torch.equal(value, state[key]) for key, value in one.optimizers[member].items())
    dumps = [_dump(tmp_path / name / "run.sqlite") for name in ("whole", "broken")]
    assert dumps[0] == dumps[1]


@pytest.mark.slow
def test_a_resumed_run_counts_each_members_version_on(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **EVOLVING)
    whole = toy.trainer(config, tmp_path / "whole", verifier)
    play(whole)

    broken = toy.trainer(config, tmp_path / "broken", verifier)
    play(broken, 3)
    saved = {name: broken.policy.version(name) for name in broken.policy.members}
    assert max(saved.values()) > 1, "members have been updated"

    # Joining the new process's policy must neither start at 1 again nor count as a new version.
    resumed = toy.trainer(config, tmp_path / "broken", verifier, begin=False)
    resumed.restore(checkpoint.load(resumed.directory.checkpoints, 3))
    assert {name: resumed.policy.version(name) for name in resumed.policy.members} == saved

    play(resumed)
    assert resumed.policy.members == whole.policy.members
    for name in whole.policy.members:
        assert resumed.policy.version(name) == whole.policy.version(name), name
    survivors = saved.keys() & set(resumed.policy.members)
    assert any(resumed.policy.version(name) > saved[name] for name in survivors)


def _dump(path: Path) -> dict[str, list]:
    connection = sqlite3.connect(path)
    tables = ("members", "matches", "tasks", "replacements", "listing", "tallies")
    dump = {table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}"))) for table in tables}
    # These two tables also hold the CPU time of a program, which no two runs share.
    for table in ("proposals", "attempts"):
        rows = connection.execute(f"SELECT rowid, step, text, status, output, reward FROM {table}")
        dump[table] = sorted(repr(row[1:]) for row in rows)
    connection.close()
    return dump


def test_a_child_starts_at_its_parents_mu_with_a_fresh_optimizer_name_and_version(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {
        "run.steps": 1,
        "evolution.enabled": True,
        "evolution.every": 1,
        "evolution.burn_in": 1,
        "evolution.gamma": 0.5,
    }
    trainer = toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier)
    (line,) = play(trainer)
    births = line["replacements"]
    assert {b["victim"][0] for b in births} == {"T", "S"}
    for birth in births:
        child = trainer.population.members[birth["child"]]
        assert child.games == 0
        parents = [trainer.population.members[name].rating for name in birth["parents"]]
        assert child.rating == inherited(parents)
        assert trainer.policy.state(child.name) == {}
        assert trainer.policy.version(child.name) == 1
        assert birth["victim"] not in trainer.policy.members
        assert birth["victim"] not in trainer.policy.learner.optimizers


def test_a_checkpoint_of_another_base_is_refused_by_name(tmp_path: Path, verifier: LocalVerifier) -> None:
    trainer = toy.trainer(toy.config(tmp_path), tmp_path / "run", verifier)
    trainer.base = replace(trainer.base, fingerprint="0" * 64)
    with pytest.raises(CheckpointError, match="step 0 was made on another base"):
        trainer.restore(checkpoint.load(trainer.directory.checkpoints, 0))
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "students", "matches"), [(4, 8, 8), (3, 1, 3), (1, 1, 1)])
def test_populations_of_unequal_size(
    tmp_path: Path, verifier: LocalVerifier, teachers: int, students: int, matches: int
) -> None:
    changes = {"population.teachers": teachers, "population.students": students, "run.steps": 2}
    lines = play(toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier))
    for line in lines:
        assert len(line["matches"]) == matches
        assert {m["teacher"] for m in line["matches"]} == {f"T{i}" for i in range(teachers)}
        assert {m["student"] for m in line["matches"]} == {f"S{i}" for i in range(students)}


def test_the_single_agent_plays_both_roles_and_is_neither_rated_nor_replaced(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {
        "population.teachers": 1,
        "population.students": 1,
        "population.single_agent": True,
        "game.matches": 2,
        "run.steps": 2,
        "evolution.enabled": True,
        "evolution.every": 1,
        "evolution.burn_in": 0,
    }
    trainer = toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier)
    lines = play(trainer)
    assert list(trainer.population.members) == ["A0"]
    assert trainer.population.members["A0"].rating.mu == 25.0
    for line in lines:
        assert len(line["matches"]) == 2
        assert all([match["teacher"], match["student"]] == ["A0", "A0"] for match in line["matches"])
    assert trainer.policy.state("A0"), "it learns from what it did in both roles"


def test_metrics_can_be_traced_to_the_archive(tmp_path: Path, verifier: LocalVerifier) -> None:
    lines = play(toy.trainer(toy.config(tmp_path, **{"run.steps": 2}), tmp_path / "run", verifier))
    db = sqlite3.connect(tmp_path / "run" / "run.sqlite")
    for line in lines:
        step = line["step"]
        (valid,) = db.execute("SELECT avg(status = 'valid') FROM proposals WHERE step = ?", (step,)).fetchone()
        (solved,) = db.execute("SELECT avg(status = 'correct') FROM attempts WHERE step = ?", (step,)).fetchone()
        (paid,) = db.execute("SELECT avg(reward) FROM proposals WHERE step = ?", (step,)).fetchone()
        assert line["valid_rate"] == pytest.approx(valid)
        assert line["solve_rate"] == pytest.approx(solved)
        assert line["teacher_reward"] == pytest.approx(paid)
        assert line["statuses"]["proposals"]["valid"] == sum(line["tasks_by_kind"].values())
    rows = db.execute(
        "SELECT t.id, t.rho, avg(a.status = 'correct') FROM tasks t JOIN attempts a ON a.task = t.id GROUP BY 1"
    )
    assert all(rho == pytest.approx(mean) for _, rho, mean in rows)
    db.close()


def test_config_and_metrics_are_plain_json(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **{"run.steps": 1})
    play(toy.trainer(config, tmp_path / "run", verifier))
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == config.model_dump(mode="json")
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.sqlite", "metrics.jsonl", "checkpoints/step-000000"])
def test_what_is_removed_while_a_run_trains_is_noticed_at_the_steps_end(
    tmp_path: Path, verifier: LocalVerifier, name: str
) -> None:
    player = toy.trainer(toy.config(tmp_path, **{"run.steps": 3}), tmp_path / "run", verifier)
    with closing(player):
        player.record(player.step(1))
        path = tmp_path / "run" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(RunError, match=rf"{path.name if path.suffix else 'checkpoints'} .*removed"):
            player.record(player.step(2))
