"""The Vendi score: the effective number of different tasks in a set (Friedman and Dieng 2023, arXiv:2210.02410).

It is the exponential of the entropy of the eigenvalues of K / n, where K holds the similarities of n tasks. It is 1 if
all are the same and n if nothing is alike. Here a task is the set of syntax paths of its reached program, and two tasks
are as similar as the cosine of their sets: the paths that both have, over the geometric mean of how many each has.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from statistics import fmean

import numpy as np

_DRAWS = 20


def vendi_score(tasks: Sequence[Collection[str]]) -> float | None:
    """Returns the score of tasks that are given as sets of features, None without any."""
    if not tasks:
        return None
    columns = {feature: i for i, feature in enumerate(sorted({feature for task in tasks for feature in task}))}
    # A task without a feature is like all others without one, and like nothing else.
    features_TF = np.zeros((len(tasks), len(columns) + 1))
    for row, task in enumerate(tasks):
        for feature in task:
            features_TF[row, columns[feature]] = 1
        if not task:
            features_TF[row, -1] = 1
    features_TF /= np.linalg.norm(features_TF, axis=1, keepdims=True)
    # The squares of the singular values are the eigenvalues of K.
    weights = np.linalg.svd(features_TF, compute_uv=False) ** 2 / len(tasks)
    weights = weights[weights > 1e-12]
    return float(np.exp(-np.sum(weights * np.log(weights))))


def rarefied_vendi_score(tasks: Sequence[Collection[str]], size: int) -> float | None:
    """Returns the mean score of `size` tasks drawn from `tasks`, None if there are fewer.

    The score grows with the number of tasks, so sets of different sizes are compared at the same one.
    """
    if len(tasks) < size or not size:
        return None
    draws = 1 if len(tasks) == size else _DRAWS
    # The draws are the same each time, so that a comparison that is made twice gives the same numbers.
    rng = random.Random(0)
    scores = [vendi_score(rng.sample(list(tasks), size)) for _ in range(draws)]
    return fmean(score for score in scores if score is not None)
