"""A run holds its own files: links, second names, journals and paths that lead out of its folder are refused."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from pathlib import Path

import pytest

from redqueen.config import Config
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.files import check_archive, check_tree, check_within


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.create(Config(), {})
    Archive(directory.archive).close()
    return directory


def journal_naming(archive: Path, file: Path) -> bytes:
    """Returns a journal of no page, after whose undoing SQLite removes the file that it names."""
    mark = bytes.fromhex("d9d505f920a163d7")
    head = mark + struct.pack(">5I", 0, 0, archive.stat().st_size // 4096, 512, 4096)
    name = str(file).encode()
    return head.ljust(512, b"\0") + struct.pack(">I", 262145) + name + struct.pack(">2I", len(name), sum(name)) + mark


def test_the_folder_of_a_run_may_be_a_link_that_its_user_made(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run.path)
    latest = RunDirectory(tmp_path / "latest")
    assert latest.config() == run.config()
    latest.lock()
    latest.append_metrics({"step": 1})
    latest.unlock()
    assert run.metrics() == [{"step": 1}]


def test_a_link_is_refused_before_the_lock_is_made(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "notes").symlink_to(tmp_path / "notes")
    for use in (run.config, run.metrics, run.newest_metrics, run.lock):
        with pytest.raises(RunError, match="notes is a link, and a run holds its own files"):
            use()
    assert not (run.path / ".lock").exists()


def test_links_are_found_at_any_depth(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    deep = folder.joinpath(*["f"] * 300)
    deep.mkdir(parents=True)
    check_tree(folder)
    (deep / "link").symlink_to(tmp_path)
    with pytest.raises(RunError, match="link is a link"):
        check_tree(folder)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_what_sqlite_writes_in_place_has_no_second_name(run: RunDirectory, tmp_path: Path, ending: str) -> None:
    victim = tmp_path / "victim"
    archive = run.archive.with_name(run.archive.name + ending)
    if not ending:
        archive.rename(victim)
    else:
        victim.write_bytes(b"mine" * 999)
    archive.hardlink_to(victim)
    before = victim.read_bytes()
    with pytest.raises(RunError, match=r"is a hard link, so it has other names as well: put a copy in its place"):
        Archive(run.archive)
    # A run is often copied by hard links, and reading the archive itself changes nothing.
    if ending:
        with pytest.raises(RunError, match="is a hard link"):
            ArchiveReader(run.archive)
    else:
        ArchiveReader(run.archive).close()
    assert victim.read_bytes() == before


def test_metrics_are_never_appended_to_a_second_name(run: RunDirectory, tmp_path: Path) -> None:
    run.append_metrics({"step": 1})
    (tmp_path / "victim").hardlink_to(run.metrics_file)
    run.rewind_metrics(1)
    run.append_metrics({"step": 2})
    assert (tmp_path / "victim").read_text() == '{"step": 1}\n'
    assert len(run.metrics()) == 2


def test_a_journal_may_not_have_sqlite_remove_a_file(run: RunDirectory, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    journal = run.archive.with_name("run.sqlite-journal")
    journal.write_bytes(journal_naming(run.archive, victim))
    for use in (lambda: Archive(run.archive), lambda: ArchiveReader(run.archive)):
        with pytest.raises(RunError, match=r"run\.sqlite-journal names another file, which would be removed"):
            use()
    assert victim.read_text() == "mine"
    # That SQLite would is what the check is for.
    with sqlite3.connect(run.archive) as connection:
        connection.execute("SELECT * FROM members").fetchall()
    assert not victim.exists()


def test_a_journal_of_a_run_that_was_killed_is_undone(run: RunDirectory) -> None:
    journal = run.archive.with_name("run.sqlite-journal")
    journal.write_bytes(journal_naming(run.archive, Path())[:512])
    Archive(run.archive).close()
    check_archive(run.archive, writes=True)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "members/../../x", ".."])
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="which lies outside of it"):
        check_within(name)


def test_names_within_are_not(tmp_path: Path) -> None:
    for name in ("state.json", "members/S3@40/adapter_model.safetensors", "a..b"):
        check_within(name)


def test_an_archive_that_is_a_pipe_is_not_waited_for(run: RunDirectory) -> None:
    wal = run.archive.with_name("run.sqlite-wal")
    os.mkfifo(wal)
    with pytest.raises(RunError, match=r"run\.sqlite-wal is no ordinary file"):
        ArchiveReader(run.archive)


def test_a_folder_that_cannot_be_listed_says_so(run: RunDirectory) -> None:
    if os.geteuid() == 0:
        pytest.skip("root lists every folder")
    run.path.chmod(0o300)
    with pytest.raises(RunError, match="cannot read"):
        run.check_links()
    run.path.chmod(0o700)


def test_a_line_of_metrics_is_on_the_disk_when_it_is_written(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bytes] = []
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())

    monkeypatch.setattr(os, "fsync", seen)
    run.append_metrics({"step": 1})
    run.append_metrics({"step": 2})
    run.rewind_metrics(1)
    lines = [b"".join(json.dumps({"step": step}).encode() + b"\n" for step in steps) for steps in ([1], [1, 2], [1])]
    assert flushed == lines
