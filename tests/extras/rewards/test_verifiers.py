"""An exported package: built, installed, validated and evaluated by verifiers, which `make test-verifiers` installs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.archived import archived, archived_tests
from tests.cli.running import redqueen
from tests.extras.rewards.chat_server import chat_server

pytest.importorskip("verifiers.v1", reason="verifiers is not installed: make test-verifiers")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment of variables in which the exported package can be imported."""
    folder = tmp_path_factory.mktemp("verifiers")
    run = archived(folder / "run")
    out = folder / "redqueen-tasks"
    done = redqueen("tasks", "export", str(run), "--format", "verifiers", "--out", str(out))
    assert done.returncode == 0, done.stderr
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(out)], check=True)
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])
    # The command that fetches what a harness needs is beside the interpreter.
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": path, "PATH": commands, "OPENAI_API_KEY": "none"}


def run(command: str, *options: str, package: str = "redqueen-tasks", cwd: Path, env: dict[str, str]) -> str:
    """What a command of verifiers says."""
    program = str(Path(sys.executable).parent / command)
    done = subprocess.run([program, package, *options], cwd=cwd, env=env, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def evaluated(package: str, url: str, options: list[str], folder: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    """The episodes of an evaluation by `vf-eval` against a server."""
    where = ["--client.base-url", url, "--client.api-key-var", "OPENAI_API_KEY"]
    run("vf-eval", *where, *options, "-m", "stand-in", *QUIET, str(folder), package=package, cwd=folder, env=env)
    return rows(folder, "traces.jsonl")


QUIET = ("--no-push", "--no-rich", "--output-dir")


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    (file,) = folder.rglob(name)
    return [json.loads(line) for line in file.read_text().splitlines()]


def answer(question: str) -> str:
    """Right for `ADD` and its output, wrong for its input, and nothing of the form that was asked for otherwise."""
    if "What does `f` return" in question:
        return "<answer>\n```output\n4\n```\n</answer>"
    if "Find an input" in question:
        return "<answer>\n```input\n7\n```\n</answer>"
    return "I do not know."


def test_every_task_validates_and_an_untouched_one_is_not_solved(installed: dict[str, str], tmp_path: Path) -> None:
    run("vf-validate", "--runtime.type", "subprocess", "--output-dir", str(tmp_path), cwd=tmp_path, env=installed)
    found = rows(tmp_path, "results.jsonl")
    assert Counter((row["reason"], row["valid"]) for row in found) == {("valid", True): 4}


def test_a_model_behind_a_server_is_evaluated(installed: dict[str, str], tmp_path: Path) -> None:
    agent = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    with chat_server(answer) as url:
        episodes = evaluated("redqueen-tasks", url, agent, tmp_path, installed)
    traces = [trace for episode in episodes for trace in episode["traces"]]
    assert [trace["errors"] for trace in traces] == [[]] * 4
    judged = {
        trace["task"]["key"]: (trace["rewards"]["correct"]["score"], trace["metrics"]["malformed"]) for trace in traces
    }
    # `ADD` adds 3 and `ADD_TOO` 7, and the third asks for an input.
    assert judged == {"1.0.a": (1.0, 0.0), "1.0.b": (0.0, 0.0), "2.0.a": (0.0, 0.0), "2.0.b": (0.0, 1.0)}


def test_a_taskset_loads_the_tasks_that_its_config_asks_for(installed: dict[str, str]) -> None:
    code = (
        "import redqueen_tasks as r, sys\n"
        "from redqueen.extras.rewards.verifiers import PuzzlesConfig\n"
        "for options in ({}, {'kinds': ['code_o']}, {'most_solved': 0.5}):\n"
        "    print(*(task.key for task in r.Tasks(PuzzlesConfig(**options)).load()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=installed, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1.0.a 1.0.b 2.0.a 2.0.b", "1.0.a 2.0.a", "1.0.a 1.0.b 2.0.b"]


def test_tasks_with_tests_validate_and_only_those_with_programs_are_shown_to_teachers(tmp_path: Path) -> None:
    from redqueen.extras.rewards.verifiers import Openings, OpeningsConfig, Puzzles, PuzzlesConfig

    file = tmp_path / "tasks.jsonl"
    done = redqueen("tasks", "export", str(archived_tests(tmp_path / "run")), "--out", str(file))
    assert done.returncode == 0, done.stderr

    class Tasks(Puzzles):
        FILE = file

    class Requests(Openings):
        FILE = file

    loaded = Tasks(PuzzlesConfig()).load()
    assert [puzzle.data.kind for puzzle in loaded] == ["code_t"] * 3
    assert [asyncio.run(puzzle.validate(None)) for puzzle in loaded] == [True] * 3
    asked = Requests(OpeningsConfig(count=1)).load()[0].data.prompt
    assert "Take one away." in asked
    assert "Add two numbers." in asked
    assert "print twice as much" not in asked


def proposal_or_answer() -> Callable[[str], str]:
    """A teacher whose first text is no task, and whose later ones double a number; a student right every other time."""
    asked: Counter[str] = Counter()

    def reply(question: str) -> str:
        asked[question.split()[0]] += 1
        if question.startswith("Invent"):
            if asked["Invent"] == 1:
                return "I would rather not."
            return "<answer>\n```python\ndef f(x):\n    return x * 2\n```\n```input\n21\n```\n</answer>"
        return f"<answer>\n```output\n{42 if asked['What'] % 2 else 7}\n```\n</answer>"

    return reply


def test_the_game_is_played_by_two_agents(installed: dict[str, str], tmp_path: Path) -> None:
    options = ["--env.taskset.kinds", "code_o", "--env.taskset.count", "2", "--env.attempts", "4", "-c", "1"]
    with chat_server(proposal_or_answer()) as url:
        episodes = evaluated("redqueen-tasks-game", url, options, tmp_path, installed)
    assert [episode["errors"] for episode in episodes] == [[], []]
    by_size = sorted(([trace["agent"]["name"] for trace in episode["traces"]] for episode in episodes), key=len)
    assert by_size == [["teacher"], ["teacher", *["student"] * 4]]
    refused, played = sorted((episode["traces"] for episode in episodes), key=len)
    assert (refused[0]["rewards"]["teacher"]["score"], refused[0]["metrics"]["valid"]) == (-1, 0)
    teacher, *students = played
    assert (teacher["metrics"]["valid"], teacher["metrics"]["solve_rate"]) == (1, 0.5)
    assert teacher["rewards"]["teacher"]["score"] == 0.5
    assert sorted(trace["rewards"]["correct"]["score"] for trace in students) == [0, 0, 1, 1]
