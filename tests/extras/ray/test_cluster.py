"""A run on two machines learns as in one process, and what is killed in the middle of a step changes nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-ray")

from redqueen.config import Config
from redqueen.extras.ray.policy import ClusterPolicy
from redqueen.extras.ray.ray_cluster import ClusterError, Needs
from redqueen.extras.ray.replicas import Replicas, sharing
from redqueen.method.verifier import LocalVerifier
from redqueen.records import MemberUpdate, Sample
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory
from tests import toy
from tests.extras.ray.machines import Machines

STEPS = 3
BIRTHS: dict[str, object] = {
    "evolution.enabled": True,
    "evolution.every": 1,
    "evolution.burn_in": 0,
    "run.steps": STEPS,
    "run.checkpoint_every": 1,
}


@pytest.fixture(scope="module")
def two_machines() -> Iterator[Machines]:
    opened = Machines()
    yield opened
    opened.close()


@pytest.fixture
def machines(two_machines: Machines) -> Iterator[Machines]:
    yield two_machines
    # Replicas that a failed test leaves behind would hold the cores for which the next test waits.
    two_machines.end_policies()


def config(folder: Path, **changes: object) -> Config:
    """The toy game with births, on two replicas."""
    return toy.config(folder, **{**BIRTHS, "cluster.address": "test", "cluster.replicas": 2, **changes})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> RunDirectory:
    """The same run in this process: what every run on machines is compared with."""
    folder = tmp_path_factory.mktemp("alone")
    return toy.played(folder, verifier, **BIRTHS)


def assert_same(run: RunDirectory, other: RunDirectory) -> None:
    """The same games, texts and births; weights up to rounding, since batches differ."""
    for table in ("matches", "proposals", "attempts", "replacements"):
        assert rows(run, table) == rows(other, table), table
    one = checkpoint.load(run.checkpoints, STEPS)
    two = checkpoint.load(other.checkpoints, STEPS)
    assert one.versions == two.versions
    assert one.slots == two.slots
    for name, adapter in one.adapters.items():
        for layer, factors in adapter.items():
            torch.testing.assert_close(factors.a, two.adapters[name][layer].a, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(factors.b, two.adapters[name][layer].b, rtol=1e-3, atol=1e-5)


def rows(run: RunDirectory, table: str) -> list[tuple[Any, ...]]:
    """A table without its measured times."""
    with ArchiveReader(run.archive) as reader:
        cursor = reader.connection.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        kept = [i for i, name in enumerate(names) if name != "cpu_ms"]
        return [tuple(row[i] for i in kept) for row in cursor.fetchall()]


def pids(trainer: Trainer) -> list[int]:
    """The processes of the replicas."""
    return [actor.call("pid").get() for actor in replicas(trainer).actors.values()]


def replicas(trainer: Trainer) -> Replicas:
    policy = trainer.policy
    assert isinstance(policy, ClusterPolicy)
    return policy.replicas


def test_two_machines_play_the_run_of_one_process(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier, alone: RunDirectory
) -> None:
    trainer = machines.trainer(config(tmp_path), tmp_path / "run", verifier)
    assert len(set(pids(trainer))) == 2
    trainer.run()
    trainer.close()
    assert_same(RunDirectory(tmp_path / "run"), alone)


def test_a_run_without_room_is_refused_at_once(tmp_path: Path, machines: Machines) -> None:
    with pytest.raises(ClusterError, match="room for 0 replicas, not for 2, each with 4 cores and"):
        machines.policy(config(tmp_path, **{"model.threads": 4}))


def test_replicas_share_the_memory_of_their_machine(tmp_path: Path, machines: Machines) -> None:
    policy = machines.policy(config(tmp_path))
    actors = list(policy.replicas.actors.values())
    # Both machines of these tests are this one.
    assert sharing(actors, Needs(), machines.lines.append) == [2, 2]
    policy.close()


def test_a_machine_that_is_too_small_to_join_is_left_out(tmp_path: Path, machines: Machines) -> None:
    policy = machines.policy(config(tmp_path))
    policy.replicas.actors[1].kill()
    policy.replicas.mend()
    settings = policy.replicas._settings  # pyright: ignore[reportPrivateUsage]
    larger = replace(settings, capacity=settings.capacity * 10**9)
    policy.replicas._settings = larger  # pyright: ignore[reportPrivateUsage]
    machines.lines.clear()
    deadline = time.monotonic() + 120
    while not machines.lines:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        policy.replicas.welcome([])
    (line,) = machines.lines
    assert "is left out: machine " in line
    assert "needs at least" in line
    assert len(policy.replicas.actors) == 1
    policy.close()


def in_the_middle_of(trainer: Trainer, phase: str, harm: Callable[[], None]) -> None:
    """Does harm once, while the second step is in this phase."""
    policy = trainer.policy
    assert isinstance(policy, ClusterPolicy)
    name = {"sample": "stream", "learn": "call_split"}[phase]
    for actor in policy.replicas.actors.values():
        before = getattr(actor, name)

        def call(method: str, *arguments: Any, _before: Any = before) -> Any:
            result = _before(method, *arguments)
            # All replicas have their work before one is harmed.
            if trainer.played == 1 and not done:
                done.append(True)
                threading.Timer(0.05, harm).start()
            return result

        setattr(actor, name, call)
    done: list[bool] = []


@pytest.mark.parametrize("phase", ["sample", "learn"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_replica_changes_nothing(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier, alone: RunDirectory, phase: str, index: int
) -> None:
    trainer = machines.trainer(config(tmp_path), tmp_path / "run", verifier)
    victim = pids(trainer)[index]
    in_the_middle_of(trainer, phase, lambda: os.kill(victim, signal.SIGKILL))
    machines.lines.clear()
    trainer.run()
    assert any(f"replica {index} of the cluster is lost" in line for line in machines.lines)
    trainer.close()
    assert_same(RunDirectory(tmp_path / "run"), alone)


def test_a_lost_machine_changes_nothing_and_another_one_takes_its_place(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier, alone: RunDirectory
) -> None:
    trainer = machines.trainer(config(tmp_path, **{"run.steps": STEPS + 2}), tmp_path / "run", verifier)
    in_the_middle_of(trainer, "sample", machines.lose_second)
    machines.lines.clear()
    for step in range(1, STEPS + 1):
        record = trainer.step(step)
        trainer.record(record)
        trainer.played = step
    trainer.save()
    assert len(replicas(trainer).actors) == 1
    assert_same(RunDirectory(tmp_path / "run"), alone)
    machines.add_second()
    deadline = time.monotonic() + 120
    while len(replicas(trainer).actors) < 2:
        assert time.monotonic() < deadline, machines.lines
        time.sleep(0.2)
        replicas(trainer).welcome(list(trainer.population.members))
    trainer.record(trainer.step(STEPS + 1))
    owners = set(replicas(trainer).owners.values())
    assert owners == {0, 1}
    trainer.close()


@pytest.mark.parametrize("number", [1, 2])
def test_an_update_whose_machine_is_lost_before_it_was_handed_over_is_made_once(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier, alone: RunDirectory, number: int
) -> None:
    """Either the owner is lost with what it has learned, or its heir is: both are on the second machine by turns."""
    trainer = machines.trainer(config(tmp_path), tmp_path / "run", verifier)
    calls: list[int] = []
    for actor in replicas(trainer).actors.values():
        before = actor.call

        def call(method: str, *arguments: Any, _before: Any = before, **named: Any) -> Any:
            if method == "keep" and trainer.played == 1:
                calls.append(1)
                if len(calls) == number:
                    machines.lose_second()
            return _before(method, *arguments, **named)

        actor.call = call
    trainer.run()
    trainer.close()
    machines.add_second()
    assert_same(RunDirectory(tmp_path / "run"), alone)


def test_a_run_that_lost_everything_resumes_in_one_process(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier, alone: RunDirectory
) -> None:
    trainer = machines.trainer(config(tmp_path), tmp_path / "run", verifier)
    victims = pids(trainer)
    in_the_middle_of(trainer, "learn", lambda: [os.kill(victim, signal.SIGKILL) for victim in victims] and None)
    with pytest.raises(ClusterError, match="resume the run from its last checkpoint"):
        trainer.run()
    trainer.close()
    rest = toy.trainer(config(tmp_path), tmp_path / "run", verifier, begin=False)
    rest.restore(checkpoint.load(rest.directory.checkpoints, rest.directory.saved()[-1]))
    rest.run()
    rest.close()
    assert_same(RunDirectory(tmp_path / "run"), alone)


AHEAD: dict[str, object] = {"evolution.enabled": False, "learning.max_staleness": 1, "learning.lr": 1e-3}


def test_a_step_that_is_sampled_ahead_is_that_of_one_process_whatever_is_lost_meanwhile(
    tmp_path: Path, machines: Machines, verifier: LocalVerifier
) -> None:
    alone = toy.played(tmp_path / "alone", verifier, **{**BIRTHS, **AHEAD})
    trainer = machines.trainer(config(tmp_path, **AHEAD), tmp_path / "whole", verifier)
    trainer.run()
    trainer.close()
    assert_same(RunDirectory(tmp_path / "whole"), alone)
    # The second step's update has begun in both replicas, and the third step is being sampled, when one is lost.
    trainer = machines.trainer(config(tmp_path, **AHEAD), tmp_path / "harmed", verifier)
    victim = pids(trainer)[1]
    policy = trainer.policy
    assert isinstance(policy, ClusterPolicy)
    before = policy.begin_update

    def begin_update(samples: Sequence[Sample]) -> Callable[[], list[MemberUpdate]]:
        if trainer.played == 1:
            in_the_middle_of(trainer, "sample", lambda: os.kill(victim, signal.SIGKILL))
        return before(samples)

    policy.begin_update = begin_update
    machines.lines.clear()
    trainer.run()
    assert any("replica 1 of the cluster is lost" in line for line in machines.lines)
    trainer.close()
    assert_same(RunDirectory(tmp_path / "harmed"), alone)
