"""Zygotes: those that die, what they remember and what they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from redqueen.jail import (
    GAME,
    Job,
    Limits,
    Sandbox,
    running,
)
from redqueen.jail.process import Interpreters, Zygote
from redqueen.jail.running import Child, Reply, ZygoteError
from redqueen.jail.worker import Worker
from tests.jail.processes import alive, kill_zygotes

pytestmark = pytest.mark.integration

ONE = Job("def f():\n    return 1", ("",))
SPIN = Job("def f():\n    while True:\n        pass", ("",))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def _zygote(sandbox: Sandbox, name: str = "A") -> Zygote:
    return sandbox._interpreters.zygotes[name]


def test_a_zygote_that_died_between_jobs_is_replaced() -> None:
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run([ONE])[0].status == "ok"
        os.killpg(_zygote(sandbox).process.pid, signal.SIGKILL)
        assert sandbox.run([ONE])[0].status == "ok"


def test_a_zygote_that_dies_twice_over_one_job_is_the_machines_fault() -> None:
    killed: set[int] = set()
    with Sandbox(GAME.with_limits(Limits(cpu_s=600.0, wall_s=600.0)), workers=1) as sandbox:
        future = sandbox.submit(SPIN)
        while not future.done():
            killed |= kill_zygotes(sandbox)
            time.sleep(0.05)
        outcome = future.result()
        # Three, if the first died before it gave a child.
        assert 2 <= len(killed) <= 3
        assert (outcome.status, outcome.outputs) == ("infra_error", ())
        assert sandbox.run([ONE])[0].status == "ok"


def test_a_zygote_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreters = Interpreters(GAME.with_limits(Limits(wall_s=120.0)))
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        assert worker.run(ONE).status == "ok"
        hanging = interpreters.zygotes["A"]
        os.kill(hanging.process.pid, signal.SIGSTOP)
        # The parent waits 0.2 s for the zygote that hangs, and as long as ever for the one that replaces it.
        monkeypatch.setattr(running, "GRACE_S", 0.2 - 120.0)
        close = hanging.close
        monkeypatch.setattr(hanging, "close", lambda: (monkeypatch.undo(), close()))
        assert worker.run(ONE).status == "ok"
        assert interpreters.zygotes["A"] is not hanging


def test_an_interpreter_that_does_not_start_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcome = Worker(Interpreters(GAME)).run(ONE)
    assert outcome.status == "infra_error"


@linux
def test_the_zygotes_environment_is_wiped_and_its_descriptors_are_few(sandbox: Sandbox) -> None:
    sandbox.run([Job(ONE.program, ("",), validate=True)] * 20)
    for name in ("A", "B"):
        entry = Path(f"/proc/{_zygote(sandbox, name).process.pid}")
        try:
            assert entry.joinpath("environ").read_bytes().strip(b"\0") == b""
            assert len(list(entry.joinpath("fd").iterdir())) == 3
        except PermissionError:
            pytest.skip("only root may look into another user's process")


@linux
def test_a_zygote_remembers_nothing_of_its_jobs() -> None:
    # Every later child inherits the zygote's memory, and one program's outputs may be what another must find.
    secrets = [b"in-the-" + b"program", b"in-the-" + b"input", b"in-the-" + b"output"]
    program = "def f(x):\n    'in-the-program'\n    return 'in-the-' + 'output' + x[:0]"
    long = "def f(x):\n    return 'in-the-' + 'output ' * 4000 + x[:0]"
    with Sandbox(workers=1) as sandbox:
        jobs = [Job(program, ("'in-the-input'",) * 9, validate=True), Job(long, ("'in-the-input'",))] * 3
        assert {outcome.status for outcome in sandbox.run(jobs)} == {"ok", "oversize"}
        # A job is wiped before the next one is read.
        sandbox.run([Job(ONE.program, ("",), validate=True)])
        for name in ("A", "B"):
            try:
                memory = _memory(_zygote(sandbox, name).process.pid)
            except PermissionError:
                pytest.skip("only root may look into another user's process")
            assert b"collections" in memory
            assert [secret for secret in secrets if secret in memory] == []


def _memory(pid: int) -> bytes:
    """All writable memory of another process."""
    parts: list[bytes] = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                memory.seek(start)
                parts.append(memory.read(end - start))
    return b"".join(parts)


@linux
def test_everything_dies_with_the_parent() -> None:
    script = (
        "import os, time\n"
        "from redqueen.jail import GAME, Job, Limits, Sandbox\n"
        "from tests.jail.processes import of_group\n"
        "sandbox = Sandbox(GAME.with_limits(Limits(cpu_s=600.0, wall_s=600.0)), workers=1)\n"
        "sandbox.submit(Job('def f():\\n    while True:\\n        pass', ('',)))\n"
        "while not sandbox._interpreters.zygotes:\n    time.sleep(0.01)\n"
        "pid = sandbox._interpreters.zygotes['A'].process.pid\n"
        "while len(pids := of_group(pid)) < 2:\n    time.sleep(0.01)\n"
        "print(*pids, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    pids = ended.stdout.split()
    assert len(pids) == 2, ended.stderr
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and any(alive(pid) for pid in pids):
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


def test_a_program_that_was_starved_is_tried_again_with_four_times_the_wall_clock(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    walls_s: list[float] = []

    def starve(child: Child, hear: Callable[[bytes, bool], bool]) -> Reply:
        del hear
        walls_s.append(child._asked.wall_s)
        child.abandon()
        raise ZygoteError("starved: 300 ms of CPU in 4000 ms")

    monkeypatch.setattr(Child, "wait", starve)
    (outcome,) = sandbox.run([Job("def f(x):\n    return x", ("1",))])
    assert (outcome.status, outcome.detail) == ("infra_error", "starved: 300 ms of CPU in 4000 ms")
    assert walls_s == [sandbox.profile.limits.wall_s, 4 * sandbox.profile.limits.wall_s]
