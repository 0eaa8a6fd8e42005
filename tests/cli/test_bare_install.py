"""An install without the extra `train`: it judges and reads runs, and what needs more is one line."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from redqueen.base.optional import TRAINING

ROOT = Path(__file__).parents[2]
# What a bare install lacks is not found here either.
BARE = f"""
import sys
class Lacks:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {TRAINING!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacks())
"""


def bare(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BARE + code, *arguments], capture_output=True, text=True, check=False)


def test_the_extra_brings_what_the_message_names_it_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[<>=]", each)[0] for each in project["optional-dependencies"]["train"]]
    assert names == list(TRAINING)


@pytest.mark.integration
@pytest.mark.parametrize(
    "module", ["redqueen.jail.service", "redqueen.extras.rewards.trl", "redqueen.extras.rewards.verl"]
)
def test_judges_need_no_torch(module: str) -> None:
    done = bare(f"import {module}")
    assert done.returncode == 0, done.stderr


@pytest.mark.integration
def test_a_command_that_trains_is_one_line_that_says_how_to_get_it(tmp_path: Path) -> None:
    done = bare("from redqueen.cli.app import main\nmain()", "train", "--run", str(tmp_path / "run"))
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(
        r"redqueen: this command needs \w+, which is not installed: pip install '\.\[train\]' in a checkout .*\n",
        done.stderr,
    ), done.stderr
