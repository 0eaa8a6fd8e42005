"""The game's tasks as rows for another trainer, and from its texts to rewards, many at a time.

A fault of the machine is None and never a number.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from redqueen.config import GameConfig, SandboxConfig
from redqueen.errors import UserError
from redqueen.evals.grader import code_answer
from redqueen.jail import Limits, Outcome, judge
from redqueen.jail.cases import names_called
from redqueen.jail.probes import cores
from redqueen.method.prompts import prompts
from redqueen.method.rewards import is_judged, is_well_formed
from redqueen.method.seeds import is_reserved
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Task, Verdict
from redqueen.store.dataset.files import fixed_tasks
from redqueen.tasks.kinds import find
from redqueen.tasks.tested.tests import suites_of

Style = Literal["chat", "completion"]


def task_rows(source: str | Path, style: Style = "chat") -> list[dict[str, Any]]:
    """Returns the tasks of a run's folder, or of what `redqueen tasks export` wrote, as rows for another trainer.

    `style` is "chat" for instruct models, whose prompts are conversations, or "completion" for all others. The tasks
    are posed without worked examples.

    Raises UserError if the source holds no tasks, or a row that is not a task.
    """
    return [task_row(task, style) for task in posed_tasks(source)]


def posed_tasks(source: str | Path) -> list[Task]:
    """Returns the tasks of a source without those similar to a reserved program: models are only measured on these.

    Raises UserError if none is left, or for a row that is no task.
    """
    tasks = fixed_tasks(Path(source))
    # A program may have many tasks, and a shape takes a parse.
    programs = {(task.kind, task.program) for task in tasks}
    left_out = {(kind, program) for kind, program in programs if is_reserved(program, kind)}
    posed = [task for task in tasks if (task.kind, task.program) not in left_out]
    if not posed:
        raise UserError(f"{source}: every task is similar to a reserved program, which models are only measured on")
    return posed


def can_be_varied(task: Task) -> bool:
    """Returns whether a teacher can be shown a task, to write another: it has a program, and a teacher writes such."""
    kind = find(task.kind)
    return kind.has_program(task) and not kind.generated


def task_row(task: Task, style: Style) -> dict[str, Any]:
    """Returns the row of one task as TRL takes it: each column but `prompt` is handed to the reward function.

    It has lists of plain texts, so that Arrow, JSON and pickle all carry it. Raises UserError for a style that there is
    not.
    """
    if style not in ("chat", "completion"):
        raise UserError(f"style={style!r}: choose chat or completion")
    asked = prompts(style, GameConfig()).attempt(task, ())
    return {
        "prompt": [{"role": "user", "content": asked.text}] if style == "chat" else asked.text + asked.prefix,
        "id": task.id,
        "kind": task.kind,
        "program": task.program,
        "inputs": [pair.input for pair in task.pairs],
        "outputs": [pair.output for pair in task.pairs],
        "message": task.message,
        "style": style,
        # What the prompt ends with that is already part of the answer, such as `def f(`.
        "opening": asked.prefix,
    }


def answer_in(task: Task, text: str, style: Style, opening: str = "") -> str | None:
    """Returns the answer in a model's text, or None if it has no answer. Text after an answer's end is ignored.

    Other trainers may sample beyond the text at which the game stops, so the text is cut there. A tagged answer is not:
    the last one counts, as the model may have withdrawn another.
    """
    reader = prompts(style, GameConfig())
    asked = reader.attempt(task, ())
    for stop in () if asked.tagged else asked.stop:
        text = text.partition(stop)[0]
    return reader.read_attempt(task.kind, opening + text)


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
        elif not is_well_formed("student", verdict):
            rewards.append(pay.student_malformed)
        else:
            rewards.append(pay.student_correct if verdict.status == "correct" else pay.student_wrong)
    return rewards


def program_outcomes(
    texts: Sequence[str], tests: Sequence[Sequence[Any]], limits: Limits | None = None
) -> list[Outcome]:
    """Returns how the program in each text fares with its tests.

    The program is the last fenced block of Python that defines what the tests call, or all of the text. The tests of a
    row are what `tests.tests_of` reads. Raises ValueError for anything else, before any program runs.
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
