"""What a rollout is paid, and how rewards become advantages (REINFORCE++ with a baseline; Hu et al. 2025)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from redqueen.config import GameConfig
from redqueen.records import GradedRollout, Role, Sample, Verdict

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
    """-1 for an invalid proposal, 0 if nobody solved it, else 1 - rho (PopuLoRA's teacher reward).

    None, that is no reward at all, after a fault of the machine or if no attempt could be judged.
    """
    if verdict.status == "infra_error":
        return None
    if verdict.status != "valid":
        return pay.teacher_invalid
    if rho is None:
        return None
    return pay.teacher_unsolved if rho == 0 else 1 - rho


def student_reward(verdict: Verdict, pay: GameConfig) -> float | None:
    """+1 correct, -0.5 well-formed but wrong, -1 malformed (AZR's code); None after a fault of the machine."""
    if verdict.status == "infra_error":
        return None
    if verdict.status == "correct":
        return pay.student_correct
    return pay.student_wrong if verdict.status in _WELL_FORMED_MISSES else pay.student_malformed


def solve_rate(verdicts: Sequence[Verdict]) -> float | None:
    """rho: the fraction of judged attempts that are correct; None if the machine failed on all of them."""
    judged = [v for v in verdicts if v.status != "infra_error"]
    return fmean(v.status == "correct" for v in judged) if judged else None


def advantages(graded: Sequence[GradedRollout]) -> list[Sample]:
    """Centres each reward by its group, then whitens over each role's whole batch."""
    groups: dict[str, list[float]] = defaultdict(list)
    for item in graded:
        groups[item.rollout.group].append(item.reward)
    means = {name: fmean(rewards) for name, rewards in groups.items()}
    centred = [item.reward - means[item.rollout.group] for item in graded]
    by_role: dict[Role, list[float]] = defaultdict(list)
    for item, value in zip(graded, centred, strict=True):
        by_role[item.rollout.role].append(value)
    scale = {role: _deviation(values) for role, values in by_role.items()}
    return [
        Sample(
            member=item.rollout.member,
            prompt_ids=item.rollout.completion.prompt_ids,
            token_ids=item.rollout.completion.token_ids,
            logprobs=item.rollout.completion.logprobs,
            advantage=value / scale[item.rollout.role] if scale[item.rollout.role] else 0.0,
        )
        for item, value in zip(graded, centred, strict=True)
    ]


def _deviation(values: Sequence[float]) -> float:
    """Root mean square; the mean of group-centred values is zero. Rounding noise counts as no spread."""
    rms = fmean(v * v for v in values) ** 0.5
    return rms if rms > 1e-9 else 0.0
