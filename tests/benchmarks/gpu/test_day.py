"""The GPU day at toy sizes: every part runs, on a CPU that takes a GPU's ways."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        ("env", ["product in bf16"]),
        ("correct", ["attention of one call against plain products, dk", "decode steps against one pass"]),
        ("decode", ["8 rows of 12 tokens: ms a step", "waits", "peak GiB: not measured   [planned"]),
        pytest.param("train", ["attempts", "proposals", "model-FLOP use"], marks=pytest.mark.slow),
        ("step", ["tokens a second", "update: seconds", "logprob_gap"]),
    ],
)
def test_every_part_of_the_day_runs_at_toy_sizes(part: str, lines: list[str]) -> None:
    done = CliRunner().invoke(app, ["gpu", part, "--tiny"], catch_exceptions=False)
    assert done.exit_code == 0
    for line in lines:
        assert line in done.stdout


def test_an_unknown_part_is_named() -> None:
    done = CliRunner().invoke(app, ["gpu", "fly"])
    assert done.exit_code == 2
