"""Which base an adapter was made for: another one is a line, other spellings of one base are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redqueen.assets import WARM
from redqueen.config import BUNDLED
from redqueen.config.recipes import configure
from redqueen.engine.adapters import CONFIG, other_base
from redqueen.engine.model.source import CONVERSION
from redqueen.evals.targets import BASE, WARM_START, warnings_about
from redqueen.members.base_names import ORIGINAL
from redqueen.run.session import start_of_another_base


def made_for(folder: Path, base: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / CONFIG).write_text(json.dumps({"base_model_name_or_path": base}))
    return folder


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("qwen/qwen2.5-0.5b/", "Qwen/Qwen2.5-0.5B"),
        ("/data/models/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("Qwen/Qwen2.5-0.5B", "../Qwen2.5-0.5B"),
        ("/cache/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0123abcd", "Qwen/Qwen2.5-0.5B"),
        # What exports, checkpoints and PEFT itself write for the bundled model.
        (ORIGINAL, BUNDLED),
        (BUNDLED, BUNDLED),
        (BUNDLED, ORIGINAL),
        (f"/home/me/.cache/redqueen/{CONVERSION}", BUNDLED),
        # It is not said.
        (None, BUNDLED),
        ("", BUNDLED),
        (7, BUNDLED),
    ],
)
def test_another_spelling_of_the_base_is_no_other_base(tmp_path: Path, made: object, used: str) -> None:
    assert other_base(made_for(tmp_path / "a", made), used) == ""


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B"),
        ("Qwen/Qwen2.5-0.5B-Instruct", BUNDLED),
        ("HuggingFaceTB/SmolLM2-135M", BUNDLED),
        ("/cache/hub/models--Qwen--Qwen2.5-0.5B-Instruct/snapshots/0123abcd", "Qwen/Qwen2.5-0.5B"),
    ],
)
def test_another_base_is_one_line(tmp_path: Path, made: str, used: str) -> None:
    folder = made_for(tmp_path / "a", made)
    assert other_base(folder, used) == (
        f"warning: {folder} was made for the base {made}, by its {CONFIG}, and is used on {used}"
    )


def test_two_folders_are_one_base_if_they_are_one_folder(tmp_path: Path) -> None:
    (tmp_path / "one" / "base").mkdir(parents=True)
    (tmp_path / "two" / "base").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "one" / "base")
    folder = made_for(tmp_path / "a", str(tmp_path / "one" / "base"))
    assert other_base(folder, str(tmp_path / "link")) == ""
    assert other_base(folder, f"{tmp_path}/two/../one/base/") == ""
    assert other_base(folder, str(tmp_path / "two" / "base")) != ""


def test_a_folder_that_cannot_be_read_says_nothing_here(tmp_path: Path) -> None:
    assert other_base(tmp_path / "none", BUNDLED) == ""
    (tmp_path / CONFIG).write_text("[1]")
    assert other_base(tmp_path, BUNDLED) == ""


def test_eval_and_train_say_it_of_folders_alone(tmp_path: Path) -> None:
    folder = made_for(tmp_path / "a", "Qwen/Qwen2.5-0.5B")
    config = configure([])
    (line,) = warnings_about([BASE, WARM_START, str(WARM), str(folder)], config.model.name)
    base = config.model.name
    assert line == start_of_another_base(str(folder), base)
    assert start_of_another_base(config.population.init, base) == start_of_another_base(str(WARM), base) == ""
