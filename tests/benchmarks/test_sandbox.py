"""`python -m benchmarks sandbox`: the contenders really do the work, and the report is whole."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import sandbox as bench
from benchmarks import sandbox_peers as peers

pytestmark = pytest.mark.integration

ADD = "def f(x, y=1):\n    print('noise')\n    return x + y"
COMMAND = [sys.executable, "-m", "benchmarks", "sandbox", "--limit", "0.1", "--jobs", "2", "--rounds", "2"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*COMMAND, "--programs", "8", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_report_compares_three_ways_to_do_two_things(report: dict[str, Any]) -> None:
    rows = {(row["what"], row["how"]): row for row in report["results"]}
    assert set(rows) == {(what, how) for what in ("validate", "grade") for how in ("sandbox", "fresh", "pool")}
    for row in rows.values():
        assert len(row["per_second_rounds"]) == 2
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["late_64_s"] > 0.1  # 8 programs of at least 0.05 s, two at once
    assert report["times_fresh"]["grade"] > 1
    assert report["workers"] == 2


def test_the_table_is_for_people(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    bench._print(report)
    shown = capsys.readouterr().out
    assert "programs/s" in shown
    assert shown.count("Red Queen's sandbox") == 2
    assert "against a fresh interpreter" in shown


@pytest.mark.parametrize("way", [peers.pooled, peers.fresh_twice])
def test_the_peers_do_what_they_are_measured_for(way: object) -> None:
    assert callable(way)
    assert str(way(ADD, ("1", "2, 2"), 20.0)).strip().endswith("[2, 4]")
    assert way("def f(:", ("1",), 20.0) == "error"
    assert way("def f(x):\n    while True:\n        pass", ("1",), 0.1) == "timeout"
