"""The hall of fame in a run: champions are met, not trained, keep their weights and ratings, and survive a resume."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import torch

from redqueen.engine.adapters import Factors
from redqueen.extras.studies.ancestry import student_epochs
from redqueen.method.verifier import LocalVerifier
from redqueen.store import checkpoint
from tests import toy

pytestmark = pytest.mark.integration

HALL = {
    "run.steps": 8,
    "run.checkpoint_every": 1,
    "run.keep_last": 9,
    "evolution.enabled": True,
    "evolution.every": 2,
    "evolution.burn_in": 1,
    "league.hall_of_fame": 2,
    "league.hall_matches": 0.7,
    "population.teachers": 3,
    "population.students": 3,
    "game.proposals": 4,
}


def lines(trainer) -> list[dict]:
    trainer.run()
    trainer.close()
    return [toy.without(line, "seconds", "throughput", "time") for line in trainer.directory.metrics()]


def players(line: dict) -> list[str]:
    """Both sides of every match of a step."""
    names: list[str] = []
    for match in line["matches"]:
        names += [match["teacher"], match["student"]]
    return names


def equal(one: Factors, other: Factors) -> bool:
    return torch.equal(one.a, other.a) and torch.equal(one.b, other.b)


def test_champions_are_met_frozen_and_survive_a_resume(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **HALL)
    whole = lines(toy.trainer(config, tmp_path / "whole", verifier))
    assert [line["hall"] for line in whole][1::2][-1], "there are champions"
    champions_met = 0
    for line in whole:
        assert not any("@" in name for name in line["loss"]), "a champion is never trained"
        living = [name for name in players(line) if "@" not in name]
        assert len(living) == len(set(living)) == 6, "and the living play as often as without them"
        champions_met += len(players(line)) - len(living)
    assert champions_met

    folder = tmp_path / "whole" / "checkpoints"
    first: dict = {}
    for step in range(1, 9):
        saved = checkpoint.load(folder, step)
        assert saved.adapters.keys() == saved.population.members.keys() | saved.population.hall_of_fame.keys()
        for name, champion in saved.population.hall_of_fame.items():
            known, weights = first.setdefault(name, (champion, saved.adapters[name]))
            assert champion == known
            assert all(equal(factors, weights[site]) for site, factors in saved.adapters[name].items())
            if champion.step == step and champion.member in saved.population.members:
                own = saved.adapters[champion.member]
                assert all(torch.equal(f.b, own[s].b) for s, f in saved.adapters[name].items())
    assert len(first) >= 6

    broken = toy.trainer(config.override(["run.steps=5"]), tmp_path / "broken", verifier)
    lines(broken)
    resumed = toy.trainer(config, tmp_path / "broken", verifier, begin=False)
    resumed.restore(checkpoint.load(resumed.directory.checkpoints, 5))
    assert lines(resumed) == whole

    with sqlite3.connect(tmp_path / "whole" / "run.sqlite") as db:
        assert {row[0] for row in db.execute("SELECT name FROM champions")} == set(first)
        authors = {row[0] for row in db.execute("SELECT DISTINCT author FROM tasks")}
        assert any("@" in author for author in authors)


@pytest.mark.slow
def test_champions_stand_in_for_checkpoints_that_are_gone(tmp_path: Path, verifier: LocalVerifier) -> None:
    config = toy.config(tmp_path, **{**HALL, "run.keep_last": 1, "league.hall_of_fame": 3})
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    lines(trainer)
    past = student_epochs(trainer.directory, config.evolution_settings, 10, 1)
    champions = {c.step: c for c in trainer.population.hall_of_fame.values() if c.role == "student"}
    assert [epoch.step for epoch in past] == sorted({8, *champions})
    assert len(past) > 1, "only one checkpoint is left"
    newest = checkpoint.load(trainer.directory.checkpoints, 8)
    for epoch in past[:-1]:
        champion = champions[epoch.step]
        (own,) = epoch.adapters.items()
        assert own[0] == champion.member
        assert all(torch.equal(f.a, newest.adapters[champion.name][site].a) for site, f in own[1].items())
