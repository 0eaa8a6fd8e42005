"""Writes exported tasks as a package for verifiers: a few lines of code, the tasks as a file, and how to use it."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path

from redqueen import __version__
from redqueen.cli.tasks_export import asked, described, left_out, written
from redqueen.errors import UserError
from redqueen.extras.rewards.judges import can_be_varied
from redqueen.members import about_base, plain
from redqueen.store.dataset import TaskFilter, TaskSelection
from redqueen.store.dataset.files import task_of, write_tasks
from redqueen.tasks.kinds import find_or_plain

DISTRIBUTION = "redqueen"
VERIFIERS = "verifiers>=0.4,<0.5"
"""The versions whose interface, `verifiers.v1`, the package is written for."""


# What projects call their own tests and settings: a package of this name would be imported in their place.
_COMMON = ("conftest", "setup", "test", "tests")


def module_name(folder: Path) -> str:
    """Returns the name under which Python imports the package.

    Raises UserError if the folder's name gives none, or one that stands for something else.
    """
    name = folder.name.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z](?:[a-z0-9_]*[a-z0-9])?", name):
        raise UserError(
            f"--out {folder}: the folder's name becomes the package's, so it starts with a letter, ends with a letter "
            "or digit, and has letters, digits, - and _ only"
        )
    for module in (name, f"{name}_game"):
        if meant := _other_meaning(module) or _installed(module, name):
            raise UserError(
                f"--out {folder}: the folder's name becomes the package's, and {module} is {meant}: choose another "
                f"one, such as {name}_tasks"
            )
    return name


def _other_meaning(module: str) -> str:
    """Returns what else a name stands for everywhere; "" if it stands for nothing."""
    if keyword.iskeyword(module):
        return "a word of Python's own"
    if module in sys.stdlib_module_names:
        return "a module of Python's standard library"
    if module in _COMMON:
        return "what projects call their tests or settings"
    plain = _plain_name(module)
    if plain == DISTRIBUTION:
        return "this program, which installing the package would remove"
    if plain in map(_name_of, (VERIFIERS, *(requires(DISTRIBUTION) or ()))):
        return "a package that this program or the new one needs"
    return ""


def _installed(module: str, name: str) -> str:
    """Returns what is installed here under the name of a module of the package `name`; "" if nothing is."""
    try:
        # An earlier export may be exported again under its name.
        if DISTRIBUTION in map(_name_of, distribution(name).requires or ()):
            return ""
    except PackageNotFoundError:
        # What a distribution is imported by may be called otherwise: yaml is of PyYAML. A folder has no origin.
        spec = find_spec(module)
        return "a module that is installed here" if spec is not None and spec.origin is not None else ""
    return "a package that is installed here"


def _name_of(requirement: str) -> str:
    """Returns the name in a requirement, such as `Math_Verify>=0.8; extra == "evals"`."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return _plain_name(match.group()) if match else ""


def _plain_name(name: str) -> str:
    """Returns a name as installers compare it: in small letters, with all separators alike."""
    return re.sub(r"[-_.]+", "_", name).lower()


def write_package(folder: Path, name: str, base: str, selected: TaskSelection, wanted: TaskFilter) -> list[str]:
    """Writes the package `name` to `folder`, and returns what of the tasks it cannot carry. Raises OSError."""
    code = folder / name
    code.mkdir(parents=True)
    write_tasks(selected.records, code / "tasks.jsonl")
    run = plain(selected.records[0].run)
    (code / "__init__.py").write_text(_CODE.format(run=run), encoding="utf-8")
    # A module of its own: verifiers takes the environment of a package for the one that its taskset is played in.
    game = folder / f"{name}_game"
    game.mkdir()
    (game / "__init__.py").write_text(_GAME.format(run=run, tasks=name), encoding="utf-8")
    (folder / "pyproject.toml").write_text(_project(name, selected), encoding="utf-8")
    (folder / "README.md").write_text(_readme(name, base, selected, wanted), encoding="utf-8")
    alone = sum(not can_be_varied(task_of(asdict(record))) for record in selected.records)
    if not alone:
        return []
    return [f"{name}_game shows its teacher {len(selected.records) - alone} of them: {alone} have no program to vary"]


_CODE = '''"""Tasks of the run {run}, as a taskset of verifiers."""

from pathlib import Path

from redqueen.extras.rewards.verifiers import Puzzles

__all__ = ["Tasks"]


class Tasks(Puzzles):
    """The tasks in the file beside this one."""

    FILE = Path(__file__).with_name("tasks.jsonl")
'''


_GAME = '''"""The game on from the tasks of the run {run}: a teacher writes a task, a student attempts it."""

from redqueen.extras.rewards.verifiers import Openings, RedQueen
from {tasks} import Tasks

__all__ = ["Game", "Requests"]


class Requests(Openings):
    """Requests for tasks, which show the tasks of the run."""

    FILE = Tasks.FILE


class Game(RedQueen):
    """The two agents."""
'''


def _project(name: str, selected: TaskSelection) -> str:
    dashed = name.replace("_", "-")
    return f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{dashed}"
version = "0.1.0"
description = "{described(selected.records)}, with a jail as their judge"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["{VERIFIERS}", "redqueen>={__version__}"]

[tool.hatch.build.targets.wheel]
packages = ["{name}", "{name}_game"]
"""


def _readme(name: str, base: str, selected: TaskSelection, wanted: TaskFilter) -> str:
    dashed = name.replace("_", "-")
    run = plain(selected.records[0].run)
    played = dict.fromkeys(record.kind for record in selected.records)
    kinds = ", ".join(f"{find_or_plain(kind).title} (`{kind}`)" for kind in played)
    return f"""# {dashed}

{described(selected.records)} of the run `{run}`, as an environment for
[verifiers](https://github.com/PrimeIntellect-ai/verifiers) 0.4. {written(selected.records)}
The run's base model is {about_base(base)}.

    pip install .
    vf-validate {dashed} --runtime.type subprocess    # every program runs again
    vf-eval {dashed} -n 20 -m MODEL --env.agent.harness.id null --env.agent.runtime.type subprocess

`--env.taskset.kinds`, `--env.taskset.least-solved` and `--env.taskset.most-solved` choose tasks.

What is asked: {kinds}. `correct` is 1 for a right answer and 0 for any other; the metric `malformed` is 1 where there
was none. Answers and programs are judged in Red Queen's jail, on this machine. A fault of the machine is an error and
no reward.

The game itself goes on from here, with two agents: a teacher writes a task and a student attempts it.

    vf-eval {dashed}-game -n 20 --env.teacher.model MODEL --env.student.model MODEL

The teacher is paid -1 for what is not a valid task, 0 for an unsolved task, and 1 - the solve rate otherwise.

Asked for: {asked(wanted)}. Of {selected.total} valid tasks of the run, these are not here: {left_out(selected)}.
Solve rates are in sample: the run's student was trained on the task. No licence is given: the person who publishes this
package chooses one.
"""
