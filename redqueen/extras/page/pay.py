"""Why a text was paid what it was paid, in words."""

from __future__ import annotations

from redqueen.config import GameConfig
from redqueen.records import Status
from redqueen.store.archive.rows import AttemptRow, ProposalRow, TaskRow

_FAULTS: dict[Status, str] = {
    "malformed": "it could not be read",
    "forbidden": "its program does something that is not allowed",
    "error": "its program failed",
    "timeout": "its program took too long",
    "memory": "its program needed too much memory",
    "oversize": "its values were too long",
    "unsupported": "its values have a type that cannot be compared",
    "nondeterministic": "its program did not give the same result again",
}


def why_proposal(row: ProposalRow, task: TaskRow | None, pay: GameConfig) -> str:
    """Returns why a teacher was paid `row.reward`."""
    if row.reward is None:
        return "Not paid: the machine failed, or no attempt could be judged. The proposal counts nowhere."
    if row.status != "valid":
        cut = " (the token limit cut it off)" if row.finish_reason == "length" else ""
        reason = _FAULTS.get(row.status, row.status)
        return f"{_sum(row.reward)}: no valid task, because {reason}{cut}."
    rho = None if task is None else task.rho
    if rho is None:
        return f"{_sum(row.reward)}."
    solved = f"{rho:.0%} of the judged attempts solved it"
    if pay.teacher_reward == "learnability":
        return f"{_sum(row.reward)} = 4 rho (1 - rho): {solved}."
    if pay.teacher_reward != "populora":
        return f"{_sum(row.reward)}, by the reward '{pay.teacher_reward}': {solved}."
    if rho == 0:
        return f"{_sum(row.reward)}: nobody solved it, and what nobody solves pays nothing."
    return f"{_sum(row.reward)} = 1 - rho: {solved}."


def why_attempt(row: AttemptRow, pay: GameConfig) -> str:
    """Returns why a student was paid `row.reward`."""
    if row.reward is None and row.status == "nondeterministic":
        return "Not paid: the task was withdrawn, because its program did not give the same result again."
    if row.reward is None:
        return "Not paid: the machine failed, so this attempt counts nowhere."
    if row.status == "correct":
        reason = "correct"
    elif row.status == "malformed":
        cut = ": the token limit cut it off" if row.finish_reason == "length" else ""
        reason = f"no answer in the right form{cut}"
    elif row.status == "wrong":
        reason = "an answer in the right form, but wrong"
    else:
        reason = f"an answer in the right form, but {_FAULTS.get(row.status, row.status)}"
    rule = "" if pay.student_reward == "azr" or row.status == "malformed" else f", by the reward '{pay.student_reward}'"
    return f"{_sum(row.reward)}{rule}: {reason}."


def _sum(reward: float) -> str:
    """Formats a reward with its sign: `+0.83`; nothing is `0`."""
    return f"{reward:+.2f}" if reward else "0"
