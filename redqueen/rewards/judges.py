"""From texts to rewards, many at a time. A fault of the machine is None and never a number."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from redqueen.base.machine import cores
from redqueen.config import GameConfig, SandboxConfig
from redqueen.evals.graders.extraction import code_answer
from redqueen.game.rewards import is_judged, is_well_formed
from redqueen.game.verifier import LocalVerifier, answer_to
from redqueen.records import Task, Verdict
from redqueen.rewards.exported import Style, answer_in
from redqueen.sandbox import Call, Limits, Outcome, Script, Test, judge

_lock = threading.Lock()
_verifiers: dict[int, LocalVerifier] = {}


def attempt_verdicts(
    tasks: Sequence[Task], texts: Sequence[str], styles: Sequence[Style], openings: Sequence[str]
) -> list[Verdict]:
    """Returns what the verifier says of each text as an answer to its task."""
    answers = [answer_in(*row) for row in zip(tasks, texts, styles, openings, strict=True)]
    verifier = shared_verifier()
    waiting = [verifier.judge_answer(answer_to(*pair)) for pair in zip(tasks, answers, strict=True)]
    return [future.result() for future in waiting]


def pay_attempts(verdicts: Sequence[Verdict]) -> list[float | None]:
    """Returns the game's rewards: 1 for a right answer, -0.5 for a wrong one, -1 for no answer.

    None after a fault of the machine, and where the task's program did not give its own output again.
    """
    pay = GameConfig()
    rewards: list[float | None] = []
    for verdict in verdicts:
        if not is_judged(verdict):
            rewards.append(None)
        elif not is_well_formed(verdict):
            rewards.append(pay.student_malformed)
        else:
            rewards.append(pay.student_correct if verdict.status == "correct" else pay.student_wrong)
    return rewards


def program_outcomes(
    texts: Sequence[str], tests: Sequence[Sequence[Any]], limits: Limits | None = None
) -> list[Outcome]:
    """Returns how the program in each text fares with its tests. The program is the last fenced block, or all of it.

    A test is what `redqueen.sandbox.judge` takes, or a mapping as data sets hold it: `{"stdin": ..., "stdout": ...}` or
    `{"function": ..., "arguments": [...], "expected": ...}`. Raises ValueError for anything else.
    """
    asked = [[test_of(test) for test in suite] for suite in tests]
    with ThreadPoolExecutor(min(2 * cores(), max(1, len(texts)))) as threads:
        pairs = zip(texts, asked, strict=True)
        waiting = [threads.submit(judge, code_answer(text), suite, limits=limits) for text, suite in pairs]
        return [future.result() for future in waiting]


def pay_programs(outcomes: Sequence[Outcome]) -> list[float | None]:
    """Returns 1 for a program that passes all its tests and 0 for any other, None after a fault of the machine."""
    return [None if outcome.status == "infra_error" else float(outcome.status == "ok") for outcome in outcomes]


def test_of(test: Any) -> Test:
    """Returns a test as `judge` takes it. Raises ValueError if it is none."""
    if isinstance(test, Call | Script | str):
        return test
    if isinstance(test, Mapping):
        fields = cast("Mapping[str, Any]", test)
        # Arrow gives all rows of a column the same fields, and None to those that have none.
        stdin, stdout = fields.get("stdin"), fields.get("stdout")
        if isinstance(stdout, str):
            return Script(stdin if isinstance(stdin, str) else "", stdout)
        if isinstance(fields.get("function"), str):
            return Call(fields["function"], tuple(fields.get("arguments") or ()), fields.get("expected"))
    raise ValueError(
        f"{str(test)[:80]!r} is no test: give `assert EXPRESSION == LITERAL`, stdin and stdout, or function, arguments "
        "and expected"
    )


def shared_verifier() -> LocalVerifier:
    """Returns this process's verifier of the game's tasks, which is started when it is first asked for."""
    with _lock:
        # A fork has its parent's dictionary, and must not use its parent's sandbox.
        verifier = _verifiers.get(os.getpid())
        if verifier is None:
            verifier = _verifiers[os.getpid()] = LocalVerifier(SandboxConfig())
            atexit.register(verifier.close)
        return verifier
