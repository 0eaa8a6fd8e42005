"""Judges some attempts a second time, so that a task that tosses a coin does not pay its teacher.

Where a task's program runs to judge answers, native code in it can see chance that no jail keeps from it, and aim at
the CPU limit (docs/SECURITY.md, "Chance"). Such a program chooses its own solve rate. It pays nothing as long as
another toss is likely to give it away:

- equal answers to one task are judged alike, or the task is withdrawn;
- of a contested task one attempt is judged once more, and so is each input that met the CPU limit, with twice that
  limit. Another verdict withdraws the task.

What the machine lost is judged again before that. A withdrawn task is paid as a proposal that is not deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from redqueen.base import streams
from redqueen.jail import CodecError
from redqueen.method.judging import read_answer, submit_attempt
from redqueen.method.prompts import Prompts
from redqueen.method.rewards import WELL_FORMED_MISSES
from redqueen.records import Answer, Attempted, Status, Verdict, Verifier
from redqueen.tasks.kinds import find

MOST_LOST = 4
"""Attempts that the machine may lose twice before the others that it lost stay lost: each takes many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """An attempt for which the task's program ran on a student's input."""

    place: int
    """Its place among the attempts of the step."""
    given: str
    """The input, in the one spelling of its value."""
    answer: Answer
    status: Status


def settle(verifier: Verifier, prompts: Prompts, attempted: Sequence[Attempted], seed: int) -> list[Attempted]:
    """Returns a step's attempts, in their order, when all that is judged a second time has been.

    An attempt that shows a task not to be deterministic gets that status, by which `faults_of` finds the task.
    """
    attempted = recover(verifier, prompts, attempted)
    details: dict[int, str] = {}
    again: list[tuple[_Judged, Future[Verdict]]] = []
    for task_id, judged in _by_task(prompts, attempted):
        two = _contradiction(judged)
        if two is not None:
            first, second = two
            details[second.place] = f"equal answers were judged {first.status} and {second.status}"
            continue
        chosen = _chosen(judged, streams.python(seed, "retrial", task_id))
        again += [(each, verifier.judge_answer(replace(each.answer, patient=True))) for each in chosen]
    for each, future in again:
        verdict = future.result()
        if verdict.status == "nondeterministic":
            details[each.place] = verdict.detail
        elif verdict.status not in (each.status, "infra_error"):
            details[each.place] = f"with twice the CPU limit the answer is now {verdict.status} and not {each.status}"
    return [_marked(attempt, details.get(place)) for place, attempt in enumerate(attempted)]


def recover(verifier: Verifier, prompts: Prompts, attempted: Sequence[Attempted]) -> list[Attempted]:
    """Returns the attempts; those that the machine lost are judged again, one at a time."""
    # Most were starved: too many programs ran at once. Now nothing else of this run does, so that no task loses its
    # attempts by being slow on a busy machine.
    recovered: list[Attempted] = []
    lost = 0
    for attempt in attempted:
        if attempt.verdict.status == "infra_error" and lost < MOST_LOST:
            verdict = submit_attempt(verifier, prompts, attempt.task, attempt.rollout.completion).result()
            attempt = replace(attempt, verdict=verdict)
            lost += verdict.status == "infra_error"
        recovered.append(attempt)
    return recovered


def _by_task(prompts: Prompts, attempted: Sequence[Attempted]) -> Iterator[tuple[str, list[_Judged]]]:
    """Yields the id of each task whose program ran to judge attempts, and these attempts; no task that is at fault."""
    groups: dict[str, list[_Judged]] = {}
    broken: set[str] = set()
    for place, attempt in enumerate(attempted):
        status = attempt.verdict.status
        if status == "nondeterministic":
            broken.add(attempt.task.id)
        kind = find(attempt.task.kind)
        if not kind.runs_program or status not in ("correct", *WELL_FORMED_MISSES):
            continue
        answer = read_answer(prompts, attempt.task, attempt.rollout.completion)
        try:
            given = kind.language.spell_input(answer.text or "")
        except CodecError:
            # Too long to be spelled, say. Nothing has run.
            continue
        judged = _Judged(place=place, given=given, answer=answer, status=status)
        groups.setdefault(attempt.task.id, []).append(judged)
    for task_id, judged in groups.items():
        if task_id not in broken:
            yield task_id, judged


def _contradiction(judged: Sequence[_Judged]) -> tuple[_Judged, _Judged] | None:
    """Returns two attempts with one input and different verdicts, None if there are none."""
    first_of: dict[str, _Judged] = {}
    for each in judged:
        first = first_of.setdefault(each.given, each)
        if first.status != each.status:
            return first, each
    return None


def _chosen(judged: Sequence[_Judged], rng: random.Random) -> list[_Judged]:
    """Returns those attempts at one task that are judged again: none if it is not contested, which pays nothing."""
    solved = [each for each in judged if each.status == "correct"]
    missed = [each for each in judged if each.status != "correct"]
    if not solved or not missed:
        return []
    # Of the rarer verdict: if a coin gave it, the other side is the likelier one to come up now. So a coin is found in
    # about half of the tasks at least that it makes contested, whatever solve rate it is made for; with any attempt,
    # one of 90 % would be found in 18 % of them.
    rarer = solved if len(solved) <= len(missed) else missed
    steady = [each for each in rarer if each.status != "timeout"]
    # A program may aim at the limit, with so much work that the noise of the machine decides. Twice the limit is out of
    # that noise: what ends there was no miss of the student, and what does not is an endless loop.
    late = {each.given: each for each in missed if each.status == "timeout"}
    return [*([rng.choice(steady)] if steady else ()), *late.values()]


def _marked(attempt: Attempted, detail: str | None) -> Attempted:
    """Returns an attempt as what shows its task not to be deterministic, if `detail` says how."""
    if detail is None:
        return attempt
    return replace(attempt, verdict=replace(attempt.verdict, status="nondeterministic", detail=detail))
