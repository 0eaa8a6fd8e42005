"""Tries a run's rewards and advantage before it starts: one of the user's own that fails would end its first step."""

from __future__ import annotations

from redqueen.config import AdvantageSettings, GameConfig
from redqueen.method.advantages import advantages
from redqueen.method.rewards import WELL_FORMED_MISSES, student_reward, teacher_reward
from redqueen.plugins import PluginError
from redqueen.records import Attempted, Completion, GradedRollout, Pair, Proposed, Role, Rollout, Status, Task, Verdict
from redqueen.tasks.python import DEDUCTION

TASK = Task(
    id="probe", kind=DEDUCTION.name, author="T0", step=1, program="def f(x):\n    return x + 1", pairs=(Pair("1", "2"),)
)
"""The task that is made up."""


def check_rewards(pay: GameConfig) -> None:
    """Tries both rewards, at solve rates of 0, 1/2 and 1 and on every verdict that has the right form.

    Raises PluginError if one of them fails or gives no finite number.
    """
    try:
        for rho in (0.0, 0.5, 1.0):
            teacher_reward(probe_proposal(Verdict("valid", "2")), rho, novel=True, pay=pay)
        for status in ("correct", *WELL_FORMED_MISSES):
            student_reward(probe_attempt(Verdict(status)), pay)
    except PluginError:
        raise
    # A user's code may raise anything.
    except Exception as error:
        names = f"game.teacher_reward={pay.teacher_reward} or game.student_reward={pay.student_reward}"
        raise PluginError(f"{names} fails when it is tried: {type(error).__name__}: {error}") from error


def check_advantage(settings: AdvantageSettings) -> None:
    """Tries the advantage on a group of each role, and on an attempt that is alone in its group.

    Raises PluginError if it fails or gives anything but one finite number for each text.
    """
    pay = settings.game
    student: list[tuple[float, Status]] = [
        (pay.student_correct, "correct"),
        (pay.student_wrong, "wrong"),
        (pay.student_malformed, "malformed"),
    ]
    batch = [_graded("teacher", "1.0", 1.0, "valid"), _graded("teacher", "1.0", pay.teacher_invalid, "error")]
    batch += [_graded("student", TASK.id, reward, status) for reward, status in student]
    batch.append(_graded("student", "another", pay.student_correct, "correct"))
    try:
        advantages(batch, settings)
    except PluginError:
        raise
    # A user's code may raise anything.
    except Exception as error:
        name = f"learning.advantage={settings.learning.advantage}"
        raise PluginError(f"{name} fails when it is tried: {type(error).__name__}: {error}") from error


def _graded(role: Role, group: str, reward: float, status: Status) -> GradedRollout:
    member = "T0" if role == "teacher" else "S0"
    return GradedRollout(rollout=_rollout(member, role, group), reward=reward, verdict=Verdict(status))


def probe_proposal(verdict: Verdict) -> Proposed:
    """Returns a made-up proposal with this verdict."""
    return Proposed(
        id=TASK.id,
        match="1.0",
        student="S0",
        prompt="",
        references=(),
        rollout=_rollout("T0", "teacher", f"1.0.{TASK.kind}"),
        verdict=verdict,
        task=TASK if verdict.status == "valid" else None,
    )


def probe_attempt(verdict: Verdict) -> Attempted:
    """Returns a made-up attempt at `TASK` with this verdict."""
    return Attempted(task=TASK, number=0, rollout=_rollout("S0", "student", TASK.id), verdict=verdict)


def _rollout(member: str, role: Role, group: str) -> Rollout:
    completion = Completion(
        member=member,
        version=1,
        prompt_ids=(1,),
        token_ids=(2,),
        logprobs=(-1.0,),
        text=TASK.program,
        finish_reason="stop",
    )
    return Rollout(member=member, role=role, kind=TASK.kind, group=group, completion=completion)
