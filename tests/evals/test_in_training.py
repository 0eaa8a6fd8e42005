"""The evaluation while a run goes on: it is logged, and it changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from redqueen.errors import UserError
from redqueen.verifier import LocalVerifier
from tests import toy

pytestmark = pytest.mark.integration


def test_students_are_evaluated_every_few_steps_and_the_run_is_the_same(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {"run.steps": 2, "evolution.enabled": True, "evolution.every": 1}
    evaluated = toy.played(
        tmp_path / "a", verifier, **changes, **{"evals.every": 2, "evals.limit": 3, "evals.max_tokens": 2}
    )
    plain = toy.played(tmp_path / "b", verifier, **changes)
    first, second = evaluated.metrics()
    assert "evals" not in first
    students = [name for name, member in second["members"].items() if member["role"] == "student"]
    assert second.get("evals") == {"reserved": dict.fromkeys(students, 0.0)}
    assert "evaluate" in second["seconds"]
    others = ("time", "seconds", "throughput", "evals")
    assert [toy.without(line, *others) for line in evaluated.metrics()] == [
        toy.without(line, *others) for line in plain.metrics()
    ]


def test_an_unknown_benchmark_stops_the_run_before_it_begins(tmp_path: Path, verifier: LocalVerifier) -> None:
    with pytest.raises(UserError, match="there is no benchmark 'gsm'"):
        toy.played(tmp_path, verifier, **{"evals.every": 1, "evals.benchmarks": "gsm"})
