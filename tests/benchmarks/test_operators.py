"""`python -m benchmarks operators`: every operator is measured, and compared with populora if that is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from benchmarks import operators as bench
from benchmarks import peers
from benchmarks.peers import Missing
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS

COMMAND = [sys.executable, "-m", "benchmarks", "operators", "--layers", "1", "--rank", "2", "--rounds", "2"]
installed = pytest.mark.skipif(importlib.util.find_spec("populora") is None, reason="populora is not installed")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([*COMMAND, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_every_operator_has_a_row(report: dict[str, Any]) -> None:
    assert [row["operator"] for row in report["results"]] == [*MUTATIONS, *CROSSOVERS, *CONTROLS]
    for row in report["results"]:
        assert row["seconds"] > 0
        assert len(row["seconds_rounds"]) == 2
    assert report["settings"]["parameters"] == 80_740_352 // 28 // 16  # of one layer, at rank 2 instead of 32


@pytest.mark.slow
@installed
def test_every_operator_that_both_have_has_a_ratio(report: dict[str, Any]) -> None:
    rows = {row["operator"]: row for row in report["results"]}
    assert {name for name, row in rows.items() if row["ratio"]} == set(bench.PEERS) == {*rows} - {"fresh"}
    assert [entry["what"] for entry in report["ratios"]] == [f"{n} against {p.name}" for n, p in bench.PEERS.items()]
    for name, peer in bench.PEERS.items():
        ratios = [b / a for a, b in zip(rows[name]["seconds_rounds"], rows[name]["peer_seconds_rounds"], strict=True)]
        assert rows[name]["ratio"] == pytest.approx(sum(ratios) / 2, rel=0.05)
        assert rows[name]["child"] == ("same" if peer.same else "A, B apart")


@pytest.mark.slow
def test_a_missing_peer_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    assert bench.run_bench_operators(1, 2, 1, 1, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "populora: not installed: pip install '.[bench]' in a checkout of Red Queen" in shown
    assert all(name in shown for name in MUTATIONS | CROSSOVERS | CONTROLS)
    with pytest.raises(Missing):
        bench.Population([bench.parent(1, 2, 1)])


@pytest.mark.slow
def test_the_callers_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    bench.run_bench_operators(1, 1, before + 1, 1, as_json=True)
    assert torch.get_num_threads() == before


@installed
def test_both_sides_hold_the_same_parents_and_same_means_same() -> None:
    parents = [bench.parent(1, 4, seed) for seed in (1, 2)]
    theirs = bench.Population(parents)

    def child(name: str) -> list[torch.Tensor]:
        theirs.turn(name)()
        population = theirs.population
        pairs = zip(population.weight_down.values(), population.weight_up.values(), strict=True)
        return [(a[2].double() @ b[2].double().T)[:64, :64] for a, b in pairs]

    def ours(name: str) -> list[torch.Tensor]:
        operator = (MUTATIONS | CROSSOVERS | CONTROLS)[name]
        two = name in CROSSOVERS or name == "linear_mean"
        made = operator(parents if two else parents[:1], torch.Generator().manual_seed(0))
        return [(f.a.double() @ f.b.double())[:64, :64] for f in made.values()]

    sources = [[(f.a.double() @ f.b.double())[:64, :64] for f in p.values()] for p in parents]
    torch.testing.assert_close(child("clone"), ours("copy_parent"), check_dtype=False)
    for slot, *both in zip(child("layer_wise"), *sources, strict=True):
        assert any(torch.allclose(slot, one) for one in both)
    # averaging A and B separately keeps half of each parent's product and adds cross terms
    for average, on_delta in zip(child("average"), ours("linear_mean"), strict=True):
        assert not torch.allclose(average, on_delta, rtol=0.1)
