"""The only judge: a proposal becomes a task or a reject, an attempt a verdict. Programs run in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
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


class LocalVerifier:
    """Verifies with a pool of jailed workers on this machine. Use it as a context manager, or call `close`."""

    def __init__(self, config: SandboxConfig, min_inputs: int = 2) -> None:
        self.min_inputs = min_inputs  # different values that a code_f proposal needs
        limits = Limits(
            cpu_s=config.cpu_s,
            wall_s=config.wall_s,
            memory_mb=config.memory_mb,
            output_bytes=config.value_bytes,
            input_bytes=config.value_bytes,
        )
        self.sandbox = Sandbox(
            GAME.with_limits(limits), config.workers or None, allow_unsafe=config.unsafe_no_isolation
        )

    def __enter__(self) -> LocalVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sandbox.__exit__(kind, error, trace)  # in an error it drops what waits

    def close(self) -> None:
        self.sandbox.close()

    @property
    def tier(self) -> str:
        """How well the sandbox isolates; goes into every run's record."""
        return self.sandbox.tier

    def submit_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Runs the program on its inputs, three times in two interpreters, while the caller goes on.

        Waits only while as many jobs as the sandbox holds (`MAX_WAITING`) are before it.
        """
        job = Job(proposal.draft.program, proposal.draft.inputs, validate=True)
        return _then(self.sandbox.submit(job), lambda outcome: settle(proposal, outcome, self.min_inputs))

    def submit_attempt(self, task: Task, answer: str | None) -> Future[Verdict]:
        """Judges an answer as `Prompts.read_attempt` returns it (None: no answer was found) while the caller goes on.

        The future is done already where no child process is needed.
        """
        judged = judge(task.kind, task.program, task.hidden if task.kind == "code_f" else task.pairs, answer)
        if isinstance(judged, Job):
            return _then(self.sandbox.submit(judged), attempt_verdict)
        done: Future[Verdict] = Future()
        done.set_result(judged)
        return done

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
        """What `submit_proposal` says of each; in order."""
        return [future.result() for future in [self.submit_proposal(proposal) for proposal in proposals]]

    def grade(self, attempts: Sequence[tuple[Task, str | None]]) -> list[Verdict]:
        """What `submit_attempt` says of each; in order."""
        return [future.result() for future in [self.submit_attempt(task, answer) for task, answer in attempts]]


T = TypeVar("T")


def _then(outcome: Future[Outcome], judged: Callable[[Outcome], T]) -> Future[T]:
    """The future of what `judged` makes of an outcome, in the thread that had it. It cannot be cancelled.

    It ends in `CancelledError` if the sandbox drops the job (`Sandbox.__exit__` in an error).
    """
    verdict: Future[T] = Future()
    verdict.set_running_or_notify_cancel()

    def finish(outcome: Future[Outcome]) -> None:
        try:
            verdict.set_result(judged(outcome.result()))
        except Exception as error:  # noqa: BLE001 - whoever waits for the verdict gets it
            verdict.set_exception(error)

    outcome.add_done_callback(finish)
    return verdict


def settle(proposal: Proposal, outcome: Outcome, min_inputs: int = 2) -> tuple[Verdict, Task | None]:
    """What the validation of a proposal's program on its inputs says, and the task that it makes."""
    status = "valid" if outcome.status == "ok" else outcome.status
    verdict = Verdict(status, "; ".join(outcome.outputs), outcome.detail, outcome.cpu_ms)
    if status != "valid":
        return verdict, None
    draft = proposal.draft
    # inputs are respelled, so that every later reader sees one spelling of a value
    inputs = [_respell(given) for given in draft.inputs]
    for index, text in enumerate(inputs):
        if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:  # nobody could hand it in again
            detail = f"input {index} is more than {MAX_TEXT_BYTES} bytes when it is written out"
            return replace(verdict, status="oversize", detail=detail), None
    pairs = tuple(Pair(given, output) for given, output in zip(inputs, outcome.outputs, strict=True))
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
        program=draft.program,
        pairs=pairs,
        message=draft.message,
    )
    return verdict, task


def judge(kind: Kind, program: str, pairs: Sequence[Pair], answer: str | None) -> Verdict | Job:
    """A verdict where none needs a child process, else the job that decides.

    `pairs` are what the answer is judged on: the one pair of code_o and code_i, the hidden ones of code_f.
    Raises CodecError if the pairs themselves are no literals.
    """
    expected = tuple(canonical(parse_literal(pair.output)) for pair in pairs)
    if answer is None:
        return Verdict("malformed", detail="no answer in the text")
    if kind == "code_f":
        return Job(answer, tuple(pair.input for pair in pairs), expected=expected)
    try:
        if kind == "code_i":
            parse_arguments(answer)
            return Job(program, (answer,), expected=expected)
        given = parse_literal(answer)
        same = canonical(given) == expected[0]
    except LiteralError as error:
        return Verdict("malformed", detail=str(error))
    except OversizeError as error:
        return Verdict("oversize", detail=str(error))
    return Verdict("correct" if same else "wrong", output=to_literal(given))


# A student's program that imports what it may not, or returns what no literal can say, has failed like one that raised.
_AS_ERROR: tuple[Status, ...] = ("forbidden", "unsupported")


def attempt_verdict(outcome: Outcome) -> Verdict:
    """What running an answer says about an attempt."""
    status, detail = ("correct" if outcome.status == "ok" else outcome.status), outcome.detail
    if status in _AS_ERROR:
        status, detail = "error", f"{status}: {detail}"
    return Verdict(status, "; ".join(outcome.outputs), detail, outcome.cpu_ms)


def _respell(arguments: str) -> str:
    return ", ".join(to_literal(value) for value in parse_arguments(arguments))


def _distinct(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """One pair per input value: a hidden pair must not also be shown."""
    return tuple({canonical(parse_arguments(pair.input)): pair for pair in pairs}.values())
