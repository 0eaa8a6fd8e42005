"""The parts around the program: probes and tiers, zygotes that die, what is left in the system, the filter itself."""

from __future__ import annotations

import importlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from redqueen.sandbox import (
    GAME,
    IsolationError,
    Job,
    Limits,
    Outcome,
    Probe,
    Profile,
    Sandbox,
    child,
    pool,
    probe,
    probes,
    process,
)
from redqueen.sandbox.child.protocol import FLOOD, RAN, WALL
from redqueen.sandbox.child.values import encode
from redqueen.sandbox.process import Reply, Zygote, ZygoteError
from redqueen.sandbox.transcript import Run as Story
from redqueen.sandbox.transcript import Transcript, judge_reply
from redqueen.sandbox.worker import Worker
from tests.sandbox.reach import end, value

Run = Callable[..., Outcome]

ONE = Job("def f():\n    return 1", ("",))
SPIN = Job("def f():\n    while True:\n        pass", ("",))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_the_tier_follows_from_the_probes() -> None:
    tier, items = probe()
    found = {item.name: item.ok for item in items}
    assert {"files", "sockets", "processes", "signals", "hash seeds", "addresses", "seccomp"} <= found.keys()
    assert (tier == "full") == all(item.ok for item in items if item.required or item.name == "landlock")


@pytest.mark.parametrize(("broken", "tier"), [("seccomp", "process"), ("landlock", "no-landlock"), ("", "full")])
def test_each_missing_wall_is_named_and_lowers_the_tier(
    monkeypatch: pytest.MonkeyPatch, broken: str, tier: str
) -> None:
    if probe()[0] != "full":
        pytest.skip("this machine is not the best case to take walls from")
    start = Zygote.__init__

    def weaker(self: Zygote, profile: Profile, hash_seed: int) -> None:
        start(self, profile, hash_seed)
        self.isolation |= {"seccomp": {"seccomp": False}, "landlock": {"landlock": "absent"}}.get(broken, {})

    monkeypatch.setattr(Zygote, "__init__", weaker)
    found, items = probes._probe_once.__wrapped__()
    assert found == tier
    assert [item.name for item in items if not item.ok] == ([broken] if broken else [])


def test_no_isolation_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Probe("seccomp", False, "the filter does not load"), Probe("clocks", False, "", required=False)]
    monkeypatch.setattr(pool, "probe", lambda: ("process", items))
    with pytest.raises(
        IsolationError, match=r"isolated on this machine: seccomp \(the filter does not load\); --unsafe-no-isolation "
    ):
        Sandbox(workers=1)
    with Sandbox(workers=1, allow_unsafe=True) as unsafe:
        assert unsafe.tier == "process"


def _zygote(sandbox: Sandbox, name: str = "A") -> Zygote:
    return sandbox._workers[0].zygotes[name]


def test_a_zygote_that_died_between_jobs_is_replaced() -> None:
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run([ONE])[0].status == "ok"
        os.killpg(_zygote(sandbox).process.pid, signal.SIGKILL)
        assert sandbox.run([ONE])[0].status == "ok"


def test_a_zygote_that_dies_twice_over_one_job_is_the_machines_fault() -> None:
    killed: set[int] = set()
    with Sandbox(GAME.with_limits(Limits(cpu_s=5.0, wall_s=10.0)), workers=1) as sandbox:
        future = sandbox.submit(SPIN)
        while not future.done():
            time.sleep(0.02)
            running = sandbox._workers[0].zygotes.get("A") if sandbox._workers else None
            if running is not None and running.process.pid not in killed:
                time.sleep(0.1)
                killed.add(running.process.pid)
                os.killpg(running.process.pid, signal.SIGKILL)
        outcome = future.result()
        assert len(killed) == 2
        assert (outcome.status, outcome.outputs) == ("infra_error", ())
        assert sandbox.run([ONE])[0].status == "ok"


def test_a_zygote_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.1)
    worker = Worker(GAME.with_limits(Limits(wall_s=0.2)))
    try:
        assert worker.run(ONE).status == "ok"
        os.kill(worker.zygotes["A"].process.pid, signal.SIGSTOP)
        assert worker.run(ONE).status == "ok"  # by the second zygote
    finally:
        worker.close()


def test_an_interpreter_that_does_not_start_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    worker = Worker(GAME.with_limits(Limits()))
    outcome = worker.run(ONE)
    assert (outcome.status, outcome.detail) == ("infra_error", "the zygote ended")


def _judge(
    data: bytes = b"L", stop: int = RAN, killed_by: int = 0, code: int = 0, cpu_ms: float = 5.0, walled: bool = True
) -> Story:
    said = Transcript(1, 100)
    said.feed(data)
    return judge_reply(Reply(stop=stop, signal=killed_by, code=code, cpu_ms=cpu_ms, wall_ms=4000.0), said, 1.0, walled)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"killed_by": 9, "cpu_ms": 1001}, "timeout"),
        ({"stop": WALL, "killed_by": 9, "cpu_ms": 3900}, "timeout"),
        ({"stop": FLOOD, "killed_by": 9, "data": b""}, "oversize"),
        ({"killed_by": 11}, "error"),
        ({"code": 1}, "error"),
        ({}, "error"),
        ({"data": b"L\0\0\0\0\0"}, "error"),
    ],
)
def test_what_the_program_did_is_judged(how: dict[str, Any], status: str) -> None:
    assert _judge(**how).status == status


@pytest.mark.parametrize(
    "how",
    [{"stop": WALL, "killed_by": 9, "cpu_ms": 500}, {"killed_by": 9, "cpu_ms": 500}, {"code": 1, "data": b""}],
    ids=["starved", "killed from outside", "not locked in"],
)
def test_what_the_machine_did_is_not_held_against_the_program(how: dict[str, Any]) -> None:
    with pytest.raises(ZygoteError):
        _judge(**how)


@pytest.mark.parametrize(
    ("how", "status"),
    [({"stop": WALL, "killed_by": 9, "cpu_ms": 5}, "timeout"), ({"killed_by": 9}, "error")],
)
def test_without_the_wall_a_program_may_have_done_it_itself(how: dict[str, Any], status: str) -> None:
    assert _judge(**how, walled=False).status == status


def test_an_honest_transcript_is_read() -> None:
    story = _judge(b"L" + value(7) + end())
    assert (story.status, story.values) == ("ok", [encode(7)])


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
        sandbox.run([Job(ONE.program, ("",), validate=True)])  # a job is wiped before the next one is read
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
def test_close_leaves_neither_processes_nor_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Sandbox(workers=2) as sandbox:
        sandbox.run([Job(ONE.program, ("",), validate=True)] * 8)
        pids = [zygote.process.pid for worker in sandbox._workers for zygote in worker.zygotes.values()]
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == before
    sandbox.close()


@linux
def test_everything_dies_with_the_parent() -> None:
    script = (
        "import os, time\n"
        "from redqueen.sandbox import GAME, Job, Limits, Sandbox\n"
        "sandbox = Sandbox(GAME.with_limits(Limits(cpu_s=30.0, wall_s=30.0)), workers=1)\n"
        "sandbox.submit(Job('def f():\\n    while True:\\n        pass', ('',)))\n"
        "while not (sandbox._workers and sandbox._workers[0].zygotes):\n    time.sleep(0.01)\n"
        "time.sleep(0.2)\n"
        "pid = sandbox._workers[0].zygotes['A'].process.pid\n"
        "children = open(f'/proc/{pid}/task/{pid}/children').read()\n"
        "print(pid, children, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    pids = ended.stdout.split()
    assert len(pids) == 2, ended.stderr
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(_alive(pid) for pid in pids):
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_forked_process_must_not_use_its_parents_sandbox(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_owner", os.getpid() + 1)
    with pytest.raises(RuntimeError, match="belongs to another process"):
        sandbox.submit(ONE)
    sandbox.close()  # does nothing there
    monkeypatch.undo()
    assert sandbox.run([ONE])[0].status == "ok"


def test_submitting_does_not_wait(sandbox: Sandbox) -> None:
    futures = [sandbox.submit(SPIN), sandbox.submit(ONE)]
    assert not any(future.done() for future in futures)
    assert [future.result().status for future in futures] == ["timeout", "ok"]


def test_leaving_in_an_error_drops_the_jobs_that_wait() -> None:
    def leave(sandbox: Sandbox) -> None:
        with sandbox:
            futures.extend(sandbox.submit(SPIN) for _ in range(50))
            raise KeyError

    futures: list[Future[Outcome]] = []
    with pytest.raises(KeyError):
        leave(Sandbox(GAME.with_limits(Limits(cpu_s=0.3)), workers=1))
    assert sum(future.cancelled() for future in futures) >= 48


def test_a_sandbox_made_in_a_thread_outlives_it() -> None:
    with ThreadPoolExecutor(1) as other:
        sandbox = other.submit(Sandbox, workers=1).result()
    with sandbox:
        assert sandbox.run([ONE, ONE])[1].status == "ok"


def test_nothing_heavy_is_imported() -> None:
    script = "import sys, redqueen.sandbox\nprint(sorted({'torch', 'numpy', 'pydantic', 'pickle'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "[]"


# The filter is checked by running it here, so that the numbers of a machine that we do not have are checked too.

ALLOWED = {
    "x86_64": {60, 231, 15, 12, 11, 25, 28},
    "aarch64": {93, 94, 139, 214, 215, 216, 233},
}
CHECKED = {"x86_64": (1, 9, 10, 202), "aarch64": (64, 222, 226, 98)}  # write, mmap, mprotect, futex
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KILL, EPERM, ALLOW = 0x8000_0000, 0x0005_0001, 0x7FFF_0000


def _verdict(code: bytes, arch: int, number: int, *arguments: int) -> int:
    """Classic BPF, the six instructions that the filter uses."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(arguments + (0,) * 6)[:6])
    accumulator, at = 0, 0
    while True:
        operation, true, false, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x06:
            return value
        else:
            taken = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += true if taken[operation] else false


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.syspath_prepend(str(Path(child.__file__).parent))
    seccomp = importlib.import_module("seccomp")  # the child's modules are found in their own folder only

    return {machine: seccomp.filter_program(machine, 3) for machine in ARCH}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_lets_through_what_it_says_and_nothing_else(filters: dict[str, bytes], machine: str) -> None:
    code, arch = filters[machine], ARCH[machine]
    write, mmap, mprotect, futex = CHECKED[machine]
    passed = {number for number in range(1024) if _verdict(code, arch, number, 0, 1, 0) == ALLOW}
    assert passed == ALLOWED[machine] | {mmap, mprotect, futex}
    assert {_verdict(code, arch, number, 0, 1, 0) for number in range(1024)} == {ALLOW, EPERM}
    assert [_verdict(code, arch, write, fd) for fd in (0, 1, 2, 3, 4, 2**32 + 1)] == [EPERM] * 3 + [ALLOW] + [EPERM] * 2
    for call in (mmap, mprotect):
        assert [_verdict(code, arch, call, 0, 0, bits) for bits in (0, 1, 3, 4, 5, 7)] == [ALLOW] * 3 + [EPERM] * 3
    operations = [(1, ALLOW), (129, ALLOW), (0, EPERM), (128, EPERM), (9, EPERM), (13, EPERM)]
    assert [_verdict(code, arch, futex, 0, op) for op, _ in operations] == [wanted for _, wanted in operations]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_kills_other_architectures(filters: dict[str, bytes], machine: str) -> None:
    for arch in (0x40000003, 0x40000028, *(other for name, other in ARCH.items() if name != machine)):
        assert _verdict(filters[machine], arch, 1, 3) == KILL
    if machine == "x86_64":
        assert _verdict(filters[machine], ARCH[machine], 0x40000001, 3) == KILL
