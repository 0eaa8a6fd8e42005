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


LONG = "9" * 320
CALLS = ["f(1) == 2", "f(1) and f(2)", "f(1) if 1 else 2", f"f(0x{'f' * 3600})", f"f({LONG}+1j)"]
DATABASE = "{'t': [('a', 'b'), (1, 2), (3, 4)]}"
DATABASES = [
    DATABASE.replace("1", "9999999999"),
    "{" + ", ".join(f"'t{n}': [('a',), (1,)]" for n in range(5)) + "}",
    "{'t': [('a',), " + ", ".join(["(1,)"] * 41) + "]}",
    "[" * 100,
]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("code_t", f"# add one\ndef f(x):\n    return x + 1\n{call}\nf(2)\nf(3)\nf(4)") for call in CALLS),
        *(("sql_f", f"-- all of a\n{DATABASE}\n{database}\n{DATABASE}\n{DATABASE}") for database in DATABASES),
        *(("code_o", f"def f(x):\n    return x\nf({value})") for value in (f"{LONG}+1j", f"complex({LONG}, 0)")),
    ],
)
def test_no_proposal_ends_a_run_whatever_its_inputs_are(kind: Kind, text: str, verifier: LocalVerifier) -> None:
    start = replace(TASK, kind="sql", program="SELECT a FROM t") if kind == "sql_f" else None
    judged = submit_proposal(verifier, PROMPTS, completion(text, "stop"), id="2.0", kind=kind, step=2, start=start)
    verdict, task = judged.result()
    assert verdict.status not in ("valid", "infra_error")
    assert task is None


def test_a_comment_behind_a_call_hides_nothing_of_the_test(verifier: LocalVerifier) -> None:
    text = "# add one\ndef f(x):\n    return x + 1\nf(1)  # 2\nf(2)\nf(3)\nf(4)"
    judged = submit_proposal(verifier, PROMPTS, completion(text, "stop"), id="2.0", kind="code_t", step=2, start=None)
    verdict, task = judged.result()
    assert (verdict.status, task is not None) == ("valid", True)


@pytest.mark.parametrize("given", [f"f({'+'.join(['1'] * 600)})", f"f({'-' * 400}1)"])
def test_a_chat_that_proposes_a_deep_call_is_malformed(given: str, verifier: LocalVerifier) -> None:
    block = "```python\n# add one\ndef f(x):\n    return x + 1\n```\n"
    text = f"<answer>\n{block}" + f"```input\n{given}\n```\n" * 4 + "</answer>"
    chat = prompts("chat", GameConfig(kinds=("code_t",)))
    judged = submit_proposal(verifier, chat, completion(text, "stop"), id="2.0", kind="code_t", step=2, start=None)
    assert judged.result()[1] is None


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
