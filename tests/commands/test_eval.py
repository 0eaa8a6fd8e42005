"""`redqueen eval`: runs, PEFT folders and the bare base in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redqueen.runs.directory import RunDirectory
from tests.commands.running import redqueen

pytestmark = pytest.mark.integration


def test_a_run_its_member_and_its_base_are_scored_together(finished: Path) -> None:
    newest = RunDirectory(finished).saved()[-1]
    (member,) = (finished / "checkpoints" / f"step-{newest:06d}" / "members").glob("S0")
    done = redqueen("eval", str(finished), str(member), "base", "--limit", "3", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["programs"], result["tasks"], result["temperature"]) == ("reserved, report", 3, 0)
    assert [score["member"] for score in result["scores"]] == ["S0", "S1", "", ""]
    # One adapter has one score, whichever way it came.
    assert result["scores"][0]["solved"] == result["scores"][2]["solved"]
    assert list(result["means"]) == [str(finished)]
    assert result["means"][str(finished)]["n"] == 2


def test_the_table_says_how_it_was_measured(finished: Path) -> None:
    done = redqueen("eval", str(finished), "--members", "all", "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:5]] == ["T0", "T1", "S0", "S1"]
    assert "mean of 4" in done.stdout
    assert "Held out: 3 tasks on reserved programs" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nothing",), "nothing is neither a run nor a PEFT folder"),
        (("base", "--limit", "9999"), "--limit 9999: there are 210 tasks, choose at most that"),
        (("RUN", "--model", "x"), "a run is evaluated on its own base: leave --model out"),
        (("RUN", "warm-start"), "no warm start ships for this base and these prompts"),
    ],
)
def test_impossible_targets_are_one_line(finished: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("eval", *(str(finished) if arg == "RUN" else arg for arg in args))
    assert done.returncode == 2
    assert message in done.stderr
