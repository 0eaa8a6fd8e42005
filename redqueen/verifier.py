"""The only judge: a proposal becomes a task or a reject, an attempt a verdict. Programs run in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from redqueen import streams
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
    """Literal argument lists. The answer to code_f, a program, is called with them; the program of code_i is called
    with the one that its output was recorded for. Without one it does not have to answer for itself."""
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

    def __init__(self, config: SandboxConfig, min_inputs: int = 2, seed: int = 0) -> None:
        self.min_inputs = min_inputs
        """How many different inputs a code_f proposal needs."""
        self.max_input_bytes = config.value_bytes
        """The most bytes of an input, also when it is written out again."""
        self.seed = seed
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
        if isinstance(job, Verdict):
            done: Future[Verdict] = Future()
            done.set_result(job)
            return done
        recorded = recorded_job(question)
        if recorded is None:
            return _then(self._sandbox.submit(job), attempt_verdict)
        same = respell(question.text or "") == respell(question.inputs[0])
        # The order is drawn, so that nothing outside the two children says which of them is which either.
        if streams.python(self.seed, "recorded", question.program, question.text or "").random() < 0.5:
            again = self._sandbox.submit(recorded)
            answered = self._sandbox.submit(job)
        else:
            answered = self._sandbox.submit(job)
            again = self._sandbox.submit(recorded)
        return _then_both(answered, again, lambda one, other: abduction_verdict(one, other, same))

    def submit_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Runs the program on its inputs, three times in two interpreters, while the caller goes on."""

        def judge(outcome: Outcome) -> tuple[Verdict, Task | None]:
            return task_or_reject(proposal, outcome, self.min_inputs, self.max_input_bytes)

        job = Job(proposal.draft.program, proposal.draft.inputs, validate=True)
        # The pool's thread makes the task, so that it is ready when the caller asks.
        return _then(self._sandbox.submit(job), judge)

    def submit_attempt(self, task: Task, answer: str | None) -> Future[Verdict]:
        """Judges what `Prompts.read_attempt` returned (None: no answer was found) while the caller goes on.

        The verdict `nondeterministic` is about the task and not about the answer: the program of a code_i task did not
        give the recorded output for the recorded input again.
        """
        pairs = task.hidden if task.kind == "code_f" else task.pairs
        return self.submit(answer_to(task.kind, task.program, pairs, answer))

    def submit_run(self, program: str, inputs: tuple[str, ...], cpu_s: float) -> Future[tuple[str, ...]]:
        """Runs a program once and judges nothing, while the caller goes on: its outputs, as far as it got.

        It is ended after `cpu_s` seconds of CPU, and may then have none.
        """
        limits = self._sandbox.profile.limits
        shorter = replace(limits, cpu_s=min(cpu_s, limits.cpu_s))
        job = Job(program, inputs, limits=shorter)
        return _then(self._sandbox.submit(job), lambda outcome: outcome.outputs)

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
        """What `submit_proposal` says of each; in order."""
        futures = [self.submit_proposal(proposal) for proposal in proposals]
        return [future.result() for future in futures]


R = TypeVar("R")
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


def _then_both(one: Future[R], other: Future[S], function: Callable[[R, S], T]) -> Future[T]:
    """Like `_then`, of two results, in the thread that had the later one."""
    both: Future[tuple[R, S]] = Future()
    both.set_running_or_notify_cancel()

    def finish(_: Future[S]) -> None:
        try:
            both.set_result((one.result(), other.result()))
        except Exception as error:  # noqa: BLE001 - the caller that waits for the result gets it
            both.set_exception(error)

    # Whichever is done last calls `finish`: of a future that is done, a callback is called at once.
    one.add_done_callback(lambda _: other.add_done_callback(finish))
    return _then(both, lambda results: function(*results))


def task_or_reject(
    proposal: Proposal, outcome: Outcome, min_inputs: int = 2, max_input_bytes: int = MAX_TEXT_BYTES
) -> tuple[Verdict, Task | None]:
    """What the validation of a proposal's program on its inputs says, and the task that it makes."""
    verdict = Verdict(
        status="valid" if outcome.status == "ok" else outcome.status,
        output="; ".join(outcome.outputs),
        detail=outcome.detail,
        cpu_ms=outcome.cpu_ms,
        lines_run=outcome.lines and outcome.lines.distinct,
        line_events=outcome.lines and outcome.lines.events,
    )
    if verdict.status != "valid":
        return verdict, None
    # Inputs are written again, so that every later reader sees one spelling of a value. A spelling may be longer than
    # the text that was proposed, and too long to be read again.
    inputs = [respell(text) for text in proposal.draft.inputs]
    for index, text in enumerate(inputs):
        if len(text.encode("utf-8", "surrogatepass")) > max_input_bytes:
            detail = f"input {index} is more than {max_input_bytes} bytes when it is written out"
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
            return Job(answer.program, (answer.text,), expected=answer.expected, one_processor=True)
        value = parse_literal(answer.text)
        correct = canonical(value) == answer.expected[0]
    except LiteralError as error:
        return Verdict(status="malformed", detail=str(error))
    except OversizeError as error:
        return Verdict(status="oversize", detail=str(error))
    return Verdict(status="correct" if correct else "wrong", output=to_literal(value))


# A task answers for itself while it is played. The recorded input runs in a child of its own, whose request is the one
# of validation: it holds no answer, and nothing in it says that somebody is being graded. In one child with the answer,
# a program could count its calls, and the order in which the two came would decide about the answer.
def recorded_job(answer: Answer) -> Job | None:
    """The job that asks a code_i program for its recorded output again; None if no input was recorded."""
    if answer.kind != "code_i" or not answer.inputs:
        return None
    return Job(answer.program, answer.inputs, expected=answer.expected, one_processor=True)


def abduction_verdict(answered: Outcome, again: Outcome, same: bool) -> Verdict:
    """What running a code_i program on the answer and, once more, on the recorded input says about the attempt.

    `same` says whether the answer is the recorded input. The verdict `nondeterministic` is about the task.
    """
    if again.status == "infra_error":
        return attempt_verdict(again)
    verdict = attempt_verdict(answered)
    if again.status != "ok":
        what = "another output" if again.status == "wrong" else f"{again.status}: {again.detail}"
        return replace(verdict, status="nondeterministic", detail=f"the recorded input now gives {what}")
    # Right for the one and wrong for the other, of one and the same input.
    if same and verdict.status not in ("correct", "infra_error"):
        return replace(
            verdict, status="nondeterministic", detail=f"the recorded input gives two outputs: {verdict.detail}"
        )
    return verdict


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


def respell(arguments: str) -> str:
    """Returns the one spelling of a literal argument list. Raises CodecError if it is none."""
    return ", ".join(to_literal(value) for value in parse_arguments(arguments))


def _distinct(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """One pair per input value, the last one: a hidden pair must not also be shown."""
    return tuple({canonical(parse_arguments(pair.input)): pair for pair in pairs}.values())
