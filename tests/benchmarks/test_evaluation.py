"""The benchmark of the evaluation compares the same answers, given in two ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from redqueen.method.verifier import LocalVerifier
from tests import toy


@pytest.mark.slow
def test_members_answer_alike_in_mixed_batches_and_alone(tmp_path: Path, verifier: LocalVerifier) -> None:
    run = toy.played(tmp_path, verifier).path
    options = ["--rounds", "1", "--limit", "2", "--rows", "4", "--json"]
    done = CliRunner().invoke(app, ["evaluation", str(run), "base", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    mixed, apart = report["results"]
    # In fp32 a text does not depend on what is sampled beside it.
    assert mixed["tokens"] == apart["tokens"] > 0
    assert mixed["right"] == apart["right"]
    alike = [entry for entry in report["ratios"] if "the same both ways" in entry["what"]]
    assert [(entry["what"], entry["ratio"]) for entry in alike] == [
        ("texts that are the same both ways, of 6", 1.0),
        ("grades that are the same both ways, of 6", 1.0),
    ]
