"""Runs from Python: what `redqueen.Run` says is what the run left, and the programs of docs/reference/PYTHON.md run."""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas
import pytest
from peft import PeftConfig

import redqueen
from redqueen.base import optional
from redqueen.engine.adapters import load_adapter
from redqueen.errors import UserError
from redqueen.run.recording.recorder import Recorder
from redqueen.store.dataset.files import columns
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.metrics import numbers
from tests.cli.archived import archived
from tests.cli.conftest import SMALL

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "PYTHON.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def test_importing_the_package_loads_nothing() -> None:
    code = """
import sys, redqueen
assert not any(name.startswith("redqueen.") for name in sys.modules), "redqueen"
assert "Run" in dir(redqueen)
redqueen.Run
print([name for name in ("torch", "transformers", "pandas", "pyarrow", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'Walk'"):
        redqueen.Walk  # noqa: B018


def test_a_line_as_flat_numbers() -> None:
    line = {
        "step": 3, "time": "2026-01-31T12:00:00Z", "solve_rate": 0.5, "valid_rate": None,
        "par": {"code_o": 0.25}, "skipped": {"S0": "no sample"}, "replacements": [{"age": 5}], "hall": [],
        "members": {"S0": {"role": "student", "mu": 25.5, "record": [1, 2, 3]}},
        "entropy": {"student": {"S0": 1.5}},
    }  # fmt: skip
    assert numbers(line) == {
        "solve_rate": 0.5, "valid_rate": None, "par/code_o": 0.25, "replacements": 1, "hall": 0, "members/S0/mu": 25.5,
        "entropy/student/S0": 1.5,
    }  # fmt: skip


def test_a_folder_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        redqueen.Run(tmp_path / "nothing")


@pytest.mark.parametrize("settings", [["run.steps=4"], "run.steps=4", {3: 4}, 7])
def test_settings_that_are_no_mapping_are_one_line(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'^settings are a mapping such as \{"run\.steps": 20\}, not .*\(.*\)$'):
        redqueen.Run.train(settings=settings, path=tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="settings are a mapping"):
        redqueen.Run(archived(tmp_path / "run")).resume(settings)


def test_a_question_and_numbers_that_cannot_be_are_one_line(tmp_path: Path) -> None:
    run = redqueen.Run(archived(tmp_path / "run"))
    question: Any = ["def f(x): return x", "f(1) == ?"]
    with pytest.raises(UserError, match=r"a question is one text, not a list .*: join its lines"):
        run.ask("S0", question)
    for options in ({"limit": 0}, {"samples": 0}, {"max_tokens": -1}):
        ((name, value),) = options.items()
        with pytest.raises(UserError, match=f"{name}={value}: choose at least 1"):
            run.evaluate(**options)
    with pytest.raises(UserError, match="temperature=nan: choose a number"):
        run.evaluate(temperature=float("nan"))
    with pytest.raises(UserError, match="no benchmark is named"):
        run.evaluate([])


@pytest.mark.integration
def test_a_start_that_was_refused_can_be_tried_again(model: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for _ in range(2):
        with pytest.raises(RunError, match="is not empty"):
            redqueen.Run.train(settings={"model.name": model}, path=tmp_path, progress=False)
    wrong = {"model.name": model, "game.seeds": str(tmp_path / "none.txt")}
    for _ in range(2):
        with pytest.raises(UserError, match=r"none\.txt cannot be read"):
            redqueen.Run.train(settings=wrong, path=tmp_path / "run", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_tasks_with_their_attempts(tmp_path: Path) -> None:
    run = redqueen.Run(archived(tmp_path / "run"))
    tasks = run.tasks()
    assert [one.proposal.id for one in tasks] == ["2.0.a", "2.0.b", "1.0.a", "1.0.b", "1.0.c"]
    assert [attempt.status for attempt in tasks[2].attempts] == ["correct", "wrong", "infra_error"]
    assert [one.proposal.id for one in run.tasks(1)] == ["1.0.a", "1.0.b", "1.0.c"]
    frame = run.tasks_frame()
    assert list(frame.columns) == [column.name for column in columns()]
    assert frame.id.tolist() == ["1.0.a", "1.0.b", "1.0.c", "2.0.a", "2.0.b"]
    assert frame.inputs[0] == ("1",)
    assert repr(run) == f"Run('{tmp_path}/run')"


def test_frames_without_pandas_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = redqueen.Run(archived(tmp_path / "run"))

    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional.importlib, "import_module", refuse)
    for frame in (run.steps_frame, run.tasks_frame, run.members_frame, run.matches_frame, run.attempts_frame):
        with pytest.raises(UserError, match=r"needs pandas, which is not installed: pip install '\.\[data\]'"):
            frame()


def test_a_run_without_steps_has_an_empty_frame(tmp_path: Path) -> None:
    run = redqueen.Run(archived(tmp_path / "run"))
    assert run.steps() == []
    assert len(run.steps_frame()) == 0


@pytest.mark.integration
def test_steps_and_members_of_a_run_that_was_trained(finished: Path) -> None:
    run = redqueen.Run(str(finished))
    frame = run.steps_frame()
    assert frame.index.tolist() == [line["step"] for line in run.steps()] == [1, 2]
    assert frame.index.name == "step"
    last = run.steps()[-1]
    assert frame.loc[2, "seconds/total"] == last["seconds"]["total"]
    assert frame.loc[2, "statuses/proposals/malformed"] == last["statuses"]["proposals"]["malformed"]
    # A number that a step does not have is a gap.
    assert pandas.isna(frame.loc[1, "solve_rate"]) == (run.steps()[0]["solve_rate"] is None)
    assert run.config == RunDirectory(finished).config()
    assert [life.role for life in run.members()] == ["teacher", "teacher", "student", "student"]
    folder = run.adapter("s1")
    assert folder == finished / "checkpoints" / "step-000002" / "members" / "S1"
    assert PeftConfig.from_pretrained(str(folder)).r == run.config.model.rank
    assert load_adapter(folder)[1] == run.config.model.alpha
    with pytest.raises(RunError, match="no member 'S9'"):
        run.adapter("S9")


@pytest.mark.slow
@pytest.mark.integration
def test_the_programs_of_the_page_run(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "runs" / "quickstart")
    # The tiny model of the test solves nothing, and a curve needs points.
    lines = tmp_path / "runs" / "quickstart" / "metrics.jsonl"
    lines.write_text(re.sub(r'"(code_[oi])": null', r'"\1": 0.25', lines.read_text()))
    mpl.use("Agg")
    reading = [program for program in PROGRAMS if "Run.train" not in program]
    assert len(reading) == len(PROGRAMS) - 2 == 4
    for program in reading:
        exec(compile(program, "PYTHON.md", "exec"), {})
    assert (tmp_path / "solve_rate.png").stat().st_size > 10_000
    (axes,) = plt.gcf().axes
    assert axes.get_title() == "quickstart: 2 steps"
    assert [line.get_label() for line in axes.get_lines()] == ["code_o", "code_i", "code_f"]
    assert [list(line.get_ydata())[:2] for line in axes.get_lines()[:2]] == [[0.25, 0.25]] * 2
    assert list(axes.get_lines()[0].get_xdata()) == [1, 2]
    plt.close("all")
    assert "adapter_model.safetensors" in capsys.readouterr().out


@pytest.mark.integration
def test_a_script_trains_a_run_and_goes_on(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = (program for program in PROGRAMS if "run.resume" in program)
    small = {"model.name": model, **dict(setting.split("=") for setting in SMALL)}
    assert '"run.steps": 2,' in program
    quick = program.replace('"run.steps": 2,', f'"run.steps": 2, **{small},').replace(
        '"run.steps": 4', '"run.steps": 3'
    )
    exec(compile(quick, "PYTHON.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("step\n1 "), "only what the script prints"
    run = redqueen.Run("runs/mine")
    environment = json.loads((run.path / "environment.json").read_text())
    assert environment["command"].startswith("redqueen.Run, in ")
    assert environment["resumed"][0]["isolation"] == environment["isolation"] == "full"
    assert [line["step"] for line in run.steps()] == [1, 2, 3]
    assert run.config.game.kinds == ("code_o", "code_i")
    # Nothing is left to do, so nothing happens.
    capsys.readouterr()
    assert run.resume() is run
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UserError, match="holds a run already"):
        redqueen.Run.train("quickstart", small, path="runs/mine")
    with pytest.raises(UserError, match=r"unknown key 'learning\.rate'"):
        redqueen.Run.train("quickstart", {"learning.rate": 1}, path="runs/other")
    with pytest.raises(UserError, match="cannot change in a resumed run"):
        run.resume({"learning.lr": 1})
    assert not Path("runs/other").exists()


def test_what_is_no_path_is_said_first_and_resume_says_of_what_it_is_asked() -> None:
    with pytest.raises(TypeError, match=r"not '?int"):
        redqueen.Run.train("no such recipe", path=5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"resume is asked of a run: redqueen\.Run\('runs/mine'\)\.resume\(\)"):
        redqueen.Run.resume("runs/mine")  # type: ignore[arg-type]


@pytest.mark.integration
def test_a_script_trains_with_a_recorder_and_a_verifier_of_its_own(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = (program for program in PROGRAMS if "recorders=" in program)
    small = {"model.name": model, **dict(setting.split("=") for setting in SMALL)}
    names: dict[str, Any] = {"__name__": "__main__"}
    quick = program.replace('{"run.steps": 2}', f'{{"run.steps": 2, "game.seed_tasks": 2, **{small}}}')
    exec(compile(quick.replace("(cpu_s=0.5)", "(cpu_s=0.5, workers=1)"), "PYTHON.md", "exec"), names)
    printed = capsys.readouterr().out
    assert re.findall(r"^step (\d)  ", printed, re.M) == ["1", "2"]
    assert [len(rates) for rates in names["solved"].rates] == [12, 12]
    with pytest.raises(RuntimeError):
        names["verifier"].run("def f(x): return x", ("1",), 1.0)


class Stop(Recorder):
    """Stops a run as Ctrl-C does, in the learning phase of its second step."""

    def __init__(self) -> None:
        self.closed = 0

    def phase(self, step: int, name: str) -> None:
        if (step, name) == (2, "learn"):
            raise KeyboardInterrupt

    def close(self) -> None:
        self.closed += 1


@pytest.mark.slow
@pytest.mark.integration
def test_ctrl_c_is_a_keyboard_interrupt_and_finished_steps_are_kept(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redqueen")
    stop = Stop()
    small = {"model.name": model, **dict(setting.split("=") for setting in SMALL), "game.seed_tasks": 2}
    with pytest.raises(KeyboardInterrupt):
        redqueen.Run.train(settings={**small, "run.steps": 3}, path=tmp_path / "run", recorders=[stop])
    assert stop.closed == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split()[0] for line in printed.err.splitlines()] == ["run", "the", "checking", "step"]
    run = redqueen.Run(tmp_path / "run")
    assert len(run.steps()) == 1
    assert len(run.resume(progress=False).steps()) == 3
    assert capsys.readouterr() == ("", "")
    assert [line.partition(" ")[0] for line in caplog.messages] == ["resuming"]


def test_members_matches_and_attempts_as_frames(tmp_path: Path) -> None:
    run = redqueen.Run(archived(tmp_path / "run"))
    attempts = run.attempts_frame()
    assert len(attempts) == sum(len(one.attempts) for one in run.tasks())
    assert set(attempts.task) <= set(run.tasks_frame().id)
    assert attempts.status.value_counts()["correct"] > 0
    matches = run.matches_frame()
    assert set(matches.id) == {one.proposal.match for one in run.tasks()}
    assert run.members_frame().name.tolist() == [life.name for life in run.members()]


@pytest.mark.integration
def test_a_notebook_shows_what_a_run_is(finished: Path) -> None:
    shown = redqueen.Run(finished)._repr_html_()
    assert "2 teachers, 2 students, step 2 of 2" in shown
    assert shown.count("<tr>") == 5


def test_a_notebook_takes_no_name_for_markup(tmp_path: Path) -> None:
    shown = redqueen.Run(archived(tmp_path / "<b>run"))._repr_html_()
    assert "&lt;b&gt;run" in shown
    assert "<b>run" not in shown


@pytest.mark.integration
def test_members_are_asked_scored_exported_and_loaded(finished: Path, tmp_path: Path) -> None:
    run = redqueen.Run(finished)
    (greedy,) = run.ask("best-student", "def f(x): return x + 3\nf(4) == ?")
    assert isinstance(greedy.text, str)
    assert greedy.right == (greedy.status == "correct")
    assert len(run.ask("base", "def f(x): return x + 3\nf(4) == ?", attempts=3)) == 3
    with pytest.raises(UserError, match="0 attempts: ask for at least one"):
        run.ask("base", "def f(x): return x + 3\nf(4) == ?", attempts=0)
    with pytest.raises(UserError, match="no member 'S9'"):
        run.ask("S9", "def f(x): return x\nf(4) == ?")
    scores = run.evaluate(limit=3, beside=["base"])
    assert [(each["target"], each["member"]) for each in scores] == [
        (str(finished), "S0"),
        (str(finished), "S1"),
        ("base", ""),
    ]
    assert all(each["benchmarks"]["reserved"]["problems"] == 3 for each in scores)
    folder = run.export("S0", tmp_path / "student")
    assert {"README.md", "adapter_config.json", "adapter_model.safetensors"} <= {each.name for each in folder.iterdir()}
    with pytest.raises(UserError, match="is not empty"):
        run.export("S0", folder)
    model, tokenizer = run.load_model("S0")
    tokens = tokenizer("def f(x):", return_tensors="pt")
    assert model.generate(**tokens, max_new_tokens=2, do_sample=False).shape[1] == tokens.input_ids.shape[1] + 2
    assert model.peft_config["default"].r == run.config.model.rank


@pytest.mark.integration
def test_runs_are_compared(finished: Path) -> None:
    compared = redqueen.compare([redqueen.Run(finished)])
    assert [row["steps"] for row in compared["runs"]] == [2]
    assert len(pandas.DataFrame(compared["quantities"])) > 0
    with pytest.raises(UserError, match="a run is given twice"):
        redqueen.compare([redqueen.Run(finished), str(finished)])
