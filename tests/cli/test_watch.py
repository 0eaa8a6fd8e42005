"""`redqueen watch`: the address that it prints is the page's, and what cannot be served is one line."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from redqueen.base import server
from redqueen.errors import UserError
from tests.cli.running import redqueen, started


@pytest.mark.integration
def test_the_address_that_is_printed_answers_until_ctrl_c(finished: Path) -> None:
    with started("watch", str(finished), "--port", "0") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert str(finished) in lines[0]
        assert "ssh -L" in lines[1]
        with urllib.request.urlopen(lines[2].strip()) as answer:
            assert b"Red Queen" in answer.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert errors == ""


def test_a_port_that_is_taken_is_one_line_and_the_default_takes_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind((server.HOST, 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {taken} is in use: choose another"):
            server.bind(taken)
        monkeypatch.setattr(server, "PORT", taken)
        with server.bind(None) as listener:
            assert listener.getsockname()[1] > taken
        monkeypatch.setattr(server, "_TRIES", 1)
        with pytest.raises(UserError, match="is free"):
            server.bind(None)


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    done = redqueen("watch", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("redqueen: ")
    assert "holds no run" in done.stderr
    assert done.stderr.count("\n") == 1
