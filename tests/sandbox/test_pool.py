"""The pool over many jobs: no leak, no zombie, no starvation, no flood, and a clean end whoever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from redqueen.sandbox import GAME, Job, Limits, Sandbox, pool

ONE = Job("def f():\n    return 1", ("",))
SPIN = Job("def f():\n    while True:\n        pass", ("",))
CRASH = Job("def f():\n    raise SystemExit", ("",))
FLOOD = Job("def f():\n    return ['x' * 9_000] * 9", ("",))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def resident_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.integration
@linux
def test_many_jobs_leak_neither_memory_nor_descriptors_nor_zombies() -> None:
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.2)), workers=1) as sandbox:
        jobs = [ONE, CRASH, FLOOD, Job(ONE.program, ("",), validate=True)]
        sandbox.run(jobs * 25)
        zygotes = [zygote.process.pid for zygote in sandbox._workers[0].zygotes.values()]
        before = [resident_kb(pid) for pid in (os.getpid(), *zygotes)], descriptors()
        outcomes = sandbox.run(jobs * 100)
        after = [resident_kb(pid) for pid in (os.getpid(), *zygotes)], descriptors()
        assert [outcome.status for outcome in outcomes] == ["ok", "error", "oversize", "ok"] * 100
        assert [zygote.process.pid for zygote in sandbox._workers[0].zygotes.values()] == zygotes
        assert all(late - early < 1_024 for early, late in zip(before[0], after[0], strict=True))
        assert after[1] == before[1]
        for pid in zygotes:
            assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""


@pytest.mark.integration
def test_programs_that_take_the_full_limit_do_not_block_the_others() -> None:
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.5)), workers=2) as sandbox:
        slow = threading.Thread(target=lambda: [sandbox.run([SPIN]) for _ in range(3)])  # one at a time, all the time
        slow.start()
        started, done = time.monotonic(), 0
        while slow.is_alive():
            assert sandbox.run([ONE])[0].status == "ok"
            done += 1
        assert done > 20 * (time.monotonic() - started)


def test_handing_in_waits_when_too_many_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_WAITING", 3)
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.3)), workers=1) as sandbox:
        futures = [sandbox.submit(SPIN), sandbox.submit(ONE), sandbox.submit(ONE)]
        fourth = sandbox.submit(ONE)  # has to wait for the first
        assert futures[0].done()
        assert fourth.result().status == "ok"
        assert len(sandbox.run([ONE] * 30)) == 30
    for _ in range(5):  # a refusal takes no room
        with pytest.raises(RuntimeError):
            sandbox.submit(ONE)


SCRIPT = """
import sys, time
from redqueen.sandbox import GAME, Job, Limits, Sandbox
with Sandbox(GAME.with_limits(Limits(cpu_s=0.5)), workers=2) as sandbox:
    spin = Job("def f():\\n    while True:\\n        pass", ("",))
    futures = [sandbox.submit(spin) for _ in range(500)]
    while len(sandbox._workers) < 2 or not all(worker.zygotes for worker in sandbox._workers):
        time.sleep(0.01)
    print(*(zygote.process.pid for worker in sandbox._workers for zygote in worker.zygotes.values()), flush=True)
    [future.result() for future in futures]
"""


@pytest.mark.integration
@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_trainer_ends_its_children(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        zygotes = process.stdout.readline().split()
        assert len(zygotes) == 2
        started = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=20) != 0
        while any(Path(f"/proc/{pid}").exists() for pid in zygotes):
            assert time.monotonic() - started < 10
            time.sleep(0.02)
    if number == signal.SIGINT:  # it ends by itself, without the 498 jobs that waited
        assert time.monotonic() - started < 5
