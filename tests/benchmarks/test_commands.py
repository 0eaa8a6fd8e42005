"""Each command of `python -m benchmarks` at tiny size: the JSON report has every key, and the table is readable."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks import logprobs, report
from benchmarks.cli import app
from benchmarks.timing import BenchmarkError
from redqueen.base.optional import how_to_install

TINY = {
    "train": ["--tokens", "32", "--members", "2", "--attempts", "2"],
    "sampler": ["--rows", "1,4", "--members", "2", "--prompt", "8", "--new", "6"],
    "step": ["--completions", "8", "--attempts", "4", "--members", "2", "--prompt", "8", "--new", "6"],
    "workers": [
        "--completions",
        "8",
        "--attempts",
        "4",
        "--members",
        "2",
        "--rows",
        "4",
        "--prompt",
        "8",
        "--new",
        "6",
    ],
    "hosted": ["--completions", "8", "--attempts", "4", "--members", "2", "--prompt", "8", "--new", "6"],
    "logprobs": ["--rows", "64"],
    "memory": ["--tokens", "64", "--members", "2"],
}


@pytest.fixture
def run(tiny_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))

    def command(name: str, *options: str, without: tuple[str, ...] = ()) -> str:
        for module in without:
            monkeypatch.setitem(sys.modules, module, None)
        arguments = [name, "--model", str(tiny_folder("llama")), "--rounds", "1", *TINY[name], *options]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return command


def whole(text: str) -> dict[str, Any]:
    found = json.loads(text)
    assert set(found) == {"bench", "settings", "ratios", "results", "missing", "surroundings"}
    assert found["surroundings"]["libraries"]["torch"]
    for row in found["results"]:
        assert next(iter(row)) == "ratio"
        assert row["ratio"] > 0
    for ratio in found["ratios"]:
        assert ratio["ratio"] == ratio["ratio"] != 0
    return found


@pytest.mark.slow
def test_train_compares_on_the_same_tokens(run: Any) -> None:
    found = whole(run("train", "--json", without=("populora",)))
    cases = dict.fromkeys(row["case"] for row in found["results"])
    assert list(cases) == [
        "32 tokens, equal groups",
        "32 tokens, one member has half",
        "2 attempts per prompt, 128 + 32 tokens, 2 prompts",
    ]
    for row in found["results"]:
        assert len(row["cpu_ms_rounds"]) == len(row["wall_ms_rounds"]) == 1
        assert row["optimizer_cpu_ms"] < row["cpu_ms"]
    first = [row for row in found["results"] if row["case"] == "32 tokens, equal groups"]
    assert [row["how"].partition(" (")[0] for row in first] == [
        "Red Queen, jointly",
        "PEFT, one adapter",
        "PEFT, one adapter",
        "no adapter",
        "PEFT, set_adapter in turn",
        "PEFT, mixed batch",
    ]
    assert 1.0 in {row["ratio"] for row in first[1:3]}
    assert found["missing"] == [{"peer": "populora", "why": f"not installed: {how_to_install('bench')}"}]
    assert len(found["ratios"]) == 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="worker processes share memory as Linux does")
def test_workers_are_compared_on_the_same_requests(run: Any) -> None:
    found = whole(run("workers", "--json"))
    assert [(row["how"], row["tokens"]) for row in found["results"]] == [("2 workers", 48), ("1 worker", 48)] * 2
    assert [ratio["target"] for ratio in found["ratios"]] == [">= 1.8", ">= 1.6"]
    for many, one in zip(found["results"][::2], found["results"][1::2], strict=True):
        # with a single round the ratio is that of its two times
        assert many["ratio"] == pytest.approx(one["wall_ms"] / many["wall_ms"], rel=0.01)
        assert one["ratio"] == 1


@pytest.mark.slow
def test_the_sampler_counts_what_was_sampled(run: Any) -> None:
    found = whole(run("sampler", "--json", without=("populora", "llama_cpp")))
    assert {row["case"] for row in found["results"]} == {"1 rows, 8 + 6 tokens", "4 rows, 8 + 6 tokens"}
    for row in found["results"]:
        assert row["tokens"] == 6 * int(row["case"].split()[0])
        assert row["per_cpu_s"] > 0
        assert row["decoding_per_cpu_s"] > 0
    one = [row["how"] for row in found["results"] if row["case"].startswith("1 ")]
    assert one == ["Red Queen, 1 member", "transformers generate, no adapter", "PEFT, mixed batch"]
    assert [ratio["what"].partition(":")[0] for ratio in found["ratios"]] == [
        "4 rows, 8 + 6 tokens, prompts included",
        "4 rows, 8 + 6 tokens, prompts included",
        "4 rows, 8 + 6 tokens, decoding alone",
        "4 rows, 8 + 6 tokens, decoding alone",
    ]
    assert {entry["peer"] for entry in found["missing"]} == {"vLLM", "populora", "llama.cpp"}


@pytest.mark.slow
def test_installed_peers_take_part_in_sampling(run: Any) -> None:
    pytest.importorskip("populora")
    pytest.importorskip("llama_cpp")
    found = whole(run("sampler", "--json"))
    assert [entry["peer"] for entry in found["missing"]] == ["vLLM"]
    assert [row["how"] for row in found["results"] if row["case"].startswith("4 ")] == [
        "Red Queen, 2 members",
        "Red Queen, 1 member",
        "transformers generate, no adapter",
        "PEFT, mixed batch",
        "populora's hooks",
        "llama.cpp, no adapter",
    ]


@pytest.mark.slow
def test_the_price_of_hosting(run: Any) -> None:
    found = whole(run("hosted", "--json"))
    assert {row["how"] for row in found["results"]} == {"our own forward pass", "transformers' modules, hosted"}
    assert len(found["ratios"]) == 3


@pytest.mark.slow
def test_a_step_without_its_peer_says_so(run: Any) -> None:
    text = run("step", without=("trl",))
    assert "trl: not installed: pip install '.[bench]' in a checkout of Red Queen" in text
    assert "Red Queen, 2 members" in text


@pytest.mark.slow
def test_a_step_compared_with_trl(run: Any) -> None:
    pytest.importorskip("trl")
    found = whole(run("step", "--json"))
    assert [row["how"].partition(" (")[0] for row in found["results"]] == [
        "Red Queen, 2 members",
        "Red Queen, 1 member",
        "TRL GRPOTrainer, one PEFT adapter",
    ]
    assert {row["tokens"] for row in found["results"]} == {48}
    assert found["results"][0]["sampling_cpu_ms"] < found["results"][0]["cpu_ms"]
    assert found["results"][2]["sampling_cpu_ms"] is None


@pytest.mark.slow
def test_logprobs_agree_and_their_memory_is_seen(run: Any) -> None:
    found = whole(run("logprobs", "--json"))
    ours, full, *others = found["results"]
    assert ours["error"] < 1e-3
    assert full["error"] == 0
    assert {row["error"] < 0.1 for row in others} <= {True}
    assert all(row["peak_bytes"] >= 0 for row in found["results"])


@pytest.mark.slow
def test_times_are_reported_where_memory_cannot_be(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise BenchmarkError("no /proc here")

    monkeypatch.setattr(logprobs, "in_fresh_process", refuse)
    found = whole(run("logprobs", "--json"))
    assert all("peak_mb" not in row and row["cpu_ms"] > 0 for row in found["results"])
    assert {entry["why"] for entry in found["missing"]} == {"no /proc here"}


@pytest.mark.slow
def test_memory_is_of_fresh_processes(run: Any) -> None:
    found = whole(run("memory", "--json"))
    assert [row["how"] for row in found["results"]] == [
        "Red Queen, 2 members",
        "Red Queen, 1 member",
        "1 worker",
        "2 workers",
    ]
    for row in found["results"]:
        assert min(row["peak_bytes_rounds"]) > 50e6
        assert row["error"] == pytest.approx(row["estimate_mb"] / row["peak_mb"] - 1, abs=0.01)
    assert len(found["ratios"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--tokens", "many"], "not a list like"),
        (["sampler", "--rows", "0"], "not a list like"),
        (["step", "--completions", "33"], "multiple of --attempts"),
        (["memory", "--members", "1"], "--members"),
    ],
)
def test_bad_options_are_refused_before_anything_is_loaded(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_the_table_says_the_ratio_first(capsys: pytest.CaptureFixture[str]) -> None:
    found = report.Report("train", {"threads": 1})
    found.results = [{"ratio": 1.5, "case": "one", "how": "us"}, {"ratio": None, "case": "two", "how": "them"}]
    found.ratio("us / them", 1.5, "<= 2")
    found.unavailable("trl", "not installed: pip install '.[bench]' in a checkout of Red Queen")
    report.finish(found, [("ratio", "ratio"), ("how", "")], as_json=False)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == ["one", "ratio", "1.50   us"]
    assert "-      them" in lines
    assert "1.50  us / them (aim: <= 2)" in lines
    assert "trl: not installed: pip install '.[bench]' in a checkout of Red Queen" in lines
