"""A verifier on two machines judges as the local one does, also when a machine is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-ray")

from redqueen.config import SandboxConfig
from redqueen.extras.ray.ray_cluster import ClusterError
from redqueen.extras.ray.verifier import ClusterVerifier
from redqueen.method.judging import judge_proposals
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Proposal, Task, Verdict
from redqueen.run.recording.measures import ToMeasure, measure_task
from redqueen.tasks.python import ABDUCTION, seeds
from tests.extras.ray.machines import Machines
from tests.grading import grade

Judged = tuple[str, str, Task | None]


def proposals(count: int) -> list[Proposal]:
    drafts = seeds()[:count]
    return [Proposal(id=f"{i}", kind="code_f", author="T0", step=1, draft=draft) for i, draft in enumerate(drafts)]


def seen(judged: Sequence[tuple[Verdict, Task | None]]) -> list[Judged]:
    return [(verdict.status, verdict.output, task) for verdict, task in judged]


def test_machines_judge_as_the_local_verifier_does_and_one_may_be_lost(verifier: LocalVerifier) -> None:
    machines = Machines()
    try:
        with ClusterVerifier(machines.cluster, SandboxConfig(), 4, 0, (), machines.lines.append) as judges:
            assert judges.tier == verifier.tier
            asked = proposals(600)
            futures = [judges.judge_proposal(proposal) for proposal in asked]
            machines.lose_second()
            judged = [future.result() for future in futures]
            assert seen(judged) == seen(judge_proposals(verifier, asked))
            assert any("a machine that verifies is lost" in line for line in machines.lines)

            tasks = [ABDUCTION.of_program(task) for _, task in judged if task is not None][:40]
            attempts = [(task, task.pairs[0].input) for task in tasks] + [(task, "1, 2, 3, 4, 5") for task in tasks]
            given = [verdict.status for verdict in grade(judges, attempts)]
            assert given == [verdict.status for verdict in grade(verifier, attempts)]
            items = [ToMeasure(1, task, Verdict("valid"), None) for task in tasks]
            assert list(judges.spread(measure_task, items)) == list(map(measure_task, items))
            run = judges.run("def f(x):\n    return x + 1", ("1", "2"), 1.0).result()
            assert run == ("2", "3")

            for judge in judges._judges:
                judge.kill()
            with pytest.raises(ClusterError, match="every machine that verifies is lost"):
                judge_proposals(judges, asked[:5])
    finally:
        machines.close()
