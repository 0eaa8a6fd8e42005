"""Calls that wait for vLLM end when its process does. The process is real, vLLM's client is not: it starts slowly."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import Future
from queue import Queue
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from redqueen.errors import WorkerError
from redqueen.extras.vllm.engine import watch


def test_calls_that_wait_for_a_process_end_with_it() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    waited: Future[Any] = Future()
    answered: Future[Any] = Future()
    answered.set_result(3)
    core = SimpleNamespace(
        resources=SimpleNamespace(
            engine_dead=False,
            engine_manager=SimpleNamespace(processes=[SimpleNamespace(sentinel=process.stdout.fileno())]),
        ),
        outputs_queue=Queue(),
        utility_results={1: waited, 2: answered},
    )
    with process:
        watcher = Thread(target=watch, args=(core,))
        watcher.start()
        assert not core.resources.engine_dead
        process.send_signal(signal.SIGKILL)
        watcher.join(60)
    assert core.resources.engine_dead
    assert isinstance(core.outputs_queue.get_nowait(), WorkerError)
    with pytest.raises(WorkerError):
        waited.result(timeout=0)
    assert answered.result() == 3
