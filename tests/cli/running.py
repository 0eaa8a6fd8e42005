"""Runs `redqueen` as a person would, in this process: an interpreter with torch of its own takes seconds to start."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from redqueen.cli.app import main


@dataclass(frozen=True, slots=True)
class Done:
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


def redqueen(*args: str, cwd: Path | None = None) -> Done:
    """Runs the command line's own entry point with these arguments, and restores the environment afterwards."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["redqueen", *args]),
        mock.patch.dict(os.environ),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _exit_code()
    return Done(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def started(*args: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the command in a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", "redqueen", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
