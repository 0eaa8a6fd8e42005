"""What the graders of code share: jobs that call a solution in the jail, and what their outcomes mean."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from redqueen.evals.graders import jailed
from redqueen.evals.graders.grader import ThreadedGrader
from redqueen.jail import BENCHMARKS, Job, Limits, Outcome, Sandbox, encode_arguments
from redqueen.jail.host import cores
from redqueen.records import Verdict


class JailedGrader(ThreadedGrader):
    """Judges solutions in a sandbox of the profile `BENCHMARKS`, several at a time."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        """Starts a sandbox of its own unless it gets one, which its owner closes."""
        if sandbox is not None and sandbox.profile.entry != BENCHMARKS.entry:
            raise ValueError("solutions of benchmarks need a sandbox of the profile BENCHMARKS")
        self._own = sandbox is None
        self._sandbox = sandbox or Sandbox(BENCHMARKS)
        super().__init__(2 * cores())

    def close(self) -> None:
        super().close()
        if self._own:
            self._sandbox.close()

    def run(self, job: Job) -> Outcome:
        return self._sandbox.submit(job).result()


# What some editors write in front of a file. Python skips it in a file, and refuses it in a text.
_MARK = "\ufeff"


@cache
def _jailed_text() -> str:
    return Path(jailed.__file__).read_text(encoding="utf-8")


def function_job(
    source: str, name: str, what: str, calls: Sequence[bytes], limits: Limits, *, preamble: bool = False
) -> Job:
    """Returns the job that calls the function `name` of a program once with each of the encoded arguments."""
    program = f"""{_jailed_text()}
function = load({source.removeprefix(_MARK)!r}, {name!r}, {preamble!r})
def run(*arguments):
    return call(function, arguments, {what!r})
"""
    return Job(program, tuple(calls), limits=limits)


def script_job(source: str, standard_input: str, limits: Limits) -> Job:
    """Returns the job that runs a program on its standard input. Its output is what the program printed."""
    source = source.removeprefix(_MARK)
    program = f"""{_jailed_text()}
import standard_streams
SOURCE = {source!r}
def run(text):
    return run_script(SOURCE, text, standard_streams)
"""
    return Job(program, (encode_arguments((standard_input,)),), limits=limits)


def failed(outcome: Outcome, where: Any = "") -> Verdict:
    """Returns the verdict for an outcome that is not `ok`."""
    detail = f"{where}: {outcome.detail}" if where else outcome.detail
    # What calls a solution stands around it, so a text that is no program fails while that runs.
    if outcome.detail.startswith(("SyntaxError", "IndentationError", "TabError")):
        # The line is one of the text around it.
        return Verdict("malformed", detail=detail.partition(" at line")[0])
    if outcome.status in ("ok", "wrong", "nondeterministic"):
        raise ValueError(f"an outcome that no job of a grader has: {outcome.status}")
    return Verdict(outcome.status, detail=detail)
