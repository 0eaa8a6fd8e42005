"""Writes exported tasks as a package for verifiers: a few lines of code, the tasks as a file, and how to use it."""

from __future__ import annotations

import re
from pathlib import Path

from redqueen import __version__
from redqueen.analysis.dataset.files import write_tasks
from redqueen.analysis.dataset.rows import Selected, Wanted
from redqueen.cli.dataset_card import asked, left_out
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.members.base_names import about_base

VERIFIERS = "verifiers>=0.4,<0.5"
"""The versions whose interface, `verifiers.v1`, the package is written for."""


def module_name(folder: Path) -> str:
    """Returns the name under which Python imports the package. Raises UserError if the folder's name gives none."""
    name = folder.name.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(
            f"--out {folder}: the folder's name becomes the package's, so it starts with a letter and has letters, "
            "digits, - and _ only"
        )
    return name


def write_package(folder: Path, name: str, config: Config, selected: Selected, wanted: Wanted) -> None:
    """Writes the package `name` to `folder`. Raises OSError if it cannot be written."""
    code = folder / name
    code.mkdir(parents=True)
    write_tasks(selected.records, code / "tasks.jsonl")
    run = _plain(selected.records[0].run)
    (code / "__init__.py").write_text(_CODE.format(run=run), encoding="utf-8")
    # A module of its own: verifiers takes the environment of a package for the one that its taskset is played in.
    game = folder / f"{name}_game"
    game.mkdir()
    (game / "__init__.py").write_text(_GAME.format(run=run, tasks=name), encoding="utf-8")
    (folder / "pyproject.toml").write_text(_project(name, selected), encoding="utf-8")
    (folder / "README.md").write_text(_readme(name, config, selected, wanted), encoding="utf-8")


_CODE = '''"""Tasks of the run {run}, as a taskset of verifiers."""

from pathlib import Path

from redqueen.rewards.verifiers import Puzzles

__all__ = ["Tasks"]


class Tasks(Puzzles):
    """The tasks in the file beside this one."""

    FILE = Path(__file__).with_name("tasks.jsonl")
'''


_GAME = '''"""The game on from the tasks of the run {run}: a teacher writes a task, a student attempts it."""

from redqueen.rewards.verifiers_game import Openings, RedQueen
from {tasks} import Tasks

__all__ = ["Game", "Requests"]


class Requests(Openings):
    """Requests for tasks, which show the tasks of the run."""

    FILE = Tasks.FILE


class Game(RedQueen):
    """The two agents."""
'''


def _project(name: str, selected: Selected) -> str:
    dashed = name.replace("_", "-")
    return f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{dashed}"
version = "0.1.0"
description = "{len(selected.records)} Python puzzles that a language model wrote, with a jail as their judge"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["{VERIFIERS}", "redqueen>={__version__}"]

[tool.hatch.build.targets.wheel]
packages = ["{name}", "{name}_game"]
"""


def _readme(name: str, config: Config, selected: Selected, wanted: Wanted) -> str:
    dashed = name.replace("_", "-")
    run = _plain(selected.records[0].run)
    return f"""# {dashed}

{len(selected.records)} small Python tasks of the run `{run}`, as an environment for
[verifiers](https://github.com/PrimeIntellect-ai/verifiers) 0.4. A language model wrote them while it was trained by
co-evolution with Red Queen {__version__} on {about_base(config.model.name)}.

    pip install .
    vf-validate {dashed} --runtime.type subprocess    # every program runs again
    vf-eval {dashed} -n 20 -m MODEL --env.agent.harness.id null --env.agent.runtime.type subprocess

`--env.taskset.kinds`, `--env.taskset.least-solved` and `--env.taskset.most-solved` choose tasks.

The model predicts an output (`code_o`), finds an input (`code_i`) or writes the function (`code_f`). `correct` is 1
for a right answer and 0 for any other; the metric `malformed` is 1 where there was none. Answers and programs are
judged in Red Queen's jail, on this machine. A fault of the machine is an error and no reward.

The game itself goes on from here, with two agents: a teacher writes a task and a student attempts it.

    vf-eval {dashed}-game -n 20 --env.teacher.model MODEL --env.student.model MODEL

The teacher is paid -1 for what is no valid task, 0 for a task that nobody solved, and 1 - the solve rate otherwise.

Asked for: {asked(wanted)}. Of {selected.total} valid tasks of the run, these are not here: {left_out(selected)}.
Solve rates are in sample: the run's student was trained on the task. No licence is given: whoever publishes this
package chooses one.
"""


def _plain(text: str) -> str:
    """Returns a name for a docstring and for Markdown: a run's folder may be called anything."""
    return re.sub(r"[^\w .+-]", "_", text)
