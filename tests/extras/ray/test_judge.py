"""A machine that cannot isolate programs is refused by its name."""

from __future__ import annotations

import socket

import pytest

from redqueen.config import SandboxConfig
from redqueen.extras.ray import verifier as module
from redqueen.extras.ray.verifier import Judge
from redqueen.jail import IsolationError


def test_a_machine_without_isolation_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise IsolationError("this machine cannot isolate programs")

    monkeypatch.setattr(module, "LocalVerifier", refuse)
    with pytest.raises(IsolationError, match=f"machine {socket.gethostname()}: this machine cannot isolate programs"):
        Judge().open(SandboxConfig(), 2, 0, ())
