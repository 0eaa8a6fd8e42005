"""The advantages that rewards become, and the estimators that compute them, by name.

docs/ALGORITHM.md, "Learning", has the formulas side by side with their sources, and what each does with edge cases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import comb
from statistics import fmean, stdev

from redqueen import plugins
from redqueen.config import AdvantageSettings, GameConfig
from redqueen.method.rewards import is_well_formed
from redqueen.plugins import PluginError
from redqueen.records import GradedRollout, Role, Sample

Estimator = Callable[[Sequence[GradedRollout], AdvantageSettings], Sequence[float]]
"""(graded, settings) -> one advantage for each text, in the order of `graded`.

`graded` is all that a step's members are paid for, both roles. Texts with the same `rollout.group` are a group: a
student's attempts at one task, or a teacher's proposals of one kind in one match.
"""
GroupEstimator = Callable[[Sequence[float]], Sequence[float]]
"""The rewards of a group -> their advantages."""


def reinforce_plus_plus_baseline(graded: Sequence[GradedRollout], settings: AdvantageSettings) -> list[float]:
    """Returns (r - b) / rms: b is the group's baseline, rms the root mean square of r - b over the role's texts.

    REINFORCE++ with a baseline (Hu et al. 2025, arXiv:2501.03262). `_baseline` says what b is.
    """
    values = [0.0] * len(graded)
    for places in _groups(graded).values():
        group = [graded[place] for place in places]
        baseline = _baseline(group, settings.game)
        for place, item in zip(places, group, strict=True):
            values[place] = _or_zero(item.reward - baseline)
    # Each role is divided by its own deviation, because teachers and students are paid on different scales.
    by_role: dict[Role, list[float]] = defaultdict(list)
    for item, value in zip(graded, values, strict=True):
        by_role[item.rollout.role].append(value)
    scale = {role: _deviation(of_role) for role, of_role in by_role.items()}
    return [
        value / scale[item.rollout.role] if scale[item.rollout.role] else 0.0
        for item, value in zip(graded, values, strict=True)
    ]


def passk(graded: Sequence[GradedRollout], others: list[float], k: int) -> list[float]:
    """Returns for students the advantages of pass@k (Chen et al. 2025, arXiv:2508.10751).

    Teachers keep `others`: each of their tasks is posed and paid, not the best of k.
    """
    values = list(others)
    for places in _groups(graded).values():
        if graded[places[0]].rollout.role == "student":
            own = best_of_k([graded[place].reward for place in places], k)
            for place, value in zip(places, own, strict=True):
                values[place] = value
    return values


ESTIMATORS: dict[str, Estimator] = {
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
    "grpo": lambda graded, _: _by_group(graded, grpo),
    "rloo": lambda graded, _: _by_group(graded, rloo),
    "passk": lambda graded, by: passk(graded, reinforce_plus_plus_baseline(graded, by), by.learning.pass_k),
}


def advantages(graded: Sequence[GradedRollout], settings: AdvantageSettings) -> list[Sample]:
    """Returns the samples to learn from, in the order of `graded`.

    A correct attempt's advantage is multiplied by `learning.positive_weight`; then `learning.imitation` adds to it.
    Raises PluginError if an estimator of the user's own gives no finite number for each text.
    """
    learning = settings.learning
    name = learning.advantage
    estimator = plugins.named("advantage", name, ESTIMATORS)
    values = _checked(name, estimator(graded, settings), len(graded))
    imitated = _imitated(graded, learning.imitation)
    samples: list[Sample] = []
    for item, value, more in zip(graded, values, imitated, strict=True):
        rollout = item.rollout
        sample = Sample(
            member=rollout.member,
            prompt_ids=rollout.completion.prompt_ids,
            token_ids=rollout.completion.token_ids,
            logprobs=rollout.completion.logprobs,
            advantage=(learning.positive_weight * value if _is_correct(item) else value) + more,
            role=rollout.role,
        )
        samples.append(sample)
    return samples


def best_of_k(rewards: Sequence[float], k: int) -> list[float]:
    """Returns the advantages of a group whose every subset of k texts is paid its best reward.

    A text's advantage is the mean pay of the subsets that hold it, less the mean pay of all, divided by the deviation
    of that pay over all subsets. If only right answers are paid, and all alike, this is the closed form of Chen et al.
    In a group of k texts or fewer there is one subset at most, so all advantages are 0.
    """
    n = len(rewards)
    if n <= k:
        return [0.0] * n
    order = sorted(range(n), key=lambda place: rewards[place])
    ranked = [rewards[place] for place in order]
    # The text of rank j, counted from 0, is the best of C(j, k - 1) of all subsets.
    share = [comb(j, k - 1) / comb(n, k) for j in range(n)]
    mean = sum(part * reward for part, reward in zip(share, ranked, strict=True))
    deviation = sum(part * (reward - mean) ** 2 for part, reward in zip(share, ranked, strict=True)) ** 0.5
    if deviation < _NOISE:
        return [0.0] * n
    # Of the subsets that hold the text of rank i, that text is the best of C(i, k - 1), and a text of a higher rank j
    # is the best of C(j - 1, k - 2), whatever i is.
    holding = comb(n - 1, k - 1)
    values = [0.0] * n
    above = 0.0
    for rank in reversed(range(n)):
        pay = comb(rank, k - 1) / holding * ranked[rank] + above
        values[order[rank]] = _or_zero(pay - mean) / deviation
        if rank:
            above += comb(rank - 1, k - 2) / holding * ranked[rank]
    return values


# Rounding leaves about 1e-17 of a difference of equal rewards. Divided by itself, it would be an advantage of 1.
_NOISE = 1e-9


def _groups(graded: Sequence[GradedRollout]) -> dict[str, list[int]]:
    """Returns the places of each group's texts."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(graded):
        groups[item.rollout.group].append(place)
    return groups


def _by_group(graded: Sequence[GradedRollout], estimator: GroupEstimator) -> list[float]:
    """Returns what the estimator gives for each group's rewards, in the order of `graded`."""
    values = [0.0] * len(graded)
    for places in _groups(graded).values():
        own = estimator([graded[place].reward for place in places])
        for place, value in zip(places, own, strict=True):
            values[place] = value
    return values


def grpo(rewards: Sequence[float]) -> list[float]:
    """Returns (r - mean) / std of the group, std with n - 1 as in TRL and verl (Shao et al. 2024, arXiv:2402.03300)."""
    # TRL and verl add 1e-4 or 1e-6 to the deviation, so that equal rewards give 0.
    deviation = stdev(rewards) if len(rewards) > 1 else 0.0
    mean = fmean(rewards)
    return [_or_zero(reward - mean) / deviation if deviation > _NOISE else 0.0 for reward in rewards]


def rloo(rewards: Sequence[float]) -> list[float]:
    """Returns r less the mean of the group's other rewards (Ahmadian et al. 2024, arXiv:2402.14740)."""
    # A reward less the mean of the others is n / (n - 1) times the reward less the mean of all. A text without others
    # is compared with nothing.
    n = len(rewards)
    mean = fmean(rewards)
    return [_or_zero(reward - mean) * n / (n - 1) if n > 1 else 0.0 for reward in rewards]


def _baseline(group: Sequence[GradedRollout], pay: GameConfig) -> float:
    """Returns the mean reward of a group and of one imagined text more, which has the right form.

    The imagined one is paid what the group's texts of the right form are paid on average. If there is none, it is paid
    the least that the right form can bring: a task that is never solved, or a wrong answer.
    """
    # Without it the baseline of a group that holds nothing but invalid texts would be their own reward, so that its
    # members would never feel it. A group without an invalid text has the same baseline as without the imagined one.
    # What is invalid is known from the verdict and not from the reward: with rewards of 0 and 1 a wrong answer and a
    # malformed one are paid alike.
    role = group[0].rollout.role
    least = pay.teacher_unsolved if role == "teacher" else pay.student_wrong
    well_formed = [item.reward for item in group if is_well_formed(role, item.verdict)]
    imagined = fmean(well_formed) if well_formed else least
    return fmean([*(item.reward for item in group), imagined])


def _deviation(values: Sequence[float]) -> float:
    """Returns the root mean square: about the deviation, since groups are centred but for the imagined text."""
    rms = fmean(value * value for value in values) ** 0.5
    return rms if rms > _NOISE else 0.0


def _or_zero(difference: float) -> float:
    """Returns a reward less its baseline. Equal rewards give 0, of which rounding would leave some 1e-17."""
    # A text with an advantage is computed, and lets its member move along its momentum, however small the advantage is.
    return difference if abs(difference) > _NOISE else 0.0


def _is_correct(item: GradedRollout) -> bool:
    return item.verdict.status == "correct"


def _imitated(graded: Sequence[GradedRollout], weight: float) -> list[float]:
    """Returns what imitation adds to each advantage: `weight` for a solved task, in equal parts to its correct texts.

    Copies of one text share its part. A text counts with its work, so two ways to one answer are two texts.
    """
    texts = [(item.rollout.group, item.rollout.completion.token_ids) for item in graded]
    copies = Counter(text for item, text in zip(graded, texts, strict=True) if _is_correct(item))
    different = Counter(group for group, _ in copies)
    return [
        weight / (different[text[0]] * copies[text]) if _is_correct(item) else 0.0
        for item, text in zip(graded, texts, strict=True)
    ]


def _checked(name: str, values: Sequence[float], count: int) -> Sequence[float]:
    """Returns the advantages. Raises PluginError if there are too few or too many, or if one is no finite number."""
    if len(values) != count:
        raise PluginError(f"the advantage '{name}' gave {len(values)} numbers for {count} texts: give one for each")
    return [plugins.finite("advantage", name, value) for value in values]
