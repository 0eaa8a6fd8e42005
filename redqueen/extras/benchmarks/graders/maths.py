"""Judges mathematical answers by math-verify, in processes that can be killed.

A problem's `data` has `answers`: one reference answer, or several if all of them have to be given (`references.py`).
The answer is what the model's last box holds (`extraction.last_boxed`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from queue import SimpleQueue
from threading import Timer
from typing import cast

from redqueen.base.optional import is_installed, missing
from redqueen.evals.graders.grader import Problem, ThreadedGrader
from redqueen.extras.benchmarks.graders.structure import depth_of
from redqueen.jail.host import cores
from redqueen.records import Status, Verdict

CPU_S = 10.0
"""CPU seconds for one answer."""
WALL_S = 120.0
"""Seconds after which a process is taken for stuck: the machine's fault."""
START_CPU_S = 60.0
MOST_TEXT = 4_000
"""Longer answers are not read."""
MOST_BRACKETS = 60
"""An answer with more brackets in each other is not read: it would take seconds, and means nothing."""


class MathsGrader(ThreadedGrader):
    """Judges answers in one process for each core.

    Raises MissingLibraryError if math-verify is not installed.
    """

    def __init__(self, workers: int | None = None, cpu_s: float = CPU_S) -> None:
        if not is_installed("math_verify"):
            raise missing("math-verify", "evals", "a mathematics benchmark")
        count = workers or cores()
        self._cpu_s = cpu_s
        self._processes = [MathsProcess() for _ in range(count)]
        self._free: SimpleQueue[MathsProcess] = SimpleQueue()
        for process in self._processes:
            self._free.put(process)
        super().__init__(count)

    def grade(self, problem: Problem, answer: str) -> Verdict:
        if not answer.strip():
            return Verdict("malformed", detail="no answer")
        if len(answer) > MOST_TEXT:
            return Verdict("malformed", detail=f"an answer of more than {MOST_TEXT} characters")
        if depth_of(answer) > MOST_BRACKETS:
            return Verdict("malformed", detail=f"more than {MOST_BRACKETS} brackets in each other")
        process = self._free.get()
        try:
            return process.ask(tuple(problem.data["answers"]), answer, self._cpu_s)
        finally:
            self._free.put(process)

    def close(self) -> None:
        super().close()
        for process in self._processes:
            process.close()


class MathsProcess:
    """One process that compares answers. It starts with the first question, and anew after it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, answers: tuple[str, ...], answer: str, cpu_s: float) -> Verdict:
        """Returns the verdict on one answer. The kernel ends the process after `cpu_s` seconds of CPU."""
        try:
            process = self._started()
            reply = _exchange(process, answers, answer, cpu_s)
        except OSError as error:
            self.close()
            return Verdict("infra_error", detail=f"the process for mathematics: {error}")
        if reply:
            status, detail = json.loads(reply)
            return Verdict(cast("Status", status), detail=detail)
        code = process.wait()
        self.close()
        if code == -signal.SIGPROF:
            return Verdict("timeout", detail=f"{cpu_s:g} s of CPU")
        if code == -signal.SIGKILL:
            return Verdict("infra_error", detail="the process for mathematics was killed")
        return Verdict("error", detail=f"the process for mathematics ended with {code}")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "redqueen.extras.benchmarks.graders.maths_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"},
                text=True,
                encoding="utf-8",
            )
            # What is read for the first time costs more, and must not count against an answer.
            if not _exchange(self._process, (r"\frac{1}{2}",), "0.5", START_CPU_S):
                raise OSError(f"it did not start: exit code {self._process.wait()}")
        return self._process


def _exchange(process: subprocess.Popen[str], answers: tuple[str, ...], answer: str, cpu_s: float) -> str:
    """Sends one question. Returns the reply, or "" if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    alarm = Timer(WALL_S, process.kill)
    alarm.start()
    try:
        process.stdin.write(json.dumps({"answers": answers, "answer": answer, "cpu_s": cpu_s}) + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    finally:
        alarm.cancel()
