"""The only judge: a proposal becomes a task or a reject, an attempt a verdict. Programs run in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from redqueen.config import SandboxConfig
from redqueen.records import Kind, Pair, Proposal, Status, Task, Verdict
from redqueen.sandbox import (
    GAME,
    MAX_TEXT_BYTES,
    Job,
    Limits,
    LiteralError,
    Outcome,
    OversizeError,
    Sandbox,
    canonical,
    parse_arguments,
    parse_literal,
    to_literal,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A student's answer and what it is judged on. `answer_to` makes it."""

    kind: Kind
    program: str
    """The task's program. Only code_i runs it."""
    inputs: tuple[str, ...]
    """Literal argument lists. Only code_f, where the answer is a program, is called with them."""
    expected: tuple[bytes, ...]
    """Canonical bytes of the right outputs, one for each input."""
    text: str | None
    """The answer as `Prompts.read_attempt` returns it; None if the text had no answer."""


def answer_to(kind: Kind, program: str, pairs: Sequence[Pair], text: str | None) -> Answer:
    """An answer that is judged on `pairs`: the one pair of code_o and code_i, the hidden pairs of code_f.

    Raises CodecError if an output of the pairs is no literal.
    """
    return Answer(
        kind=kind,
        program=program,
        inputs=tuple(pair.input for pair in pairs),
        expected=tuple(canonical(parse_literal(pair.output)) for pair in pairs),
        text=text,
    )


class LocalVerifier(AbstractContextManager["LocalVerifier", None]):
    """Verifies with a pool of jailed workers on this machine. Use it as a context manager, or call `close`."""

    def __init__(self, config: SandboxConfig, min_inputs: int = 2) -> None:
        self.min_inputs = min_inputs
        """How many different inputs a code_f proposal needs."""
        limits = Limits(
            cpu_s=config.cpu_s,
            wall_s=config.wall_s,
            memory_mb=config.memory_mb,
            output_bytes=config.value_bytes,
            input_bytes=config.value_bytes,
        )
        self._sandbox = Sandbox(
            GAME.with_limits(limits), config.workers or None, allow_unsafe=config.unsafe_no_isolation
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # In an error the sandbox drops the jobs that wait.
        self._sandbox.__exit__(kind)

    def close(self) -> None:
        """Finishes the jobs already submitted, then ends every process."""
        self._sandbox.close()

    @property
    def tier(self) -> str:
        """How well the sandbox isolates; goes into every run's record."""
        return self._sandbox.tier

    def submit(self, question: Proposal | Answer) -> Future[Verdict]:
        """Judges a proposal or an answer while the caller goes on.

        The future is done already where no child process is needed. Waits only while as many jobs as the sandbox holds
        (`MAX_WAITING`) are before it.
        """
        if isinstance(question, Proposal):
            return _then(self.submit_proposal(question), lambda judged: judged[0])
        job = grading_job(question)
        if isinstance(job, Job):
            return _then(self._sandbox.submit(job), attempt_verdict)
        done: Future[Verdict] = Future()
        done.set_result(job)
        return done

    def submit_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Runs the program on its inputs, three times in two interpreters, while the caller goes on."""
        job = Job(proposal.draft.program, proposal.draft.inputs, validate=True)
        # The pool's thread makes the task, so that it is ready when the caller asks.
        return _then(self._sandbox.submit(job), lambda outcome: task_or_reject(proposal, outcome, self.min_inputs))

    def submit_attempt(self, task: Task, answer: str | None) -> Future[Verdict]:
        """Judges what `Prompts.read_attempt` returned (None: no answer was found) while the caller goes on."""
        pairs = task.hidden if task.kind == "code_f" else task.pairs
        return self.submit(answer_to(task.kind, task.program, pairs, answer))

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
        """What `submit_proposal` says of each; in order."""
        futures = [self.submit_proposal(proposal) for proposal in proposals]
        return [future.result() for future in futures]

    def grade(self, attempts: Sequence[tuple[Task, str | None]]) -> list[Verdict]:
        """What `submit_attempt` says of each; in order."""
        futures = [self.submit_attempt(task, answer) for task, answer in attempts]
        return [future.result() for future in futures]


S = TypeVar("S")
T = TypeVar("T")


def _then(before: Future[S], function: Callable[[S], T]) -> Future[T]:
    """The future of `function` of a result, called in the thread that had the result. It cannot be cancelled.

    It ends in `CancelledError` if the sandbox drops the job, which it does when it is left in an error.
    """
    after: Future[T] = Future()
    after.set_running_or_notify_cancel()

    def finish(before: Future[S]) -> None:
        try:
            after.set_result(function(before.result()))
        except Exception as error:  # noqa: BLE001 - the caller that waits for the result gets it
            after.set_exception(error)

    before.add_done_callback(finish)
    return after


def task_or_reject(proposal: Proposal, outcome: Outcome, min_inputs: int = 2) -> tuple[Verdict, Task | None]:
    """What the validation of a proposal's program on its inputs says, and the task that it makes."""
    verdict = Verdict(
        status="valid" if outcome.status == "ok" else outcome.status,
        output="; ".join(outcome.outputs),
        detail=outcome.detail,
        cpu_ms=outcome.cpu_ms,
    )
    if verdict.status != "valid":
        return verdict, None
    # Inputs are written again, so that every later reader sees one spelling of a value. A spelling may be longer than
    # the text that was proposed, and too long to be read again.
    inputs = [_respell(text) for text in proposal.draft.inputs]
    for index, text in enumerate(inputs):
        if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
            detail = f"input {index} is more than {MAX_TEXT_BYTES} bytes when it is written out"
            return replace(verdict, status="oversize", detail=detail), None
    # Spellings of one value are one input, and the author of a code_f task has to propose several.
    pairs = tuple(Pair(text, output) for text, output in zip(inputs, outcome.outputs, strict=True))
    if proposal.kind == "code_f":
        pairs = _distinct(pairs)
        if len(pairs) < min_inputs:
            detail = f"{len(pairs)} different inputs, {min_inputs} are needed"
            return replace(verdict, status="malformed", detail=detail), None
    task = Task(
        id=proposal.id,
        kind=proposal.kind,
        author=proposal.author,
        step=proposal.step,
        program=proposal.draft.program,
        pairs=pairs,
        message=proposal.draft.message,
    )
    return verdict, task


def grading_job(answer: Answer) -> Verdict | Job:
    """The job that decides about an answer, or the verdict where no program has to run."""
    if answer.text is None:
        return Verdict(status="malformed", detail="no answer in the text")
    # A function runs on the hidden inputs; another kind's answer is data, which is read here before anything runs.
    if answer.kind == "code_f":
        return Job(answer.text, answer.inputs, expected=answer.expected)
    try:
        if answer.kind == "code_i":
            parse_arguments(answer.text)
            return Job(answer.program, (answer.text,), expected=answer.expected)
        value = parse_literal(answer.text)
        correct = canonical(value) == answer.expected[0]
    except LiteralError as error:
        return Verdict(status="malformed", detail=str(error))
    except OversizeError as error:
        return Verdict(status="oversize", detail=str(error))
    return Verdict(status="correct" if correct else "wrong", output=to_literal(value))


# A student's program that imports what it may not, or returns what no literal can say, has failed like one that raised.
_AS_ERROR: tuple[Status, ...] = ("forbidden", "unsupported")


def attempt_verdict(outcome: Outcome) -> Verdict:
    """What running an answer says about an attempt."""
    status = "correct" if outcome.status == "ok" else outcome.status
    detail = outcome.detail
    if status in _AS_ERROR:
        detail = f"{status}: {detail}"
        status = "error"
    return Verdict(status=status, output="; ".join(outcome.outputs), detail=detail, cpu_ms=outcome.cpu_ms)


def _respell(arguments: str) -> str:
    return ", ".join(to_literal(value) for value in parse_arguments(arguments))


def _distinct(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """One pair per input value, the last one: a hidden pair must not also be shown."""
    return tuple({canonical(parse_arguments(pair.input)): pair for pair in pairs}.values())
