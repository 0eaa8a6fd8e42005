"""The command line itself: it starts quickly, and bad input is one clear line."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import redqueen.__main__ as entry
from redqueen import __version__
from redqueen.cli.app import main, with_address
from tests.cli.running import redqueen


def test_version_in_a_process_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-m", "redqueen", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"redqueen {__version__}\n"


def test_help_names_every_command() -> None:
    done = redqueen("--help")
    assert done.returncode == 0
    for command in ("train", "sweep", "warm-start", "export", "lineage", "report", "retention", "ancestry", "verify"):
        assert f" {command} " in done.stdout


def test_the_list_of_commands_is_cut_nowhere() -> None:
    listed = redqueen("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(listed) > 12
    assert [line for line in listed if not line.endswith(".")] == []


COMMANDS = [line.split()[0] for line in redqueen("--help").stdout.partition("Commands:\n")[2].splitlines()]


@pytest.mark.parametrize("command", [*COMMANDS, "tasks export", "tasks import"])
def test_every_help_ends_with_examples_of_the_command_itself(command: str) -> None:
    shown = redqueen(*command.split(), "--help").stdout
    _, _, examples = shown.partition("  Examples:\n")
    assert examples
    assert all(f"redqueen {command}" in line or "population.init=" in line for line in examples.splitlines())
    assert "--no-" not in shown


@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["--help"],
        ["train", "--help"],
        ["recipes"],
        ["keys"],
        ["train", "--resume", "/no/such/run"],
        ["tasks", "export", "/no/such/run", "--out", "x"],
    ],
)
def test_answers_that_need_no_model_import_no_torch(args: list[str]) -> None:
    script = f"""
import sys
from redqueen.cli.app import main
sys.argv = ["redqueen", *{args}]
try:
    main()
except SystemExit:
    pass
print([name for name in ("torch", "transformers", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("population.students=0",), "population.students"),
        (("model.rank=0",), "model.rank"),
        (("evolution.every=0",), "evolution.every"),
        (("populaton.teachers=3",), "did you mean 'population.teachers'?"),
        (("quikstart",), "did you mean 'quickstart'?"),
        (("--model", "/no/such/model"), "/no/such/model"),
        (("--resume", "/no/such/run"), "the folder /no/such/run does not exist"),
        (("--resume", "/no/such/run", "learning.lr=1"), "cannot change in a resumed run, only run.steps"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("train", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["train", "--ray"], ["train", "--ray=local"]),
        (["train", "--ray", "quickstart", "run.steps=2"], ["train", "--ray=local", "quickstart", "run.steps=2"]),
        (["train", "--ray", "model.name=C:model"], ["train", "--ray=local", "model.name=C:model"]),
        (["train", "--ray", "10.0.0.1:6379", "quickstart"], ["train", "--ray=10.0.0.1:6379", "quickstart"]),
        (["train", "--ray=auto", "quickstart"], ["train", "--ray=auto", "quickstart"]),
        (["train", "--ray", "--steps", "3"], ["train", "--ray=local", "--steps", "3"]),
        (["runs"], ["runs"]),
    ],
)
def test_the_address_of_a_cluster_may_be_left_out(given: list[str], read: list[str]) -> None:
    assert with_address(given) == read


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("args", [["keys"], ["recipes"], ["train", "--dry-run", "run.steps=…\ud800±"]])
def test_a_terminal_that_lacks_characters_gets_them_escaped(
    args: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "argv", ["redqueen", *args])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main()
    out.flush()
    err.flush()
    shown = out.buffer.getvalue() + err.buffer.getvalue()  # type: ignore[attr-defined]
    # Any character that the stream could not write would have been an error.
    assert shown
    if "train" in args:
        assert rb"\ud800" in shown


def test_keys_are_printed_where_standard_output_is_ascii() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "redqueen", "keys"], capture_output=True, env=environment, check=True)
    assert rb"\u2026" in done.stdout


def test_ctrl_c_while_the_commands_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr("redqueen.__main__.importlib.import_module", interrupt)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "\nredqueen: stopped by Ctrl-C\n"
