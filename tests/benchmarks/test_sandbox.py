"""`python -m benchmarks sandbox`: the contenders do the work, and the report has every key."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import sandbox as bench
from benchmarks import sandbox_peers as peers
from benchmarks import sandbox_scripts as scripts
from benchmarks.report import Report, finish
from redqueen.records import Draft

pytestmark = pytest.mark.integration

ADD = "def f(x, y=1):\n    print('noise')\n    return x + y"
COMMAND = [sys.executable, "-m", "benchmarks", "sandbox", "--limit", "0.1", "--jobs", "2", "--rounds", "2"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*COMMAND, "--programs", "8", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_report_compares_three_ways_to_do_three_things(report: dict[str, Any]) -> None:
    rows = {(row["case"], row["how"]): row for row in report["results"]}
    assert set(rows) == {
        *((case, how) for case in ("validate", "grade") for how in (bench.OURS, bench.FRESH[case], bench.POOL)),
        *(("script", how) for how in (bench.OURS, bench.SERVICE, bench.FRESH["script"])),
    }
    for row in rows.values():
        assert len(row["per_second_rounds"]) == 2
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["late_64_s"] > 0.1  # 8 programs of at least 0.05 s, two at once
    ratios = {ratio["what"]: ratio["ratio"] for ratio in report["ratios"]}
    # Not how large: that is the machine's.
    assert ratios[f"grade: programs a second / {bench.FRESH['grade']}"] > 0
    assert len(ratios) == 6
    assert rows["grade", bench.FRESH["grade"]]["ratio"] == 1
    settings = report["settings"]
    assert (settings["workers"], settings["cpu_limit_s"], settings["programs_a_round"]) == (2, 0.1, 8)
    assert settings["isolation"]
    assert min(settings["memory_mib_ours"], settings["memory_mib_fresh"]) > 0


@pytest.mark.slow
def test_the_table_is_for_people(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    finish(Report(**report), bench.COLUMNS, as_json=False, notes=bench.NOTES)
    shown = capsys.readouterr().out
    assert "programs/s" in shown
    lines = shown.splitlines()
    assert sum(line.rstrip().endswith(bench.OURS) or f" {bench.OURS} " in line for line in lines) == 3
    assert "(aim: >= 3.5)" in shown


@pytest.mark.slow
def test_in_a_round_all_contenders_have_the_same_programs() -> None:
    seen: list[list[str]] = []
    ways = [bench.Way("grade", name, lambda draft, name=name: note(name, draft)) for name in ("a", "b")]

    def note(name: str, draft: Any) -> Any:
        seen.append([name, draft.program])
        done = bench.Future()
        done.set_result(None)
        return done

    contenders = bench._measure(ways, programs=8, rounds=2, workers=1)
    assert [[turn.tokens for turn in contender.turns] for contender in contenders.values()] == [[8, 8]] * 2
    by_name = {name: [program for who, program in seen if who == name] for name in ("a", "b")}
    assert by_name["a"] == by_name["b"]
    assert all(len(way.waits_ms) == 16 for way in ways)


@pytest.mark.parametrize("way", [peers.pooled, peers.fresh_twice])
def test_the_peers_do_what_they_are_measured_for(way: object) -> None:
    assert callable(way)
    assert str(way(ADD, ("1", "2, 2"), 20.0)).strip().endswith("[2, 4]")
    assert way("def f(:", ("1",), 20.0) == "error"
    assert way("def f(x):\n    while True:\n        pass", ("1",), 0.1) == "timeout"


@pytest.mark.slow
def test_a_script_prints_what_the_function_gives_in_every_way() -> None:
    source = scripts.script(Draft(ADD, ("1, 2",)))
    assert scripts.fresh(source, 20.0) == "noise\n3\n"
    assert scripts.fresh("1 / 0", 20.0) == "error"
    with scripts.service(1) as (host, port):
        assert scripts.ask(host, port, source, 20.0)["run_result"]["stdout"] == "noise\n3\n"
