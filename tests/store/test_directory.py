"""The run directory: files are whole, there is one writer, and a folder that holds something else is left alone."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import Config
from redqueen.config.recipes import recipe
from redqueen.store.directory import RunDirectory, RunError, write_text


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "runs" / "one")
    directory.create(recipe("quickstart"), {"python": "3"})
    return directory


def test_creating_writes_the_configuration_and_the_surroundings(run: RunDirectory) -> None:
    assert run.exists
    assert run.checkpoints.is_dir()
    assert json.loads((run.path / "config.json").read_text()) == recipe("quickstart").model_dump(mode="json")
    assert json.loads((run.path / "environment.json").read_text()) == {"python": "3"}


def test_the_configuration_reads_back_and_can_be_replaced(run: RunDirectory) -> None:
    assert run.config() == recipe("quickstart")
    changed = recipe("quickstart").override(["run.steps=99", "learning.lr=1.2345678901234567e-5"])
    run.set_config(changed)
    assert RunDirectory(run.path).config() == changed


def test_an_empty_or_absent_folder_may_be_taken(tmp_path: Path) -> None:
    assert not RunDirectory(tmp_path).exists
    assert not RunDirectory(tmp_path / "absent").exists
    RunDirectory(tmp_path).create(Config(), {})
    assert RunDirectory(tmp_path).exists


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match="is not empty") as caught:
        RunDirectory(tmp_path).create(Config(), {})
    assert str(tmp_path) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_is_never_created_twice(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="is not empty"):
        run.create(recipe("asymmetric"), {})
    assert run.config() == recipe("quickstart")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        RunDirectory(tmp_path / "file").create(Config(), {})
    with pytest.raises(RunError, match="cannot write"):
        RunDirectory(tmp_path / "file" / "below").create(Config(), {})
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\0", '{"run": {"steps": 0}}', '{"run": {"no_such": 1}}', '{"version": 9}']
)
def test_an_unreadable_configuration_is_refused_in_one_line_that_names_the_folder(run: RunDirectory, text: str) -> None:
    (run.path / "config.json").write_text(text)
    with pytest.raises(RunError) as caught:
        run.config()
    assert str(run.path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run: it has no config\.json"):
        RunDirectory(tmp_path).config()


def archive(path: Path, steps: int) -> None:
    """Makes an archive with as many standings."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE standings (step)")
        connection.executemany("INSERT INTO standings VALUES (?)", [(step,) for step in range(steps)])


def test_a_start_that_ends_before_its_first_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "runs" / "one")
    directory.claim()
    directory.create(Config(), {})
    archive(directory.archive, steps=0)
    assert directory.unstarted
    directory.release()
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_ends_leaves_a_new_folder_in_which_another_run_has_begun(tmp_path: Path) -> None:
    one, other = RunDirectory(tmp_path / "runs" / "one"), RunDirectory(tmp_path / "runs" / "other")
    one.claim()
    other.claim()
    one.release()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]
    other.release()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_refused_start_gives_the_lock_up_and_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    for _ in range(2):
        directory = RunDirectory(tmp_path)
        with pytest.raises(RunError, match="is not empty"):
            directory.claim()
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    # A run keeps its lock's file, and can be claimed by whoever resumes it.
    run = RunDirectory(tmp_path / "run")
    run.claim()
    run.create(Config(), {})
    (run.checkpoints / "step-000000").mkdir()
    run.unlock()
    for _ in range(2):
        with pytest.raises(RunError, match="holds a run already: resume it, or choose another folder"):
            RunDirectory(run.path).claim()
    run.lock()
    run.unlock()


def test_a_killed_start_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path / "run")
    first.claim()
    first.create(Config(), {})
    (first.checkpoints / ".step-000000.tmp").mkdir()
    with pytest.raises(RunError, match="another process is training"):
        RunDirectory(first.path).claim()
    first.unlock()
    second = RunDirectory(first.path)
    second.claim()
    assert not second.exists
    second.create(Config(), {})
    (second.checkpoints / "step-000000").mkdir()
    second.release()
    assert second.saved() == [0], "what has a checkpoint stays"
    with pytest.raises(RunError, match="holds a run already"):
        RunDirectory(first.path).claim()


def test_the_archive_of_a_run_without_its_checkpoints_is_never_cleared(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    directory.create(Config(), {})
    archive(directory.archive, steps=3)
    directory.unlock()
    again = RunDirectory(directory.path)
    with pytest.raises(RunError, match="holds a run already"):
        again.claim()
    assert directory.archive.exists()


@pytest.mark.parametrize("name", ["config.json", "config.json.bak", "run.sqlite"])
def test_files_that_a_person_put_into_a_folder_are_never_cleared(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    directory = RunDirectory(tmp_path)
    with pytest.raises(RunError, match="choose another folder"):
        directory.claim()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunError, match=r"cannot lock .* \(Function not implemented\): choose a folder"):
        RunDirectory(tmp_path / "run").claim()


def test_a_name_that_is_too_long_is_one_line() -> None:
    directory = RunDirectory(Path("x" * 300))
    for ask in (lambda: directory.exists, directory.config, directory.claim):
        with pytest.raises(RunError, match=r"cannot read x+: File name too long"):
            ask()


@pytest.mark.parametrize("name", ["thesis.tex", "checkpoints/step-000002.bad", "metrics.jsonl"])
def test_what_a_start_does_not_make_is_never_cleared(tmp_path: Path, name: str) -> None:
    directory = RunDirectory(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / name).write_text("mine")
    assert not directory.unstarted
    with pytest.raises(RunError, match="not empty"):
        directory.claim()
    directory.release()
    assert (tmp_path / name).read_text() == "mine"


def test_sessions_are_added_and_the_newest_says_what_was_fitted(run: RunDirectory) -> None:
    assert run.fitted() == {}
    run.add_session({"fitted": {"model.workers": 2}})
    run.add_session({"fitted": {"model.workers": 1}})
    assert run.fitted() == {"model.workers": 1}
    assert json.loads((run.path / "environment.json").read_text())["python"] == "3"
    (run.path / "environment.json").write_text("{")
    assert run.fitted() == {}
    run.add_session({"fitted": {"model.workers": 3}})
    assert run.fitted() == {"model.workers": 3}


def test_metrics_come_back_in_order_and_exactly(run: RunDirectory) -> None:
    assert run.metrics() == []
    lines = [{"step": i, "loss": 0.1 + 0.2 * i, "text": "é\u2028\n", "none": None} for i in range(3)]
    for line in lines:
        run.append_metrics(line)
    assert run.metrics() == lines
    assert (run.path / "metrics.jsonl").read_text().count("\n") == 3


def test_the_newest_line_is_the_last_whole_one(run: RunDirectory) -> None:
    assert run.newest_metrics() is None
    for step in (1, 2):
        run.append_metrics({"step": step})
    assert run.newest_metrics() == {"step": 2}
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3')
    assert run.newest_metrics() == {"step": 2}


def test_what_trackers_know_the_run_by_is_kept(run: RunDirectory) -> None:
    assert run.tracker_ids() == {}
    run.set_tracker_ids({"wandb": "abc"})
    assert RunDirectory(run.path).tracker_ids() == {"wandb": "abc"}
    for damaged in ("[1]", "{", ""):
        (run.path / "trackers.json").write_text(damaged)
        assert run.tracker_ids() == {}


def test_why_a_session_ended_is_kept_until_the_next_one(run: RunDirectory) -> None:
    with pytest.raises(RunError), run.stop_kept():
        raise RunError("first line\nthe disk is full")
    assert json.loads(run.stop_file.read_text()) == {"error": "the disk is full"}
    with pytest.raises(KeyboardInterrupt), run.stop_kept():
        raise KeyboardInterrupt
    assert json.loads(run.stop_file.read_text()) == {"error": ""}
    with pytest.raises(AssertionError), run.stop_kept():
        raise AssertionError
    assert json.loads(run.stop_file.read_text()) == {"error": "AssertionError"}
    with pytest.raises(ZeroDivisionError), run.stop_kept():
        raise ZeroDivisionError("division by zero")
    assert json.loads(run.stop_file.read_text()) == {"error": "ZeroDivisionError: division by zero"}
    with run.stop_kept():
        assert not run.stop_file.exists()
    assert not run.stop_file.exists()


def test_rewinding_drops_the_steps_after_it(run: RunDirectory) -> None:
    for step in range(1, 6):
        run.append_metrics({"step": step})
    run.rewind_metrics(3)
    assert [line["step"] for line in run.metrics()] == [1, 2, 3]
    run.append_metrics({"step": 4})
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4]


def test_rewinding_a_run_without_metrics_is_no_error(run: RunDirectory) -> None:
    run.rewind_metrics(0)
    assert run.metrics() == []


@pytest.mark.slow
@given(st.integers(1, 60))
def test_a_line_that_was_cut_off_anywhere_is_dropped_and_the_next_is_whole(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder) / "run")
        run.create(Config(), {})
        run.append_metrics({"step": 0})
        whole = (run.path / "metrics.jsonl").read_text()
        line = json.dumps({"step": 1, "a": "b" * 50})
        (run.path / "metrics.jsonl").write_text(whole + line[:cut])
        assert run.metrics() == [{"step": 0}]
        run.rewind_metrics(1)
        run.append_metrics({"step": 1})
        assert run.metrics() == [{"step": 0}, {"step": 1}]


def test_a_second_writer_is_refused_and_the_first_keeps_the_lock(run: RunDirectory) -> None:
    run.lock()
    other = RunDirectory(run.path)
    for _ in range(2):
        with pytest.raises(RunError, match=f"another process is training in {run.path}"):
            other.lock()
        other.unlock()
    run.unlock()
    other.lock()
    other.unlock()


def test_unlocking_what_is_not_locked_is_no_error(run: RunDirectory) -> None:
    run.unlock()
    run.lock()
    run.unlock()
    run.unlock()


def test_the_lock_dies_with_its_process(run: RunDirectory) -> None:
    code = f"""
import time
from pathlib import Path
from redqueen.store.directory import RunDirectory
directory = RunDirectory(Path({str(run.path)!r}))
directory.lock()
print("locked", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "locked\n"
        with pytest.raises(RunError, match="another process"):
            run.lock()
        run.unlock()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    run.lock()
    run.unlock()


def test_a_program_started_by_the_run_does_not_keep_its_lock(run: RunDirectory) -> None:
    run.lock()
    code = "print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        run.unlock()
        other = RunDirectory(run.path)
        other.lock()
        other.unlock()
        child.communicate("\n")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_text(path, "old" * 1000)
    code = f"""
import resource
from pathlib import Path
from redqueen.store.directory import write_text
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_text(Path({str(path)!r}), "new" * 10_000)
except OSError as error:
    print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)
    assert path.read_text() == "old" * 1000
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.slow
def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_text(path, "0" * 200_000)
    code = f"""
from pathlib import Path
from redqueen.store.directory import write_text
for n in range(150):
    write_text(Path({str(path)!r}), str(n % 10) * 200_000)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as writer:
        seen: set[tuple[int, int]] = set()
        while writer.poll() is None:
            text = path.read_text()
            seen.add((len(text), len(set(text))))
    assert writer.returncode == 0
    assert seen <= {(200_000, 1)}
    assert path.read_text() == "9" * 200_000


def test_a_number_that_is_not_finite_is_written_as_null(run: RunDirectory) -> None:
    run.append_metrics({"step": 1, "loss": {"S0": float("nan")}, "pair": (1.5, float("-inf"))})
    assert (run.path / "metrics.jsonl").read_text() == '{"step": 1, "loss": {"S0": null}, "pair": [1.5, null]}\n'
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "loss": NaN}\n')
    assert run.metrics()[1] == run.newest_metrics() == {"step": 2, "loss": None}


def test_writing_follows_no_link_that_came_with_a_run(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".report.html.tmp").symlink_to(tmp_path / "mine")
    write_text(tmp_path / "report.html", "new")
    assert (tmp_path / "mine").read_text() == "precious"
    assert (tmp_path / "report.html").read_text() == "new"
