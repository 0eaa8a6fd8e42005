"""The notebooks of docs/notebooks run from their first to their last cell, in an empty folder, on a tiny model.

What `make notebooks` wrote of them is checked as text: the libraries that write it are not needed here.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import redqueen
from tests.cli.conftest import SMALL
from tests.thinned import thinned

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


def test_each_is_written_with_its_outputs() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_written_notebook_has_the_cells_of_its_source(name: str) -> None:
    pieces: list[str] = []
    for cell in written(name)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            comment = "\n".join(f"# {line}".rstrip() for line in source.split("\n"))
            pieces.append(f"# %% [markdown]\n{comment}\n")
        else:
            pieces.append(f"# %%\n{source}\n")
    assert "\n".join(pieces) == (FOLDER / f"{name}.py").read_text(), "run `make notebooks`"


@pytest.mark.parametrize("name", NAMES)
def test_a_written_notebook_has_outputs_where_something_is_printed(name: str) -> None:
    cells = [cell for cell in written(name)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    prints = [cell for cell in cells if re.search(r"print\(|Run\.train\(", "".join(cell["source"]))]
    assert prints
    assert [cell["source"] for cell in prints if not cell["outputs"]] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_written_notebook_shows_neither_an_error_nor_the_machine(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < 200_000
    outputs = [output for cell in written(name)["cells"] for output in cell.get("outputs", [])]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    said = json.dumps(outputs, ensure_ascii=False)
    control = r"\\u00[01][0-9a-f]|\\[rb]"
    bars = "[█━▏]"
    addresses = "0x[0-9a-f]{6,}"
    folders = r"(?<![\w./])/(?:tmp|home|root|work|usr|opt|var)\b|ipykernel|site-packages"
    noise = "|".join((control, bars, addresses, folders))
    assert re.findall(noise, said) == []


def written(name: str) -> dict[str, Any]:
    """The notebook that `make notebooks` wrote."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


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
@pytest.mark.parametrize("name", thinned(["first_run", "own_reward", "own_model", "jail_as_judge"], 4))
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
