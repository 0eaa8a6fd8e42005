"""The run directory: what a run leaves on disk, and who may write to it.

config.json  environment.json  metrics.jsonl  run.sqlite  checkpoints/
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from redqueen.base.plain_files import open_plain, parse_json, read_plain
from redqueen.config import Config, resolve
from redqueen.errors import UserError
from redqueen.store.files import (
    LARGE,
    RunError,
    check_entries,
    check_tree,
    read_object,
    to_json,
    write_json,
    write_text,
)
from redqueen.store.metrics import OwnMetric, StepMetrics

_LOCK = ".lock"
_ENVIRONMENT = "environment.json"
_TRACKERS = "trackers.json"
FITTED = (
    "model.workers",
    "learning.checkpointing",
    "learning.batch_tokens",
    "sampling.batch_rows",
    "sampling.cache_tokens",
    "sampling.prefill_tokens",
    "sampling.engine",
    "sampling.vllm_cache_gb",
)
"""The settings that a session may be fitted into memory with, and keeps in environment.json for the next one."""


class RunDirectory:
    """The paths and small files of one run.

    A process that trains in it calls `lock` first, so that two processes never write the same files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.archive = path / "run.sqlite"
        self.evaluation = path / "evaluation.json"
        self.metrics_file = path / "metrics.jsonl"
        self.now_file = path / "now.json"
        """What a process that trains here is doing. It is there only while one does, or after a kill."""
        self.stop_file = path / "stopped.json"
        """Why the newest session ended before its last step; "" if a person or a batch system stopped it."""
        self.config_file = path / "config.json"
        self._lock: int | None = None
        self._made: list[Path] = []

    @property
    def exists(self) -> bool:
        """Whether anything is there already, a run or not. The lock of a process that is about to start is nothing."""
        return occupied(self.path, besides=_LOCK)

    @property
    def unstarted(self) -> bool:
        """Whether nothing is there but what a start leaves that ended before its first checkpoint.

        A start makes the lock first. Without it the folder is somebody's who put these files there.
        """
        if not (self.path / _LOCK).exists():
            return False
        if any(self.checkpoints.glob("[!.]*")) or (self.metrics_file.exists() and self.metrics_file.stat().st_size):
            return False
        return all(_is_of_a_start(path.name) for path in self.path.iterdir()) and not _has_steps(self.archive)

    def claim(self) -> None:
        """Makes the directory of a new run if need be, locks it, and clears what an earlier start left in it.

        Raises RunError if something else is there, if another process trains there, or if it cannot be written.
        """
        self._made = [path for path in (self.path, *self.path.parents) if not exists(path)]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error
        new = not (self.path / _LOCK).exists()
        self.lock()
        # A refused start gives the lock up: this process may go on, and try again.
        try:
            if not new and self.unstarted:
                self._clear()
            if self.exists:
                # A folder of other things is left as it was.
                if new:
                    (self.path / _LOCK).unlink()
                what = (
                    "holds a run already: resume it, or choose" if self.config_file.exists() else "is not empty: choose"
                )
                raise RunError(f"{self.path} {what} another folder")
        except BaseException:
            self.unlock()
            raise

    def release(self) -> None:
        """Unlocks the directory. If nothing was trained, all that was made for the run is removed."""
        try:
            if self.unstarted:
                self._clear()
                (self.path / _LOCK).unlink(missing_ok=True)
                for path in self._made:
                    # Another run may have been started in a folder that was new for this one.
                    if any(path.iterdir()):
                        break
                    path.rmdir()
        finally:
            self.unlock()

    def _clear(self) -> None:
        """Removes everything but the lock."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()

    def create(self, config: Config, environment: Mapping[str, object]) -> None:
        """Makes the directory of a new run.

        Raises RunError if something is there already, or if it cannot be written.
        """
        if self.exists:
            raise RunError(f"{self.path} is not empty")
        try:
            self.checkpoints.mkdir(parents=True)
            write_json(self.config_file, config.model_dump(mode="json"))
            write_json(self.path / _ENVIRONMENT, environment)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error

    def lock(self) -> None:
        """Claims the directory for this process, which may write to it then.

        Raises RunError if another process trains in it, or if a link in it leads elsewhere.
        """
        self.check_links()
        check_tree(self.checkpoints)
        # The kernel drops a flock when its process ends, however it ends. A file that merely exists would outlive a
        # kill and would have to be removed by hand.
        try:
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            raise RunError(f"another process is training in {self.path}") from None
        except OSError as error:
            self.unlock()
            raise RunError(
                f"cannot lock {self.path} ({error.strerror}): choose a folder in a file system that has locks, such as "
                "a local disk"
            ) from error

    def unlock(self) -> None:
        """Gives the directory up; does nothing if it was not locked."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_locked(self) -> bool:
        """Returns whether a process of this machine trains in the directory."""
        # Trying the lock would hold it for a moment, and a run that starts in that moment would be refused. The
        # kernel's table can be read without touching it: `1: FLOCK  ADVISORY  WRITE 6142 fe:00:2705838 0 EOF`.
        try:
            lock = (self.path / _LOCK).stat()
            table = Path("/proc/locks").read_text()
        except OSError:
            return False
        # The number of a file system without a device of its own, such as btrfs, is another one in this table.
        device = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}" if os.major(lock.st_dev) else ""
        return any("FLOCK" in line and f"{device}:{lock.st_ino} " in line for line in table.splitlines())

    def check_links(self) -> None:
        """Raises RunError if a file or folder of the run is a link (`redqueen.store.files`)."""
        check_entries(self.path)
        check_entries(self.checkpoints)

    def config(self) -> Config:
        """Returns the resolved configuration. Raises RunError if the directory holds no run, or a link."""
        if not exists(self.path):
            raise RunError(f"the folder {self.path} does not exist")
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file: give the folder of a run")
        if not self.config_file.exists():
            raise RunError(f"{self.path} holds no run: it has no config.json")
        self.check_links()
        return read_config(self.config_file)

    def fitted(self) -> dict[str, object]:
        """Returns the settings that the newest session of the run was fitted into memory with; {} if they are lost."""
        # environment.json is a record for people. A run can do without it, and be resumed on another machine.
        data = read_object(self.path / _ENVIRONMENT)
        try:
            newest: Any = [data, *data.get("resumed", [])][-1]["fitted"]
        except (LookupError, TypeError):
            return {}
        # The file may have come from somebody else with the run, and may set nothing but these.
        return {key: newest[key] for key in FITTED if key in newest} if isinstance(newest, dict) else {}

    def own_metrics(self) -> list[OwnMetric]:
        """Returns what is kept of the metrics of the run's plugins; [] if that is lost."""
        kept = read_object(self.path / _ENVIRONMENT).get("metrics", [])
        names = [field.name for field in fields(OwnMetric)]
        try:
            return [OwnMetric(**{name: str(metric[name]) for name in names}) for metric in kept]
        except (LookupError, TypeError):
            return []

    def add_session(self, session: Mapping[str, object]) -> None:
        file = self.path / _ENVIRONMENT
        data = read_object(file)
        before = data.get("resumed")
        write_json(file, {**data, "resumed": [*(before if isinstance(before, list) else []), dict(session)]})

    @contextmanager
    def stop_kept(self) -> Generator[None]:
        """Keeps why a session ends before its last step, for those who look at the run later."""
        self.stop_file.unlink(missing_ok=True)
        try:
            yield
        except BaseException as error:
            said = "" if isinstance(error, KeyboardInterrupt) else _last_words(error)
            # A full disk may be the reason, and then it must stay the error.
            with suppress(OSError):
                write_json(self.stop_file, {"error": said})
            raise

    def saved(self) -> list[int]:
        """Returns the steps that have a checkpoint, in order."""
        return saved_steps(self.checkpoints)

    def kept(self, step: int | None) -> int:
        """Returns the step of the checkpoint after `step` steps, by default the newest. Raises RunError without one."""
        saved = self.saved()
        if not saved:
            raise RunError(f"{self.path} has no checkpoint: nothing was trained here")
        if step is not None and step not in saved:
            raise RunError(f"{self.path} has no checkpoint at step {step}: choose one of {', '.join(map(str, saved))}")
        return saved[-1] if step is None else step

    def set_config(self, config: Config) -> None:
        """Replaces the configuration, for a run that is resumed with more steps."""
        write_json(self.config_file, config.model_dump(mode="json"))

    def metrics(self) -> list[StepMetrics]:
        """Returns all complete lines of metrics.jsonl. Raises RunError if the file is damaged or was removed."""
        self.check_links()
        if not self.metrics_file.exists():
            if any(self.saved()):
                raise RunError(
                    f"{self.metrics_file} is missing: put it back, or make an empty one to go without its lines"
                )
            return []
        try:
            text = read_plain(self.metrics_file, LARGE).decode()
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.metrics_file}: {error}") from error
        # A line without its end was cut off by a kill; the step that it tells of is played again on a resume.
        lines = text.splitlines(keepends=True)
        return [self._step(number, line) for number, line in enumerate(lines, 1) if line.endswith("\n")]

    def _step(self, number: int, line: str | bytes) -> StepMetrics:
        """Returns a line of metrics.jsonl as data."""
        try:
            data = parse_json(line)
        except ValueError:
            data = None
        if not isinstance(data, dict) or type(cast(dict[str, Any], data).get("step")) is not int:
            raise RunError(f"{self.metrics_file}, line {number}, is damaged: put the file back, or remove the line")
        return data

    def newest_metrics(self) -> StepMetrics | None:
        """Returns the last complete line of metrics.jsonl, None if there is none. Raises RunError if it is damaged."""
        self.check_links()
        newest = None
        try:
            with open_plain(self.metrics_file) as file:
                for number, line in enumerate(file, 1):
                    newest = (number, line) if line.endswith(b"\n") else newest
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"cannot read {self.metrics_file}: {error}") from error
        return None if newest is None else self._step(*newest)

    def tracker_ids(self) -> dict[str, str]:
        """Returns what trackers know the run by, as `set_tracker_ids` left it; {} if that is lost."""
        # Without an id a tracker starts a new run of its own, which is better than none.
        return {name: str(value) for name, value in read_object(self.path / _TRACKERS).items()}

    def set_tracker_ids(self, ids: Mapping[str, str]) -> None:
        """Keeps what trackers know the run by, for a session that resumes it."""
        write_json(self.path / _TRACKERS, dict(ids))

    def append_metrics(self, line: StepMetrics) -> None:
        """Adds one line to metrics.jsonl. A number that is not finite, as of a run that diverged, is null."""
        # The line must be on the disk before the checkpoint of its step is: nothing would play that step again.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self.metrics_file, flags, 0o666), "a") as file:
            file.write(to_json(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rewind_metrics(self, step: int) -> None:
        """Drops the lines of the steps after `step`, and a line that was cut off. The file is a new one then."""
        lines = [to_json(line) + "\n" for line in self.metrics() if line["step"] <= step]
        write_text(self.metrics_file, "".join(lines))


def read_config(file: Path) -> Config:
    """Returns the configuration in a config.json. Raises RunError if it cannot be read or is of another version.

    A run may come from somebody else. So the modules that it names are not imported (`redqueen.config.resolve`), and
    its word for running programs without isolation counts as little: only a command line has it.
    """
    try:
        data = parse_json(read_plain(file))
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{file} is damaged ({error}): put it back") from error
    if not isinstance(data, dict):
        raise RunError(f"{file} is no configuration: it holds no JSON object")
    try:
        config = resolve(cast(dict[str, Any], data))
    except UserError as error:
        raise RunError(f"{file} does not fit this version of Red Queen: {error}") from error
    return config.without_isolation(allowed=False)


def occupied(path: Path, besides: str = "") -> bool:
    """Returns whether `path` is a file or a folder that is not empty, so that writing there would mix with it.

    The file called `besides` does not count.
    """
    if not exists(path):
        return False
    try:
        return not path.is_dir() or any(entry.name != besides for entry in path.iterdir())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error


def check_free(out: Path) -> None:
    """Raises UserError if `out` cannot be a new folder, because it is a file or holds something."""
    if occupied(out):
        raise UserError(
            f"{out} is not empty: choose another folder" if out.is_dir() else f"{out} is a file: choose a folder"
        )


def exists(path: Path) -> bool:
    """Returns whether there is a file or folder `path`. Raises RunError if that cannot be known."""
    try:
        return path.exists()
    # A folder on the way that may not be entered, or a name that is too long.
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error


def _last_words(error: BaseException) -> str:
    """Returns the last line of what an error says, with its class if it is none of ours, which are sentences."""
    said = (str(error).strip().splitlines() or [""])[-1]
    if isinstance(error, UserError):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _is_of_a_start(name: str) -> bool:
    """Returns whether a new run makes a file or folder of this name before its first checkpoint."""
    written = ("config.json", "environment.json", "stopped.json")
    return name in (
        *(_LOCK, "checkpoints", "metrics.jsonl", *written, *(f".{name}.tmp" for name in written)),
        *(f"run.sqlite{ending}" for ending in ("", "-wal", "-shm", "-journal")),
    )


def _has_steps(archive: Path) -> bool:
    """Returns whether an archive has a step's records, or cannot be read."""
    if not archive.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{archive.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            # A start that was killed may have made no table.
            return bool(tables) and connection.execute("SELECT 1 FROM standings LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True


def saved_steps(checkpoints: Path) -> list[int]:
    """Returns the steps that have a checkpoint in this folder, in order."""
    # People rename a damaged checkpoint to step-000005.bad and the like. Such a folder must not count as step 5.
    matches = (re.fullmatch(r"step-(\d+)", path.name) for path in checkpoints.glob("step-*") if path.is_dir())
    return sorted(int(match[1]) for match in matches if match)
