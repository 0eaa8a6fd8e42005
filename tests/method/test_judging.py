"""A text that the token limit ended is malformed, whatever it says; every other text reaches the verifier."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest

from redqueen.config import GameConfig
from redqueen.method.judging import cut_off, submit_attempt, submit_proposal
from redqueen.method.prompts import prompts
from redqueen.method.reward_probe import probe_attempt, probe_proposal
from redqueen.method.rewards import student_reward, teacher_reward
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, FinishReason, Kind, Pair, Task, Verdict
from redqueen.tasks.kinds import find
from redqueen.tasks.python import NAMES

PAY = GameConfig()
PROMPTS = prompts("completion", PAY)
TASK = Task(
    id="1.0",
    kind="code_f",
    author="T0",
    step=1,
    program="def f(x):\n    return x + 1",
    pairs=tuple(Pair(str(n), str(n + 1)) for n in range(4)),
    message="Add one.",
)


def completion(text: str, reason: FinishReason) -> Completion:
    return Completion(
        member="T1", version=1, prompt_ids=(1,), token_ids=(2, 3, 4), logprobs=(-1.0,) * 3, text=text,
        finish_reason=reason,
    )  # fmt: skip


def propose(verifier: LocalVerifier, kind: Kind, reason: FinishReason) -> Future[tuple[Verdict, Task | None]]:
    # The prompt's prefix is part of the text, so this is a whole and right proposal.
    text = PROMPTS.write_proposal(find(kind).of_program(TASK))
    start = TASK if kind == "code_f" else None
    return submit_proposal(verifier, PROMPTS, completion(text, reason), id="2.0", kind=kind, step=2, start=start)


@pytest.mark.parametrize("kind", NAMES)
def test_a_proposal_that_was_cut_off_is_no_task_and_is_not_run(kind: Kind, verifier: LocalVerifier) -> None:
    verdict, task = propose(verifier, kind, "stop").result()
    assert verdict.status == "valid"
    assert task is not None
    assert (task.id, task.author, task.step, task.program) == ("2.0", "T1", 2, TASK.program)
    judged = propose(verifier, kind, "length")
    # Done at once: no program is run for it.
    assert judged.done()
    assert judged.result() == (Verdict("malformed", detail="cut off after 3 tokens"), None)
    assert teacher_reward(probe_proposal(judged.result()[0]), None, False, PAY) == PAY.teacher_invalid


@pytest.mark.parametrize("kind", NAMES)
def test_an_attempt_that_was_cut_off_is_malformed_though_it_is_right(kind: Kind, verifier: LocalVerifier) -> None:
    task = find(kind).of_program(TASK)
    whole = completion(PROMPTS.write_attempt(task), "stop")
    assert submit_attempt(verifier, PROMPTS, task, whole).result().status == "correct"
    judged = submit_attempt(verifier, PROMPTS, task, replace(whole, finish_reason="length"))
    assert judged.done()
    assert judged.result() == Verdict("malformed", detail="cut off after 3 tokens")
    assert student_reward(probe_attempt(judged.result()), PAY) == PAY.student_malformed


def test_only_the_limit_cuts_off() -> None:
    assert cut_off(completion("", "stop")) is None
