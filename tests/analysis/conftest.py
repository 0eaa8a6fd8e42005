"""Fixtures: a short real run of the toy game that keeps every checkpoint, and its parts loaded for studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redqueen.analysis.replay import Replay
from redqueen.engine.model.base import load
from redqueen.engine.policy import open_policy
from redqueen.method.self_play import SelfPlay
from redqueen.method.task_bank import Entry
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair, Task
from redqueen.store import checkpoint
from redqueen.store.directory import RunDirectory
from tests import toy

STEPS = 4


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> Path:
    folder = tmp_path_factory.mktemp("played")
    changes = {
        "model.workers": 1,
        "run.steps": STEPS,
        "run.keep_every": 1,
        "run.checkpoint_every": 1,
        "population.students": 3,
        "game.proposals": 6,
    }
    return toy.played(folder, verifier, **changes).path


@pytest.fixture
def toy_replay(played: Path, verifier: LocalVerifier) -> Iterator[Callable[..., Replay]]:
    """`toy_replay(slots)` returns the toy run's base and game, with a bank of easy tasks (the right answer is 1)."""
    replays: list[Replay] = []

    def make(slots: int, **changes: object) -> Replay:
        config = RunDirectory(played).config().override([f"{key}={value}" for key, value in changes.items()])
        policy = open_policy(load(config.model), config.engine_settings, slots)
        made = Replay(config, policy, SelfPlay(config.play_settings, policy, verifier))
        toy.install(made.self_play)
        made.self_play.task_bank.restore(
            [
                Entry(
                    Task(
                        id=f"t{i}",
                        kind="code_o",
                        author="T0",
                        step=0,
                        program=f"def f(x):\n    return 1 + 0 * {i}",
                        pairs=(Pair(str(i), "1"),),
                    ),
                    0.5,
                )
                for i in range(40)
            ]
        )
        replays.append(made)
        return made

    yield make
    for made in replays:
        made.policy.close()


@pytest.fixture
def saved(played: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(RunDirectory(played).checkpoints, STEPS)
