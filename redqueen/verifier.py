"""The only judge: a proposal becomes a task or a reject, an attempt a verdict. Programs run in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from redqueen.config import SandboxConfig
from redqueen.records import Pair, Proposal, Task, Verdict
from redqueen.sandbox import (
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

    def __init__(self, config: SandboxConfig) -> None:
        limits = Limits(cpu_s=config.cpu_s, wall_s=config.wall_s, memory_mb=config.memory_mb)
        self.sandbox = Sandbox(limits, config.workers or None, allow_unsafe=config.unsafe_no_isolation)

    def __enter__(self) -> LocalVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sandbox.close()

    @property
    def tier(self) -> str:
        """How well the sandbox isolates; goes into every run's record."""
        return self.sandbox.tier

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
        """Runs each program on its inputs, three times in two interpreters; in order."""
        jobs = [Job(p.draft.program, p.draft.inputs, validate=True) for p in proposals]
        return [_task(p, o) for p, o in zip(proposals, self.sandbox.run(jobs), strict=True)]

    def grade(self, attempts: Sequence[tuple[Task, str | None]]) -> list[Verdict]:
        """Judges answers as `Prompts.read_attempt` returns them (None: no answer was found); in order."""
        verdicts: list[Verdict | None] = []
        jobs: list[Job] = []
        for task, answer in attempts:
            judged = _judge(task, answer)
            verdicts.append(judged if isinstance(judged, Verdict) else None)
            if isinstance(judged, Job):
                jobs.append(judged)
        outcomes = iter(self.sandbox.run(jobs))
        return [_attempt(next(outcomes)) if verdict is None else verdict for verdict in verdicts]


def _task(proposal: Proposal, outcome: Outcome) -> tuple[Verdict, Task | None]:
    status = "valid" if outcome.status == "ok" else outcome.status
    verdict = Verdict(status, "; ".join(outcome.outputs), outcome.detail, outcome.cpu_ms)
    if status != "valid":
        return verdict, None
    draft = proposal.draft
    # inputs are respelled, so that every later reader sees one spelling of a value
    pairs = tuple(Pair(_respell(given), output) for given, output in zip(draft.inputs, outcome.outputs, strict=True))
    if proposal.kind == "code_f":
        pairs = _distinct(pairs)
        if len(pairs) < 2:
            return replace(verdict, status="malformed", detail="all inputs are one value"), None
    task = Task(proposal.id, proposal.kind, proposal.author, proposal.step, draft.program, pairs, draft.message)
    return verdict, task


def _judge(task: Task, answer: str | None) -> Verdict | Job:
    """A verdict where none needs a child process, else the job that decides."""
    if answer is None:
        return Verdict("malformed", detail="no answer in the text")
    if task.kind == "code_f":
        expected = tuple(canonical(parse_literal(pair.output)) for pair in task.hidden)
        return Job(answer, tuple(pair.input for pair in task.hidden), expected=expected)
    gold = canonical(parse_literal(task.pairs[0].output))
    try:
        if task.kind == "code_i":
            parse_arguments(answer)
            return Job(task.program, (answer,), expected=(gold,))
        given = parse_literal(answer)
        same = canonical(given) == gold
    except LiteralError as error:
        return Verdict("malformed", detail=str(error))
    except OversizeError as error:
        return Verdict("oversize", detail=str(error))
    return Verdict("correct" if same else "wrong", output=to_literal(given))


def _attempt(outcome: Outcome) -> Verdict:
    status = "correct" if outcome.status == "ok" else outcome.status
    return Verdict(status, "; ".join(outcome.outputs), outcome.detail, outcome.cpu_ms)


def _respell(arguments: str) -> str:
    return ", ".join(to_literal(value) for value in parse_arguments(arguments))


def _distinct(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """One pair per input value: a hidden pair must not also be shown."""
    return tuple({canonical(parse_arguments(pair.input)): pair for pair in pairs}.values())
