"""Two shared sandboxes for the folder: starting one costs more than most tests."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from redqueen.jail import GAME, Job, Limits, Outcome, Sandbox, child
from tests.jail.processes import of_group, zygotes

Run = Callable[..., Outcome]
CANARY = "still here"
AFTER = Job("import math\ndef f(x):\n    return math.sqrt(x), len('abc')", ("4",))


# The wall clock is far away in both: it is for a machine that stands still, and a busy one must fail no test.
AMPLE = Limits(cpu_s=5.0, wall_s=120.0, memory_mb=64)
"""For programs that end by themselves, also where a processor is slow."""
BRIEF = Limits(cpu_s=0.1, wall_s=120.0, memory_mb=64)
"""For programs that have to run into the CPU limit."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(GAME.with_limits(AMPLE), workers=1) as shared:
        yield shared


@pytest.fixture(scope="session")
def brief_sandbox() -> Iterator[Sandbox]:
    with Sandbox(GAME.with_limits(BRIEF), workers=1) as shared:
        yield shared


def runner(sandbox: Sandbox) -> Run:
    def run_one(program: str, *inputs: str, **fields: object) -> Outcome:
        return sandbox.run([Job(program, inputs or ("",), **fields)])[0]  # type: ignore[arg-type]

    return run_one


@pytest.fixture
def run(sandbox: Sandbox) -> Run:
    """`run(program, *inputs, **job_fields)`: the outcome of one job; without inputs, one call without arguments."""
    return runner(sandbox)


@pytest.fixture
def child_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """`child_module("steady")` is a module of the child's, which are found in their own folder only."""
    monkeypatch.syspath_prepend(str(Path(child.__file__).parent))
    return importlib.import_module


@pytest.fixture
def run_briefly(brief_sandbox: Sandbox) -> Run:
    """Like `run`, for programs that do not end."""
    return runner(brief_sandbox)


@dataclass(frozen=True)
class World:
    """What a hostile program would like to touch: a file that anybody may write, ports that listen, a process."""

    canary: Path
    port: int
    listeners: tuple[socket.socket, ...]
    sibling: subprocess.Popen[bytes]

    def unharmed(self) -> None:
        folder = self.canary.parent
        assert os.listdir(folder) == ["canary"]
        assert self.canary.read_text() == CANARY
        status = self.canary.lstat()
        assert (oct(status.st_mode), status.st_nlink) == (oct(0o100666), 1)
        assert select.select(self.listeners, [], [], 0)[0] == []
        assert self.sibling.poll() is None


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    # Not pytest's own folder: other users may not enter that, so the file would be safe without any sandbox.
    folder = Path(tempfile.mkdtemp(prefix="canary-"))
    canary = folder / "canary"
    canary.write_text(CANARY)
    folder.chmod(0o777)
    canary.chmod(0o666)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = tcp.getsockname()[1]
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", port))
        sibling = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time\ntime.sleep(3600)"])
        stack.callback(sibling.wait)
        stack.callback(sibling.kill)
        yield World(canary, port, (tcp, udp), sibling)


@pytest.fixture
def nothing_escaped(sandbox: Sandbox, brief_sandbox: Sandbox, world: World) -> Iterator[None]:
    """Afterwards the world is as it was, no process is left over, and the next program's result is right."""
    yield
    world.unharmed()
    for each in (sandbox, brief_sandbox):
        after = each.run([AFTER])[0]
        assert (after.status, after.outputs) == ("ok", ("(2.0, 3)",))
        for zygote in zygotes(each):
            assert of_group(zygote.process.pid) == [str(zygote.process.pid)]
