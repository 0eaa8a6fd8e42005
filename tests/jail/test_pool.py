"""The pool over many jobs: no leak, no zombie, no flood, and a clean end however it ends."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from redqueen.jail import GAME, Job, Limits, Outcome, Sandbox, pool
from redqueen.jail.child.values import marshalled, pack
from redqueen.jail.process import Interpreters
from redqueen.jail.worker import Worker
from tests.jail.processes import alive, of_group, zygotes
from tests.jail.reach import reach

ONE = Job("def f():\n    return 1", ("",))
SPIN = Job("def f():\n    while True:\n        pass", ("",))
CRASH = Job("def f():\n    raise SystemExit", ("",))
FLOOD = Job("def f():\n    return ['x' * 9_000] * 9", ("",))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_blocks(sandbox: Sandbox) -> tuple[int, int]:
    """How many blocks of memory Python holds in a child of zygote A, and here. Exact, unlike a process's size."""
    (outcome,) = sandbox.run([Job(reach("return sys.getallocatedblocks()"), ("",))])
    gc.collect()
    return int(outcome.outputs[0]), sys.getallocatedblocks()


@pytest.mark.slow
@pytest.mark.integration
@linux
def test_many_jobs_leak_neither_memory_nor_descriptors_nor_zombies() -> None:
    jobs = [ONE, CRASH, FLOOD, Job(ONE.program, ("",), validate=True)]
    with Sandbox(GAME.with_limits(Limits(wall_s=120.0)), workers=1) as sandbox:
        # Until caches are full, which takes longer from Python 3.12 on.
        sandbox.run(jobs * 40)
        pids = [zygote.process.pid for zygote in zygotes(sandbox)]
        before = (memory_blocks(sandbox), descriptors())
        statuses = [outcome.status for outcome in sandbox.run(jobs * 100)]
        assert statuses == ["ok", "error", "oversize", "ok"] * 100
        # Each is a text of its own, which takes a block.
        del statuses
        after = (memory_blocks(sandbox), descriptors())
        assert [zygote.process.pid for zygote in zygotes(sandbox)] == pids
        # A child inherits the zygote's memory. A leak of one block for each job would be 400 blocks on either side.
        assert after[0][0] - before[0][0] < 40
        assert after[0][1] - before[0][1] < 400
        assert after[1] == before[1]
        assert [of_group(pid) for pid in pids] == [[str(pid)] for pid in pids]


def test_handing_in_waits_when_too_many_jobs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_WAITING", 3)
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.1, wall_s=120.0)), workers=1) as sandbox:
        futures = [sandbox.submit(SPIN), sandbox.submit(ONE), sandbox.submit(ONE)]
        fourth = sandbox.submit(ONE)  # It has to wait for the first.
        assert futures[0].done()
        assert fourth.result().status == "ok"
        assert len(sandbox.run([ONE] * 30)) == 30
    # A refusal takes no room.
    for _ in range(5):
        with pytest.raises(RuntimeError):
            sandbox.submit(ONE)


SCRIPT = """
import sys, time
from redqueen.jail import GAME, Job, Limits, Sandbox
spin = Job("def f():\\n    while True:\\n        pass", ("",))
from tests.jail.processes import of_group, zygotes
futures, pids = [], []
try:
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.2)), workers=2) as sandbox:
        futures += [sandbox.submit(spin) for _ in range(500)]
        while not sandbox._interpreters.zygotes or len(pids) < 4:
            time.sleep(0.01)
            pids = [pid for zygote in zygotes(sandbox) for pid in of_group(zygote.process.pid)]
        print(*pids, flush=True)
        [future.result() for future in futures]
finally:
    print(sum(future.done() and not future.cancelled() for future in futures), flush=True)
"""


@pytest.mark.slow
@pytest.mark.integration
@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_trainer_ends_its_children(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pids = process.stdout.readline().split()
        # Two mothers and two children.
        assert len(pids) == 4
        process.send_signal(number)
        assert process.wait(timeout=120) != 0
        # They end when their parent does, but it is the kernel that tells them.
        deadline = time.monotonic() + 120
        while any(alive(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if number == signal.SIGINT:
            # It ended by itself, without the jobs that waited.
            assert int(process.stdout.read()) < 100


@linux
def test_close_leaves_neither_processes_nor_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Sandbox(workers=2) as sandbox:
        sandbox.run([Job(ONE.program, ("",), validate=True)] * 8)
        pids = [zygote.process.pid for zygote in zygotes(sandbox)]
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == before
    sandbox.close()


def test_a_forked_process_must_not_use_its_parents_sandbox(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_owner", os.getpid() + 1)
    with pytest.raises(RuntimeError, match="belongs to another process"):
        sandbox.submit(ONE)
    sandbox.close()  # does nothing there
    monkeypatch.undo()
    assert sandbox.run([ONE])[0].status == "ok"


def test_a_worker_goes_to_the_thread_that_has_waited_longest() -> None:
    worker = Worker(Interpreters(GAME))
    free = pool._FreeWorkers([worker])
    assert free.take(ONE, b"") is worker
    served: list[int] = []

    def serve(number: int) -> None:
        mine = free.take(ONE, b"")
        served.append(number)
        free.give_back(mine)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(free._waiting) <= number:
            time.sleep(0.001)
    # Whoever gives a worker back and wants another at once is the last in the line.
    free.give_back(worker)
    assert free.take(ONE, b"") is worker
    assert served == [0, 1, 2, 3]
    for thread in threads:
        thread.join()


def test_a_job_that_has_begun_is_done_once_and_also_after_its_zygote_died() -> None:
    work = marshalled((ONE.program, [pack(())]))
    interpreters = Interpreters(GAME)
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        # Nothing can begin before the first zygote is there.
        for _ in range(2):
            worker.begin(ONE, work)
            assert [run.status for run in worker.runs(ONE, work)] == ["ok"]
        worker.begin(ONE, work)
        os.killpg(interpreters.zygotes["A"].process.pid, signal.SIGKILL)
        assert [run.status for run in worker.runs(ONE, work)] == ["ok"]
        os.killpg(interpreters.zygotes["A"].process.pid, signal.SIGKILL)
        worker.begin(ONE, work)
        assert [run.status for run in worker.runs(ONE, work)] == ["ok"]
        assert worker.run(Job("def f(x):\n    return x", ("2",))).outputs == ("2",)


def test_a_zygote_that_dies_after_the_child_that_has_begun_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreters = Interpreters(GAME)
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        assert worker.run(ONE).status == "ok"
        dying = interpreters.zygotes["A"]
        worker.begin(SPIN, marshalled((SPIN.program, [pack(())])))
        while len(of_group(dying.process.pid)) < 2:
            time.sleep(0.001)
        # The child's death is seen first: to the next look its mother still seems to live.
        os.killpg(dying.process.pid, signal.SIGKILL)
        monkeypatch.setattr(dying, "alive", lambda: not dying.failed)
        assert [run.status for run in worker.runs(SPIN, marshalled((SPIN.program, [pack(())])))] == ["timeout"]
        assert interpreters.zygotes["A"] is not dying


def test_a_job_that_cannot_begin_is_its_own_threads_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreters = Interpreters(GAME)
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        assert worker.run(ONE).status == "ok"

        def fail(*_: object) -> None:
            raise ValueError("no such request")

        monkeypatch.setattr(worker, "_reference", fail)
        # By the thread that gives the worker back, which has another job's outcome to return.
        worker.begin(ONE, b"")
        with pytest.raises(ValueError, match="no such request"):
            worker.runs(ONE, b"")


def test_a_child_that_has_begun_fails_its_own_zygote_alone() -> None:
    interpreters = Interpreters(GAME)
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        assert worker.run(ONE).status == "ok"
        dead = interpreters.zygotes["A"]
        os.kill(dead.process.pid, signal.SIGSTOP)
        worker.begin(ONE, marshalled((ONE.program, [pack(())])))
        os.killpg(dead.process.pid, signal.SIGKILL)
        while dead.alive():
            time.sleep(0.001)
        fresh = interpreters.get("A")
        assert [run.status for run in worker.runs(ONE, marshalled((ONE.program, [pack(())])))] == ["ok"]
        assert interpreters.zygotes["A"] is fresh


def test_a_child_that_has_begun_and_is_not_waited_for_is_ended() -> None:
    interpreters = Interpreters(GAME)
    worker = Worker(interpreters)
    with contextlib.closing(interpreters):
        assert worker.run(ONE).status == "ok"
        mother = interpreters.zygotes["A"].process.pid
        worker.begin(SPIN, marshalled((SPIN.program, [pack(())])))
        while len(of_group(mother)) < 2:
            time.sleep(0.001)
        worker.close()
        assert of_group(mother) == [str(mother)]


def test_submitting_does_not_wait(brief_sandbox: Sandbox) -> None:
    futures = [brief_sandbox.submit(SPIN), brief_sandbox.submit(ONE)]
    assert not any(future.done() for future in futures)
    assert [future.result().status for future in futures] == ["timeout", "ok"]


def test_leaving_in_an_error_drops_the_jobs_that_wait() -> None:
    def leave(sandbox: Sandbox) -> None:
        with sandbox:
            futures.extend(sandbox.submit(SPIN) for _ in range(50))
            raise KeyError

    futures: list[Future[Outcome]] = []
    with pytest.raises(KeyError):
        leave(Sandbox(GAME.with_limits(Limits(cpu_s=0.1, wall_s=120.0)), workers=1))
    assert sum(future.cancelled() for future in futures) >= 48


def test_a_sandbox_made_in_a_thread_outlives_it() -> None:
    with ThreadPoolExecutor(1) as other:
        sandbox = other.submit(Sandbox, workers=1).result()
    with sandbox:
        assert sandbox.run([ONE, ONE])[1].status == "ok"


def test_nothing_heavy_is_imported() -> None:
    script = "import sys, redqueen.jail\nprint(sorted({'torch', 'numpy', 'pydantic', 'pickle'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "[]"
