"""From requests to verdicts: members write, and each text is read and judged while others are still being written.

This is the only place where a member's text gets a verdict, so the rule for cut-off texts holds for runs, held-out
scores, studies and the warm start alike: a text that the token limit ended is malformed, whatever it says. A task whose
program gives other results when it runs again is withdrawn with all its attempts (`faults_of`, `withdrawn`): a program
that tosses a coin would make any task contested. `retrial.py` decides what runs again.

An attempt becomes a verdict in three steps: the prompt format reads the answer out of the text (`read_attempt`), and
the kind says what to compare (`Answer`) and what must run for that (`Trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

from redqueen.base.futures import finished
from redqueen.method.prompts import Prompts, work_of
from redqueen.method.verifier import answer_to
from redqueen.records import (
    Answer,
    Attempted,
    Completion,
    Draft,
    Kind,
    Progress,
    Proposal,
    Proposed,
    Request,
    Rollout,
    Sampler,
    Task,
    Verdict,
    Verifier,
)

T = TypeVar("T")


def ask(
    sampler: Sampler,
    requests: Sequence[Request],
    submit: Callable[[int, Completion], Future[T]],
    progress: Progress | None = None,
) -> list[tuple[Completion, T]]:
    """Samples the requests and judges each completion while the others are still being written.

    `submit(index, completion)` hands a completion to the verifier and returns at once. Returns each request's
    completion with the result of `submit`'s future, in the order of the requests.
    """
    # The sandbox works while the model still samples, so judging costs next to no time of its own. Completions end in
    # an order that depends on their lengths and on the batch, so futures are kept by index: the order in which
    # anything finished has no influence on the result.
    judged: dict[int, Future[T]] = {}

    def on_completion(index: int, completion: Completion) -> None:
        judged[index] = submit(index, completion)
        if progress is not None:
            progress(len(judged), len(requests))

    completions = sampler.sample(requests, on_completion)
    return [(completion, judged[index].result()) for index, completion in enumerate(completions)]


def ask_attempts(
    sampler: Sampler,
    verifier: Verifier,
    prompts: Prompts,
    tasks: Sequence[Task],
    requests: Sequence[Request],
    progress: Progress | None,
) -> list[Attempted]:
    """Returns a judged attempt at each of the tasks, each with its own request, in their order.

    They are numbered 0: who asks for several at one task numbers them.
    """

    def submit(index: int, completion: Completion) -> Future[Verdict]:
        return submit_attempt(verifier, prompts, tasks[index], completion)

    attempted: list[Attempted] = []
    answers = ask(sampler, requests, submit, progress)
    for task, request, (completion, verdict) in zip(tasks, requests, answers, strict=True):
        rollout = attempt_rollout(request.member, task, completion)
        work = work_of(prompts, task.kind, completion.text)
        attempted.append(Attempted(task=task, number=0, rollout=rollout, verdict=verdict, work=work))
    return attempted


def judge_proposals(verifier: Verifier, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
    """Judges proposals that are drafts already: waits for the verifier, and returns what it says of each, in order."""
    futures = [verifier.judge_proposal(proposal) for proposal in proposals]
    return [future.result() for future in futures]


def attempt_rollout(member: str, task: Task, completion: Completion) -> Rollout:
    """Returns the rollout of an attempt; the attempts at one task are one group."""
    return Rollout(member=member, role="student", kind=task.kind, group=task.id, completion=completion)


def submit_proposal(
    verifier: Verifier,
    prompts: Prompts,
    completion: Completion,
    *,
    id: str,
    kind: Kind,
    step: int,
    start: Task | None,
) -> Future[tuple[Verdict, Task | None]]:
    """Reads a proposal and hands it to the verifier. What cannot be read is malformed, and nothing of it is run.

    `start` is the task whose program it starts from, if its kind says so.
    """
    verdict = cut_off(completion)
    if verdict is not None:
        return finished((verdict, None))
    draft = prompts.read_proposal(kind, completion.text, start)
    if not isinstance(draft, Draft):
        return finished((Verdict("malformed", detail=draft), None))
    return verifier.judge_proposal(Proposal(id=id, kind=kind, author=completion.member, step=step, draft=draft))


def submit_attempt(verifier: Verifier, prompts: Prompts, task: Task, completion: Completion) -> Future[Verdict]:
    """Reads an attempt at `task` and hands it to the verifier."""
    verdict = cut_off(completion)
    if verdict is not None:
        return finished(verdict)
    return verifier.judge_answer(read_answer(prompts, task, completion))


def read_answer(prompts: Prompts, task: Task, completion: Completion) -> Answer:
    """Returns the answer to `task` in a text that was not cut off."""
    return answer_to(task, prompts.read_attempt(task.kind, completion.text))


def cut_off(completion: Completion) -> Verdict | None:
    """Returns the verdict on a text that the token limit ended, or None if the text ended by itself."""
    # Part of such a text may well be a valid task or a right answer. If that were paid, nothing would teach a member to
    # end its texts, and once all of them run into the limit, none shows how a text ends.
    if completion.finish_reason != "length":
        return None
    return Verdict("malformed", detail=f"cut off after {len(completion.token_ids)} tokens")


def faults_of(attempted: Sequence[Attempted]) -> dict[str, str]:
    """Returns what is wrong with the tasks that turned out not to be deterministic, by the task's id."""
    faults: dict[str, str] = {}
    for attempt in attempted:
        if attempt.verdict.status == "nondeterministic":
            faults.setdefault(attempt.task.id, attempt.verdict.detail)
    return faults


def withdraw(proposed: Proposed, attempts: Sequence[Attempted], fault: str) -> tuple[Proposed, list[Attempted]]:
    """Returns a proposal whose task turned out to be `nondeterministic` after the fact, and the attempts at it.

    It is paid as any other proposal that is not deterministic. The attempts get that status too: they count nowhere.
    """
    # The other attempts may have been judged by a wrong value as well, so none of them counts.
    verdict = replace(proposed.verdict, status="nondeterministic", detail=f"while it was played: {fault}")
    dropped: list[Attempted] = []
    for attempt in attempts:
        judged = attempt.verdict
        if judged.status not in ("nondeterministic", "infra_error"):
            detail = f"the task was withdrawn; judged {judged.status} before"
            judged = replace(judged, status="nondeterministic", detail=detail)
        dropped.append(replace(attempt, verdict=judged))
    return replace(proposed, verdict=verdict, task=None), dropped
