"""The reward of a rollout, and the advantages that rewards become (REINFORCE++ with a baseline; Hu et al. 2025)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from redqueen.config import GameConfig
from redqueen.records import GradedRollout, Role, Sample, Verdict

# The student gave an answer in the right form, and the answer failed. All other failures are malformed.
_WELL_FORMED_MISSES = (
    "wrong",
    "error",
    "timeout",
    "memory",
    "oversize",
    "forbidden",
    "unsupported",
    "nondeterministic",
)


def teacher_reward(verdict: Verdict, rho: float | None, pay: GameConfig) -> float | None:
    """Returns PopuLoRA's teacher reward: -1 for an invalid proposal, 0 for an unsolved task, else 1 - rho.

    Returns None, that is no reward at all, after a fault of the machine or if no attempt could be judged.
    """
    # A fault of the machine says nothing about the text, so the rollout is left out rather than paid 0.
    if verdict.status == "infra_error":
        return None
    if verdict.status != "valid":
        return pay.teacher_invalid
    if rho is None:
        return None
    # 1 - rho alone would pay most for impossible tasks.
    return pay.teacher_unsolved if rho == 0 else 1 - rho


def student_reward(verdict: Verdict, pay: GameConfig) -> float | None:
    """Returns 1 for a correct answer, -0.5 for a wrong one in the right form, -1 for a malformed one (AZR's code).

    Returns None after a fault of the machine.
    """
    if verdict.status == "infra_error":
        return None
    if verdict.status == "correct":
        return pay.student_correct
    return pay.student_wrong if verdict.status in _WELL_FORMED_MISSES else pay.student_malformed


def solve_rate(verdicts: Sequence[Verdict]) -> float | None:
    """Returns rho, the fraction of judged attempts that are correct, or None if the machine failed on all of them."""
    judged = [verdict for verdict in verdicts if verdict.status != "infra_error"]
    return fmean(verdict.status == "correct" for verdict in judged) if judged else None


def advantages(graded: Sequence[GradedRollout]) -> list[Sample]:
    """Returns the samples to learn from: rewards centred within each group, then divided by their role's deviation.

    The samples are in the order of `graded`.
    """
    # The baseline. A group holds the attempts at one task, or a teacher's proposals of one kind in a step, so its mean
    # is the reward that was to be expected there.
    groups: dict[str, list[float]] = defaultdict(list)
    for item in graded:
        groups[item.rollout.group].append(item.reward)
    means = {name: fmean(rewards) for name, rewards in groups.items()}
    centred = [item.reward - means[item.rollout.group] for item in graded]
    # Each role is divided by its own deviation, because teachers and students are paid on different scales.
    by_role: dict[Role, list[float]] = defaultdict(list)
    for item, value in zip(graded, centred, strict=True):
        by_role[item.rollout.role].append(value)
    scale = {role: _deviation(values) for role, values in by_role.items()}

    samples: list[Sample] = []
    for item, value in zip(graded, centred, strict=True):
        rollout = item.rollout
        deviation = scale[rollout.role]
        sample = Sample(
            member=rollout.member,
            prompt_ids=rollout.completion.prompt_ids,
            token_ids=rollout.completion.token_ids,
            logprobs=rollout.completion.logprobs,
            advantage=value / deviation if deviation else 0.0,
        )
        samples.append(sample)
    return samples


def _deviation(values: Sequence[float]) -> float:
    """Returns the root mean square, which is the standard deviation because group-centred values have mean 0."""
    rms = fmean(value * value for value in values) ** 0.5
    # Equal rewards leave about 1e-17 after centring. Divided by itself, that noise would be an advantage of 1.
    return rms if rms > 1e-9 else 0.0
