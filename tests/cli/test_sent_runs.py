"""A run that somebody else sent: reading it imports nothing that it names, and it takes no isolation away."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from redqueen import plugins
from redqueen.api import Run
from redqueen.extras.page.app import VIEWS, make_app
from redqueen.extras.page.live_run import Folder
from redqueen.jail import Probe, pool
from redqueen.plugins import PluginError
from redqueen.store.directory import RunDirectory
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration

# What runs at the import of a module leaves a mark next to it.
PAYLOAD = "import pathlib\npathlib.Path(__file__).with_name('MARK').touch()\n"
PARTS = f"""{PAYLOAD}
from redqueen import plugins

@plugins.mutation
def fade(parents, generator): return parents[0]

@plugins.fitness
def luck(member): return float(member.name[1:])

@plugins.teacher_reward
def middle(played, pay): return played.rho

@plugins.student_reward
def all_or_nothing(attempted, pay): return 1.0
"""
NAMES: dict[str, Any] = {
    "evolution": {"mutations": ["fade"]},
    "league": {"student_fitness": "luck", "teacher_fitness": "luck"},
    "game": {"teacher_reward": "middle", "student_reward": "all_or_nothing"},
}


def change(run: Path, changes: dict[str, Any]) -> None:
    """Writes these settings, by section, into a run's config.json."""
    file = run / "config.json"
    data = json.loads(file.read_text())
    for section, values in changes.items():
        data[section] = {**data[section], **values} if isinstance(values, dict) else values
    file.write_text(json.dumps(data))


@pytest.fixture
def sent(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose config.json names a module in its own folder, which is the namespace package of the same name."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    (run / "payload.py").write_text(PARTS)
    change(run, {"plugins": ["run.payload"], **NAMES})
    (run / "environment.json").write_text(json.dumps({"fitted": {"plugins": "run.payload", "model.workers": 1}}))
    monkeypatch.chdir(tmp_path)
    # An import that a test allows must be forgotten by the next one.
    monkeypatch.setattr(plugins, "_parts", {})
    monkeypatch.setattr(plugins, "_loaded", set())
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("run", "run.payload"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return run


READING = (
    "lineage run",
    "lineage run --json",
    "report run --out report.html",
    "report run --markdown",
    "tasks export run --out tasks.jsonl",
    "show run",
    "compare run run",
    "export run best-student student",
    "export run T0 teacher",
)


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_imports_nothing_that_the_run_names(sent: Path, command: str) -> None:
    words = command.split()
    if words[0] == "compare":
        shutil.copytree(sent, sent.with_name("other"))
        words[-1] = "other"
    done = redqueen(*words)
    # The tiny model writes no valid task, which an export says; everything else is done.
    assert done.returncode == 0 or "has no valid task yet" in done.stderr, done.stderr
    assert not (sent / "MARK").exists()


HOSTILE = "[/red][link=file:///x]:smile:\x1b]0;pwn\x07\u202e"


@pytest.mark.parametrize("command", [*READING[:5], "show run", "show run --worst", "compare run run"])
def test_a_command_that_reads_prints_hostile_words_as_text(finished: Path, tmp_path: Path, command: str) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    with closing(sqlite3.connect(run / "run.sqlite")) as archive, archive:
        for column in ("proposals.kind", "proposals.status", "proposals.detail", "proposals.text", "members.operator"):
            table, name = column.split(".")
            archive.execute(f"UPDATE {table} SET {name} = ?", (HOSTILE,))
    words = command.split()
    if words[0] == "compare":
        shutil.copytree(run, run.with_name("other"))
        words[-1] = "other"
    done = redqueen(*words, cwd=tmp_path)
    assert done.returncode == 0 or "has no valid task yet" in done.stderr, done.stderr
    if words[0] == "show":
        assert "[/red][link=file:///x]:smile:\\x1b]0;pwn\\x07\\u202e" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)


def test_the_page_and_python_import_nothing_that_the_run_names(sent: Path) -> None:
    for folder in (sent, sent.parent):
        client = TestClient(make_app(Folder(folder)), base_url="http://127.0.0.1:8642")
        name = "" if folder == sent else "run"
        assert client.get("/api/runs").json()["runs"][0]["recipe"] == "quickstart"
        for view in VIEWS:
            answer = client.get(f"/api/{view}", params={"run": name, "name": "S0"})
            assert answer.status_code == 200 or view == "task", answer.text
    run = Run(sent)
    assert run.config.plugins == ("run.payload",)
    assert len(run.steps()) == 2
    assert run.adapter("best-student").name == "S1", "by the fitness that the run recorded"
    assert not (sent / "MARK").exists()


def test_the_best_by_an_own_fitness_is_the_best_that_was_recorded(sent: Path) -> None:
    lines = [json.loads(line) for line in (sent / "metrics.jsonl").read_text().splitlines()]
    for name, fitness in (("S0", 9.0), ("S1", 3.0)):
        lines[-1]["members"][name]["fitness"] = fitness
    (sent / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert Run(sent).adapter("best-student").name == "S0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "train --resume run --steps 3",
        "train --config run/config.json --run new",
        "train --config run/config.json --run new run.steps=1",
    ],
)
def test_training_names_the_modules_and_waits_for_a_flag(sent: Path, command: str) -> None:
    refused = redqueen(*command.split())
    assert refused.returncode == 2
    assert "run/config.json names modules of its own, 'run.payload'" in refused.stderr
    assert "add --load-plugins" in refused.stderr
    assert not (sent / "MARK").exists()
    assert not Path("new").exists()
    redqueen(*command.split(), "--load-plugins", "--dry-run" if "--config" in command else "model.threads=1")
    assert (sent / "MARK").exists(), "with the flag they are imported"


@pytest.mark.slow
def test_a_resume_with_the_flag_trains_with_the_parts(sent: Path) -> None:
    with pytest.raises(PluginError, match=r"'run\.payload'"):
        Run(sent).resume({"run.steps": 3})
    done = redqueen("train", "--resume", "run", "--steps", "3", "--load-plugins")
    assert done.returncode == 0, done.stderr
    assert Run(sent).steps()[-1]["members"]["S1"]["fitness"] == 1.0, "luck says so"


def test_a_benchmark_of_the_runs_modules_is_known_once_they_are_imported(sent: Path) -> None:
    with (sent / "payload.py").open("a") as file:
        file.write("\n@plugins.benchmark\ndef mine(): return None\n")
    refused = redqueen("eval", "run", "--benchmarks", "mine")
    assert "there is no benchmark 'mine'" in refused.stderr
    asked = redqueen("eval", "run", "--benchmarks", "mine", "--load-plugins")
    assert "the benchmark 'mine' must return a Benchmark" in asked.stderr


def test_once_the_modules_are_imported_a_name_of_none_of_them_is_a_mistake(sent: Path) -> None:
    change(sent, {"evolution": {"mutations": ["fad"]}})
    done = redqueen("train", "--resume", "run", "--steps", "3", "--load-plugins")
    assert done.returncode == 2
    assert "there is no mutation 'fad': choose one of" in done.stderr


@pytest.mark.slow
def test_what_needs_a_part_says_so_before_it_imports_anything(sent: Path) -> None:
    change(sent, {"model": {"prompts": "Short"}})
    question = ("def f(x):\n    return x * 2", "f(4) == ?")
    for command in (("ask", "run", "S0", *question), ("eval", "run"), ("retention", "run")):
        refused = redqueen(*command)
        assert refused.returncode == 2, refused.stdout
        assert "needs the prompt format 'Short', which is an own part of the run" in refused.stderr
    exported = redqueen("export", "run", "S0", "student")
    assert exported.returncode == 0, exported.stderr
    assert "written by the prompt format Short" in Path("student/README.md").read_text()
    assert not (sent / "MARK").exists()
    planned = redqueen("train", "--config", "run/config.json", "--dry-run")
    assert planned.returncode == 0
    assert "memory: not estimated, this needs the prompt format 'Short'" in planned.stdout
    assert not (sent / "MARK").exists()


def test_a_run_without_modules_of_its_own_still_refuses_unknown_names(sent: Path) -> None:
    change(sent, {"plugins": []})
    done = redqueen("report", "run", "--markdown")
    assert done.returncode == 2
    assert "does not fit this version of Red Queen: " in done.stderr


@pytest.fixture
def no_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernel isolates nothing."""
    items = [Probe("seccomp", False, "the filter does not load")]
    monkeypatch.setattr(pool, "probe", lambda: ("process", items))


@pytest.mark.slow
@pytest.mark.usefixtures("no_isolation")
@pytest.mark.parametrize(
    ("command", "judged"),
    [
        (("ask", "run", "S0", "def f(x): return x * 2", "f(4) == ?"), "right is: 8"),
        (("train", "--resume", "run", "--steps", "3"), "done: 1 more step in"),
        (("train", "--config", "run/config.json", "--run", "new", "run.steps=1"), "done: 1 step in"),
    ],
)
def test_only_a_command_line_takes_the_isolation_away(
    finished: Path, tmp_path: Path, command: tuple[str, ...], judged: str
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    change(run, {"sandbox": {"unsafe_no_isolation": True}})
    environment = {"fitted": {"sandbox.unsafe_no_isolation": True}}
    (run / "environment.json").write_text(json.dumps(environment))
    assert Run(run).config.sandbox.unsafe_no_isolation is False
    refused = redqueen(*command, cwd=tmp_path)
    assert refused.returncode == 2
    assert "programs cannot be isolated on this machine: seccomp" in refused.stderr
    assert judged not in refused.stdout
    done = redqueen(*command, "--unsafe-no-isolation", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert judged in done.stdout
    if command[0] == "train":
        trained = run if command[1] == "--resume" else tmp_path / "new"
        data = json.loads((trained / "environment.json").read_text())
        assert [data, *data.get("resumed", [])][-1]["isolation"] == "process", "and the run's record says so"


@pytest.mark.usefixtures("no_isolation")
@pytest.mark.parametrize("command", ["eval", "retention"])
def test_studies_do_not_take_a_runs_word_for_it(finished: Path, tmp_path: Path, command: str) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    change(run, {"sandbox": {"unsafe_no_isolation": True}})
    refused = redqueen(command, str(run))
    assert refused.returncode == 2
    assert "programs cannot be isolated on this machine: seccomp" in refused.stderr


def test_the_same_command_with_and_without_isolation_is_the_same_run(finished: Path) -> None:
    config = RunDirectory(finished).config()
    assert config.differences(config.without_isolation(allowed=True)) == []
