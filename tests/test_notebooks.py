"""The notebooks of docs/notebooks run from their first to their last cell, in an empty folder, on a tiny model."""

from __future__ import annotations

import ast
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import redqueen
from tests.cli.conftest import SMALL

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = ("first_run", "own_reward", "own_model", "jail_as_judge", "look_into_a_run")


def test_there_are_no_others() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_marked_and_begin_with_words(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert text.startswith("# %% [markdown]\n# # ")
    assert text.count("# %%\n") >= 3
    ast.parse(text)


@pytest.fixture
def on_a_tiny_model(monkeypatch: pytest.MonkeyPatch, tiny_folder: Callable[[str], Path]) -> None:
    """Has runs train for one step, and a tiny model unless they have one: what the notebooks do else is theirs."""
    train = redqueen.Run.train.__func__  # pyright: ignore[reportFunctionMemberAccess]
    small: dict[str, Any] = {"model.name": str(tiny_folder("llama"))}
    small |= {key: value for key, _, value in (each.partition("=") for each in SMALL)}

    def trained(cls: type[redqueen.Run], recipe: str, settings: dict[str, Any], **rest: Any) -> redqueen.Run:
        return train(cls, recipe, {**small, **settings, "run.steps": "1"}, **rest)

    monkeypatch.setattr(redqueen.Run, "train", classmethod(trained))


@pytest.mark.integration
@pytest.mark.usefixtures("on_a_tiny_model")
@pytest.mark.parametrize(
    "name", ["first_run", "own_reward", pytest.param("own_model", marks=pytest.mark.slow), "jail_as_judge"]
)
def test_a_notebook_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said
    if name == "jail_as_judge":
        assert said.splitlines()[0] == "ok"
        assert "never ends: timeout" in said
        assert said.splitlines()[-1] == "[1.0, 0.0, 0.0]"
    if name == "own_model":
        assert "valid_rate" in said
        assert said.splitlines()[-1].startswith("PeftModelForCausalLM 'def f(x):")
        assert redqueen.Run("runs/own-model").config.model.name == "tiny-model"


@pytest.mark.integration
def test_the_notebook_that_looks_into_a_run_looks_into_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.archived import archived

    archived(tmp_path / "runs" / "first")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / "look_into_a_run.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "solve_rate" not in said
    assert "correct" in said
    assert "def f(" in said
    shutil.rmtree(tmp_path / "runs")
