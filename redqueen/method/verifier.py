"""The only judge: a proposal becomes a task or a reject, an attempt a verdict. Programs run in the sandbox."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace

from redqueen.base import streams
from redqueen.base.futures import all_of, finished, then
from redqueen.config import SandboxConfig
from redqueen.jail import (
    GAME,
    MAX_INPUTS,
    Job,
    Limits,
    LiteralError,
    Outcome,
    OversizeError,
    Profile,
    Sandbox,
)
from redqueen.records import Answer, Kind, Proposal, Task, Verdict
from redqueen.tasks.kinds import InputCounts, Trial, find


def answer_to(task: Task, text: str | None) -> Answer:
    """Returns the answer to a task that `Prompts.read_attempt` read; None stands for a text in which there was none.

    Raises CodecError if an output of the task is no value.
    """
    kind = find(task.kind)
    return kind.answer(task.program, kind.judged_on(task), text)


class LocalVerifier(AbstractContextManager["LocalVerifier", None]):
    """Verifies with a pool of jailed workers on this machine. Use it as a context manager, or call `close`."""

    def __init__(self, config: SandboxConfig, min_inputs: int = 2, seed: int = 0) -> None:
        self.counts = InputCounts(least=min_inputs, most=MAX_INPUTS)
        """How many different inputs a proposal needs whose kind shows examples, and how many it may have."""
        self.max_input_bytes = config.value_bytes
        """The most bytes of an input, also when it is written out again."""
        self.seed = seed
        self._config = config
        self._sandbox = self._open(GAME)
        # Sandboxes of languages with rules of their own, each opened when the first program needs it.
        self._others: dict[Profile, Sandbox] = {}
        self._lock = threading.Lock()

    def _open(self, profile: Profile) -> Sandbox:
        config = self._config
        limits = Limits(
            cpu_s=config.cpu_s,
            wall_s=config.wall_s,
            memory_mb=config.memory_mb,
            output_bytes=config.value_bytes,
            input_bytes=config.value_bytes,
        )
        return Sandbox(profile.with_limits(limits), config.workers or None, allow_unsafe=config.unsafe_no_isolation)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # In an error the sandbox drops the jobs that wait.
        for sandbox in (self._sandbox, *self._others.values()):
            sandbox.__exit__(kind)

    def close(self) -> None:
        """Finishes the jobs already submitted, then ends every process."""
        for sandbox in (self._sandbox, *self._others.values()):
            sandbox.close()

    @property
    def tier(self) -> str:
        """How well the sandbox isolates; goes into every run's record."""
        return self._sandbox.tier

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Runs the program on its inputs, at least four times in two interpreters, while the caller goes on.

        Blocks only while the sandbox's queue is full (`MAX_WAITING` jobs).
        """
        kind = find(proposal.kind)

        def judge(outcome: Outcome) -> tuple[Verdict, Task | None]:
            return kind.task(proposal, outcome, self.counts, self.max_input_bytes)

        # The pool's thread makes the task, so that it is ready when the caller asks.
        return then(self._outcome(kind.job(proposal.draft), kind.language.profile), judge)

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        """Judges while the caller goes on. The future is done already where no child process is needed."""
        trial = trial_of(answer)
        if isinstance(trial, Verdict):
            return finished(trial)
        jobs = [replace(job, patient=answer.patient) if isinstance(job, Job) else job for job in trial.jobs]
        order = list(range(len(jobs)))
        if len(order) > 1:
            # The two start in a random order, by which a program cannot tell the answer from the recorded input.
            rng = streams.python(self.seed, "recorded", answer.program, answer.text or "")
            if rng.random() < 0.5:
                order.reverse()
        profile = find(answer.kind).language.profile
        running = {number: self._outcome(jobs[number], profile) for number in order}
        return then(all_of([running[number] for number in range(len(jobs))]), trial.verdict)

    def _outcome(self, job: Job | Outcome, profile: Profile) -> Future[Outcome]:
        """Runs a job under the rules of its language; what came of one that needs no sandbox is there already."""
        if isinstance(job, Outcome):
            return finished(job)
        if profile == GAME:
            return self._sandbox.submit(job)
        with self._lock:
            if profile not in self._others:
                self._others[profile] = self._open(profile)
        return self._others[profile].submit(job)

    def run(
        self,
        program: str,
        inputs: tuple[str, ...] | tuple[bytes, ...],
        cpu_s: float,
        output_bytes: int = 0,
        kind: Kind = "",
    ) -> Future[tuple[str, ...]]:
        """Runs a program once and ends it after `cpu_s` seconds of CPU."""
        limits = self._sandbox.profile.limits
        own = replace(limits, cpu_s=min(cpu_s, limits.cpu_s), output_bytes=output_bytes or limits.output_bytes)
        job = Job(program, inputs, limits=own)
        profile = find(kind).language.profile if kind else GAME
        return then(self._outcome(job, profile), lambda outcome: outcome.outputs)


def trial_of(answer: Answer) -> Trial | Verdict:
    """Returns what has to run before an answer is judged, or the verdict where the text alone decides it."""
    if answer.text is None:
        return Verdict(status="malformed", detail="no answer in the text")
    try:
        return find(answer.kind).trial(answer, answer.text)
    except LiteralError as error:
        return Verdict(status="malformed", detail=str(error))
    except OversizeError as error:
        return Verdict(status="oversize", detail=str(error))
