"""A judge: one process of a node that verifies in the jail of that node.

A verifier of a cluster hands each judge many questions at once, because a message costs as much as a short program.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from redqueen.base.futures import finished
from redqueen.config import SandboxConfig
from redqueen.jail import IsolationError
from redqueen.method.verifier import LocalVerifier
from redqueen.plugins import load
from redqueen.records import Answer, Proposal


class ProgramRun(NamedTuple):
    """A program that is run and not judged: what `Verifier.run` takes."""

    program: str
    inputs: tuple[str, ...] | tuple[bytes, ...]
    cpu_s: float
    output_bytes: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A function of ours that takes a while and needs nothing but its argument."""

    function: Callable[[Any], Any]
    argument: Any


Question = Proposal | Answer | ProgramRun | FunctionCall


class Judge:
    """Answers questions by the verifier of this machine."""

    verifier: LocalVerifier

    def open(self, sandbox: SandboxConfig, min_inputs: int, seed: int, plugins: Sequence[str]) -> str:
        """Starts the jail and returns how well it isolates. `plugins` are the run's modules: kinds may be theirs.

        Raises IsolationError, with the machine's name, if programs cannot be isolated here. (A constructor's error
        would come back from Ray as text.)
        """
        load(plugins)
        try:
            self.verifier = LocalVerifier(sandbox, min_inputs, seed)
        except IsolationError as error:
            raise IsolationError(f"machine {socket.gethostname()}: {error}") from error
        return self.verifier.tier

    def answer(self, questions: Sequence[Question]) -> list[Any]:
        """Returns the answers, in order."""
        # All are submitted before the first is waited for, so that every worker of the sandbox has something to do.
        futures = [self._submit(question) for question in questions]
        return [future.result() for future in futures]

    def _submit(self, question: Question) -> Future[Any]:
        if isinstance(question, Proposal):
            return self.verifier.judge_proposal(question)
        if isinstance(question, Answer):
            return self.verifier.judge_answer(question)
        if isinstance(question, FunctionCall):
            return finished(question.function(question.argument))
        return self.verifier.run(*question)
