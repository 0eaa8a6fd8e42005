"""One shared sandbox for the folder: a small pool is enough, and starting one costs more than most tests."""

from __future__ import annotations

import contextlib
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

import pytest

from redqueen.sandbox import GAME, Job, Limits, Outcome, Sandbox

Run = Callable[..., Outcome]
CANARY = "still here"
AFTER = Job("import math\ndef f(x):\n    return math.sqrt(x), len('abc')", ("4",))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(GAME.with_limits(Limits(cpu_s=0.3, memory_mb=64)), workers=1) as shared:
        yield shared


@pytest.fixture
def run(sandbox: Sandbox) -> Run:
    """`run(program, *inputs, **job_fields)`: the outcome of one job; without inputs, one call without arguments."""

    def run_one(program: str, *inputs: str, **fields: object) -> Outcome:
        return sandbox.run([Job(program, inputs or ("",), **fields)])[0]  # type: ignore[arg-type]

    return run_one


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
        found = self.canary.lstat()
        assert (oct(found.st_mode), found.st_nlink) == (oct(0o100666), 1)
        assert select.select(self.listeners, [], [], 0)[0] == []
        assert self.sibling.poll() is None


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    # not pytest's own folder: nobody else may enter that, and then the file would be safe without any sandbox
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
def nothing_escaped(sandbox: Sandbox, world: World) -> Iterator[None]:
    """Afterwards the world is as it was, no process is left over, and the next program's result is right."""
    yield
    world.unharmed()
    after = sandbox.run([AFTER])[0]
    assert (after.status, after.outputs) == ("ok", ("(2.0, 3)",))
    for zygote in sandbox._workers[0].zygotes.values():
        children = Path(f"/proc/{zygote.process.pid}/task/{zygote.process.pid}/children")
        assert not children.exists() or children.read_text() == ""
