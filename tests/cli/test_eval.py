"""`redqueen eval`: runs, PEFT folders and the bare base in one table."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from redqueen import Run
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import EvaluationRow
from redqueen.store.directory import RunDirectory
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen
from tests.evals import rows
from tests.test_own_tasks import seed_file

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_run_its_member_and_its_base_are_scored_together(finished: Path, tmp_path: Path) -> None:
    newest = RunDirectory(finished).saved()[-1]
    (member,) = (finished / "checkpoints" / f"step-{newest:06d}" / "members").glob("S0")
    rows.write(tmp_path / "cruxeval.jsonl", rows.CRUXEVAL)
    options = ("--benchmarks", "reserved,cruxeval-o", "--data", str(tmp_path), "--limit", "3", "--max-tokens", "20")
    targets = (str(finished), str(member), "base")
    done = redqueen("eval", *targets, *options, "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "out" / "results.json").read_text())
    assert (result["template"], result["temperature"], result["samples"]) == ("completion", 0.0, 1)
    assert result["benchmarks"]["cruxeval-o"]["available"] == 3
    assert [score["member"] for score in result["scores"]] == ["S0", "S1", "", ""]
    # One adapter has one score, whichever way it came.
    assert result["scores"][0]["benchmarks"] == result["scores"][2]["benchmarks"]
    assert list(result["runs"]) == [str(finished)]
    assert result["runs"][str(finished)]["means"]["reserved"]["n"] == 2
    assert [overlap["programs"] for overlap in result["overlaps"]] == [3]
    # The run's report and live page find the table in its folder.
    table = json.loads(RunDirectory(finished).evaluation.read_text())
    assert [column["kind"] for column in table["columns"]] == ["base", "adapter", "mean", "best", "worst"]
    # The second time nothing is sampled, and the page is the same.
    page = (tmp_path / "out" / "results.md").read_text()
    assert "````text" in page
    again = redqueen("eval", *targets, *options, "--out", str(tmp_path / "out"))
    assert "reserved" not in again.stderr
    assert (tmp_path / "out" / "results.md").read_text() == page
    assert "programs of cruxeval-o are alike" in again.stdout


def test_the_table_says_how_it_was_measured(finished: Path) -> None:
    done = redqueen("eval", str(finished), "--members", "all", "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert "mean of 4" in done.stdout
    for member in ("T0", "T1", "S0", "S1"):
        assert f"{finished} {member} " in done.stdout
    assert "reserved: 3 of 210 problems" in done.stdout


@pytest.mark.slow
def test_what_a_run_has_held_out_of_your_tasks_is_asked_as_in_training(tmp_path: Path, model: str) -> None:
    file = seed_file(tmp_path)
    run = tmp_path / "run"
    quick = [word for word in SMALL if not word.startswith("game.proposals")]
    options = ("--steps", "1", "--model", model, "game.proposals=4", "evals.limit=3", *quick)
    done = redqueen("grow", str(file), "--run", str(run), *options)
    assert done.returncode == 0, done.stderr
    assert "of YOUR 3 held-out tasks" in done.stdout
    with ArchiveReader(RunDirectory(run).archive) as archive:
        asked = {row.problem for row in archive.every(EvaluationRow, 1) if row.benchmark == "own"}
    out = tmp_path / "out"
    done = redqueen("eval", str(run), "base", "--limit", "3", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "YOUR held-out tasks: 3 of 20 problems" in done.stdout
    assert "reserved: 3 of 210 problems" in done.stdout
    assert {"reserved code_o", "own code_o"} <= set(re.split(r"\s{2,}", done.stdout.replace("\n", "  ")))
    with closing(sqlite3.connect(out / "samples.sqlite")) as samples:
        answered = {row[0] for row in samples.execute("SELECT problem FROM samples WHERE benchmark = 'own'")}
    assert answered == asked
    scores = Run(run).evaluate("own", limit=2)
    assert [list(score["benchmarks"]) for score in scores] == [["own"]]
    # A run that held nothing out has trained on what the other is asked.
    other = tmp_path / "other"
    done = redqueen("grow", str(file), "--run", str(other), *options, "evals.own=0")
    assert done.returncode == 0, done.stderr
    done = redqueen("eval", str(run), str(other), "--benchmarks", "own")
    assert done.returncode == 2
    assert f"{other} has held out none of your tasks (evals.own, evals.every), which 'own' would ask" in done.stderr
    done = redqueen("eval", str(other), "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert "only the reserved programs are asked: " in done.stderr
    assert "YOUR" not in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nothing",), "nothing is neither a run nor a PEFT folder"),
        (("base", "--benchmarks", "gsm"), "there is no benchmark 'gsm': choose code, maths, all,"),
        (("RUN", "--benchmarks", "own"), "no target is a run of tasks of yours (game.seeds, game.tasks)"),
        (("base", "--benchmarks", "gsm8k", "--data", "nowhere"), "nowhere has no gsm8k.jsonl: put it there"),
        (("base", "--samples", "2"), "samples=2: greedy answers are all the same; give a temperature too"),
        (("RUN", "--model", "x"), "a run is evaluated on its own base: leave --model out"),
        (("RUN", "warm-start"), "no warm start ships for this base and these prompts"),
    ],
)
def test_impossible_targets_are_one_line(finished: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("eval", *(str(finished) if arg == "RUN" else arg for arg in args))
    assert done.returncode == 2
    assert message in done.stderr
