"""The reward of a rollout. What it is worth beside its neighbours is computed in `redqueen.method.advantages`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.records import Attempted, Proposed, Role, Status, Verdict

# The student gave an answer in the right form, and the answer failed. All other failures are malformed.
WELL_FORMED_MISSES: tuple[Status, ...] = (
    "wrong",
    "error",
    "timeout",
    "memory",
    "oversize",
    "forbidden",
    "unsupported",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTask:
    """A valid task and how it was played: what its teacher is paid for."""

    proposed: Proposed
    """The teacher's text with its tokens, and the task that it became."""
    rho: float
    """The solve rate, in [0, 1]."""
    novel: bool
    """Whether its idea is new to the seeds and to the run's task bank (`redqueen.method.seeds`)."""


TeacherReward = Callable[[PlayedTask, GameConfig], float]
"""(played, pay) -> what a valid task pays its teacher."""
StudentReward = Callable[[Attempted, GameConfig], float]
"""(attempted, pay) -> what an answer in the right form pays its student."""


def populora(played: PlayedTask, pay: GameConfig) -> float:
    """Returns 1 - rho, and 0 for a task that was never solved (the paper's reward)."""
    # 1 - rho alone would pay most for impossible tasks.
    return pay.teacher_unsolved if played.rho == 0 else 1 - played.rho


def novel(played: PlayedTask, pay: GameConfig) -> float:
    """Returns what `populora` does for a task with a new idea, and for any other what an unsolved one is paid."""
    # At a rate at which students learn, a teacher that is paid for repetitions sinks to short programs that it repeats
    # (docs/reports/PILOTS.md has the pilots).
    return populora(played, pay) if played.novel else pay.teacher_unsolved


def learnability(played: PlayedTask, pay: GameConfig) -> float:
    """Returns 4 rho (1 - rho): most for a task that is solved half of the time."""
    del pay
    return 4 * played.rho * (1 - played.rho)


def azr(attempted: Attempted, pay: GameConfig) -> float:
    """Returns 1 for a correct answer and -0.5 for a wrong one (AZR's code)."""
    return pay.student_correct if attempted.verdict.status == "correct" else pay.student_wrong


TEACHER_REWARDS: dict[str, TeacherReward] = {"populora": populora, "novel": novel, "learnability": learnability}
STUDENT_REWARDS: dict[str, StudentReward] = {"azr": azr}


def teacher_reward(proposed: Proposed, rho: float | None, novel: bool, pay: GameConfig) -> float | None:
    """Returns what a proposal pays: `teacher_invalid` (-1) if it is no valid task, else what `pay.teacher_reward` says.

    Returns None, that is no reward at all, after a fault of the machine or if no attempt could be judged.
    """
    # A fault of the machine says nothing about the text, so the rollout is left out rather than paid 0. Neither this
    # nor the pay of an invalid proposal is left to a reward by name: the baseline of `advantages` counts on it.
    status = proposed.verdict.status
    if status == "infra_error":
        return None
    if status != "valid":
        return pay.teacher_invalid
    if rho is None:
        return None
    name = pay.teacher_reward
    reward = plugins.named("teacher reward", name, TEACHER_REWARDS)
    return plugins.finite("teacher reward", name, reward(PlayedTask(proposed=proposed, rho=rho, novel=novel), pay))


def student_reward(attempted: Attempted, pay: GameConfig) -> float | None:
    """Returns what an attempt pays: `student_malformed` (-1) without an answer, else what `pay.student_reward` says.

    Returns None after a fault of the machine, and if the task turned out not to be deterministic.
    """
    if not is_judged(attempted.verdict):
        return None
    if not is_well_formed("student", attempted.verdict):
        return pay.student_malformed
    name = pay.student_reward
    reward = plugins.named("student reward", name, STUDENT_REWARDS)
    return plugins.finite("student reward", name, reward(attempted, pay))


def is_well_formed(role: Role, verdict: Verdict) -> bool:
    """Returns whether a text has the right form: a proposal that is a valid task, or an attempt with an answer."""
    # The jail's words mean two things: an answer that raises is wrong, a program that raises is no task.
    return verdict.status == "valid" if role == "teacher" else verdict.status in ("correct", *WELL_FORMED_MISSES)


def is_judged(verdict: Verdict) -> bool:
    """Returns whether a verdict on an attempt says anything about its author.

    A fault of the machine does not, and `nondeterministic` is the task's fault. Such an attempt counts nowhere.
    """
    return verdict.status not in ("infra_error", "nondeterministic")


def solve_rate(verdicts: Sequence[Verdict]) -> float | None:
    """Returns rho, the fraction of judged attempts that are correct, or None if none was judged (`is_judged`)."""
    judged = [verdict for verdict in verdicts if is_judged(verdict)]
    return fmean(verdict.status == "correct" for verdict in judged) if judged else None


def scores(attempted: Sequence[Attempted]) -> dict[str, float]:
    """Returns solve rates in [0, 1] by member; a member of whom the machine lost every attempt is left out."""
    verdicts: dict[str, list[Verdict]] = {}
    for attempt in attempted:
        verdicts.setdefault(attempt.rollout.member, []).append(attempt.verdict)
    rates = {member: solve_rate(judged) for member, judged in verdicts.items()}
    return {member: rate for member, rate in rates.items() if rate is not None}
