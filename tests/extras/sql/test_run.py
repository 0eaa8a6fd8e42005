"""A run that plays two languages at once, from the league to the archive, the measures, `show` and the export."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.cli.show import run_show
from redqueen.config.recipes import recipe
from redqueen.evals.held_out import most_tasks, reserved_tasks
from redqueen.method.prompts import prompts
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Request, Sampler
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.dataset import TaskFilter, read_tasks, select
from redqueen.store.directory import RunDirectory
from redqueen.store.tasks import proposals
from tests import toy

ONE = "{'t': [('a', 'b'), (1, 'x'), (2, 'y')]}"
OTHER = "{'t': [('a', 'b'), (4, 'x')]}"
KINDS = ("code_o", "sql_o", "sql_i", "sql_f")


class Scripted:
    """A policy whose members write valid proposals and right or wrong answers, whatever tokens they sample."""

    def __init__(self, policy: Sampler) -> None:
        self.policy = policy

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        def written(index: int, completion: Completion) -> Completion:
            return replace(completion, text=text_for(requests[index].prompt.text), finish_reason="stop")

        def on_written(index: int, completion: Completion) -> None:
            if on_completion is not None:
                on_completion(index, written(index, completion))

        return [written(index, one) for index, one in enumerate(self.policy.sample(requests, on_written))]


def text_for(prompt: str) -> str:
    """Returns what a member writes after a prompt."""
    heading = prompt.rpartition("Puzzle: ")[2].splitlines()[0]
    if prompt.endswith(" ->"):
        return " [(2,)]"
    if prompt.endswith(" <-"):
        return f" {ONE}"
    if prompt.endswith("=="):
        return " 7"
    if heading == "write the query":
        return f"-- all of it\n{ONE}\n{OTHER}" if re.search("\nSELECT.*\n$", prompt) else "SELECT * FROM t"
    if "Puzzle" not in prompt:
        return "SELECT a FROM t WHERE a IS NOT NULL"
    return "def f(x):\n    return 7\nf(1)" if prompt.startswith("#") else f"SELECT max(a) FROM t\n{ONE}"


@pytest.mark.slow
@pytest.mark.integration
def test_a_run_plays_python_and_sql(
    tmp_path: Path, verifier: LocalVerifier, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"game.kinds": ",".join(KINDS), "game.seed_tasks": 0, "game.min_inputs": 2, "run.steps": 1}
    config = toy.config(tmp_path, **changes)
    trainer = toy.trainer(config, tmp_path / "run", verifier)
    trainer.self_play.prompts = prompts("completion", config.game)
    trainer.self_play.sampler = Scripted(trainer.policy)
    trainer.run()
    trainer.close()
    every = proposals(tmp_path / "run", None)
    assert {one.proposal.kind: one.proposal.status for one in every} == dict.fromkeys(KINDS, "valid")
    # From the identity, whose tables the script knows.
    rates = {one.task.kind: one.task.rho for one in every if one.task is not None}
    assert rates == {"code_o": 1.0, "sql_o": 1.0, "sql_i": 1.0, "sql_f": rates["sql_f"]}
    with ArchiveReader(RunDirectory(tmp_path / "run").archive) as archive:
        measured = {row[0] for row in archive.select("SELECT DISTINCT kind FROM tasks JOIN measures ON task = id")}
    assert measured == set(KINDS)
    assert run_show(tmp_path / "run", None, None, "sql_i", "newest", 1) == 0
    shown = capsys.readouterr().out
    assert f"    SELECT max(a) FROM t\n    -- t(a, b)\n    [(2,)] <- ?\n  T0's answer  {ONE}\n" in shown
    records = read_tasks(tmp_path / "run")
    assert len(select(records, TaskFilter(kind="sql_f")).records) == sum(one.kind == "sql_f" for one in records)
    assert {record.shown for record in records if record.kind == "sql_f"} == {2}


def test_the_recipe_and_its_held_out_tasks(verifier: LocalVerifier) -> None:
    config = recipe("sql")
    assert config.game.kinds == KINDS[1:]
    most = most_tasks(None, config.game.kinds)
    assert config.evals.limit <= most
    tasks = reserved_tasks("report", config.game.kinds, 9, 0, verifier)
    assert [task.kind for task in tasks] == [*KINDS[1:]] * 3
