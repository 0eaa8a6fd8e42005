"""A machine that cannot isolate programs is refused by its name; nobody waits for judges that are lost."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import pytest

from redqueen.config import SandboxConfig
from redqueen.extras.ray import verifier as module
from redqueen.extras.ray.ray_cluster import ClusterError, LostError
from redqueen.extras.ray.verifier import ClusterVerifier, Judge
from redqueen.jail import IsolationError


def test_a_machine_without_isolation_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise IsolationError("this machine cannot isolate programs")

    monkeypatch.setattr(module, "LocalVerifier", refuse)
    with pytest.raises(IsolationError, match=f"machine {socket.gethostname()}: this machine cannot isolate programs"):
        Judge().open(SandboxConfig(), 2, 0, ())


class Pending:
    def __init__(self, get: Callable[[], Any]) -> None:
        self.get = get


class LostJudge:
    """Opens, and is lost with what it is asked."""

    def __init__(self, lost: threading.Event) -> None:
        self.lost = lost

    def call(self, method: str, *_: object) -> Pending:
        return Pending(self._answer if method == "answer" else lambda: "full")

    def _answer(self) -> None:
        self.lost.wait()
        raise LostError("killed")

    def kill(self) -> None:
        pass


class LostMachines:
    """A cluster whose judges are all lost when the event is set."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lost = threading.Event()

    def nodes(self) -> list[int]:
        return list(range(self.count))

    def start(self, *_: object, **__: object) -> LostJudge:
        return LostJudge(self.lost)


@pytest.mark.parametrize("count", [1, 3])
def test_nobody_waits_for_judges_that_are_all_lost(count: int) -> None:
    machines = LostMachines(count)
    cluster: Any = machines
    lines: list[str] = []
    with ClusterVerifier(cluster, SandboxConfig(), 2, 0, (), lines.append) as judges:
        # More than all of them have at once.
        asked = [judges.run("def f(x):\n    return x", ("1",), 1.0) for _ in range(3000)]
        machines.lost.set()
        assert not wait(asked, timeout=30).not_done
        assert all("every machine that verifies is lost" in str(one.exception()) for one in asked)
        assert len(lines) == count
        with pytest.raises(ClusterError, match="every machine that verifies is lost"):
            judges.run("def f(x):\n    return x", ("1",), 1.0)
