"""From texts to rewards, many at a time. A fault of the machine is None and never a number."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from redqueen.config import GameConfig, SandboxConfig
from redqueen.evals.grader import code_answer
from redqueen.extras.rewards.exported import Style, answer_in
from redqueen.jail import Limits, Outcome, judge
from redqueen.jail.cases import names_called
from redqueen.jail.probes import cores
from redqueen.method.rewards import is_judged, is_well_formed
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Task, Verdict
from redqueen.tasks.tested.row_tests import suites_of

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
    """Returns how the program in each text fares with its tests.

    The program is the last fenced block of Python that defines what the tests call, or all of the text. The tests of a
    row are what `row_tests.tests_of` reads. Raises ValueError for anything else, before any program runs.
    """
    suites = suites_of(tests, limits)
    programs = [code_answer(text, *names_called(suite)) for text, suite in zip(texts, suites, strict=True)]
    with ThreadPoolExecutor(min(2 * cores(), max(1, len(texts)))) as threads:
        pairs = zip(programs, suites, strict=True)
        waiting = [threads.submit(judge, program, suite, limits=limits) for program, suite in pairs]
        return [future.result() for future in waiting]


def pay_programs(outcomes: Sequence[Outcome]) -> list[float | None]:
    """Returns 1 for a program that passes all its tests and 0 for any other, None after a fault of the machine."""
    return [None if outcome.status == "infra_error" else float(outcome.status == "ok") for outcome in outcomes]


def shared_verifier() -> LocalVerifier:
    """Returns this process's verifier of the game's tasks, which is started when it is first asked for."""
    with _lock:
        # A fork has its parent's dictionary, and must not use its parent's sandbox.
        verifier = _verifiers.get(os.getpid())
        if verifier is None:
            verifier = _verifiers[os.getpid()] = LocalVerifier(SandboxConfig())
            atexit.register(verifier.close)
        return verifier
