"""Panels: what the members sampled and learnt, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from redqueen.analysis.panels.panel import Curves, Line, Panel, by_key, column, names, panel, share


def training(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels of the section "training"."""
    return [*_texts(lines), *_cost(lines), *_learning(lines)]


def _texts(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about what the members write."""
    return [
        panel(
            lines,
            "entropy",
            "training",
            "Entropy by role",
            "nats per token",
            "Mean over the living members of the negative log-probability of a sampled token.",
            _entropy(lines),
            low=0,
        ),
        share(
            lines,
            "truncated",
            "training",
            "Texts cut off by the token limit",
            "Proposals and attempts that did not end by themselves; such a text counts as malformed.",
            by_key(lines, "truncated_rate"),
        ),
        panel(
            lines,
            "response-tokens",
            "training",
            "Length of the texts by role",
            "tokens",
            "Mean length of what living members wrote: proposals of teachers and attempts of students.",
            by_key(lines, "response_tokens"),
            low=0,
        ),
    ]


def _cost(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about tokens and time."""
    tokens = {"sampled": column(lines, "tokens_sampled"), "trained": column(lines, "tokens_trained")}
    return [
        panel(lines, "tokens", "training", "Tokens a step", "tokens", "Tokens sampled and trained on.", tokens, low=0),
        panel(
            lines,
            "tokens-by-phase",
            "training",
            "Tokens by phase",
            "tokens",
            "Tokens sampled to propose, to solve and for held-out scores, and trained on.",
            by_key(lines, "tokens_by_phase"),
            low=0,
        ),
        panel(
            lines,
            "seconds",
            "training",
            "Seconds by phase",
            "seconds",
            "Wall time of the step and of its phases.",
            by_key(lines, "seconds"),
            low=0,
        ),
    ]


def _learning(lines: Sequence[Line]) -> list[Panel]:
    """Returns the panels about the updates."""
    return [
        panel(
            lines,
            "gradient-norm",
            "training",
            "Norm of the gradient by role",
            "norm",
            "Mean over the living members that were updated, before clipping.",
            _by_role(lines, "grad_norm"),
            low=0,
        ),
        panel(
            lines,
            "logprob-gap",
            "training",
            "Sampler and learner apart",
            "nats per token",
            "Mean absolute difference between the log-probabilities of the sampler and of the learner.",
            {"gap": column(lines, "logprob_gap")},
            low=0,
        ),
        panel(
            lines,
            "importance-ratio",
            "training",
            "Importance ratio",
            "ratio",
            "Learner's / sampler's probability of a trained token: spread and truncated share, of the member that has "
            "the most.",
            _ratio(lines),
            low=0,
        ),
        panel(
            lines,
            "dropped",
            "training",
            "Samples without a reward",
            "samples",
            "Faults of the machine, and attempts at tasks that were withdrawn.",
            {"dropped": column(lines, "dropped")},
            low=0,
        ),
    ]


def _entropy(lines: Sequence[Line]) -> Curves:
    """Returns the mean entropy of the members in each role."""
    roles = names(line.get("entropy") or {} for line in lines)
    curves: Curves = {}
    for role in roles:
        members = [list(((line.get("entropy") or {}).get(role) or {}).values()) for line in lines]
        curves[role] = tuple(fmean(values) if values else None for values in members)
    return curves


def _ratio(lines: Sequence[Line]) -> Curves:
    """Returns the largest spread and the largest truncated share of the members' importance ratios."""
    ratios = [list((line.get("importance_ratio") or {}).values()) for line in lines]
    spread = [[ratio["std"] for ratio in step if ratio["std"] is not None] for step in ratios]
    clipped = [[ratio["clipped"] for ratio in step if ratio["clipped"] is not None] for step in ratios]
    return {
        "spread": tuple(max(values, default=None) for values in spread),
        "truncated": tuple(max(values, default=None) for values in clipped),
    }


def _by_role(lines: Sequence[Line], key: str) -> Curves:
    """Returns the mean over the members of each role of a value that the lines have by member."""
    columns: dict[str, dict[int, list[float]]] = {}
    roles: dict[str, str] = {}
    for index, line in enumerate(lines):
        # `members` are those after the births. Who was replaced in this step is known from the lines before.
        roles.update({name: member["role"] for name, member in (line.get("members") or {}).items()})
        for name, value in (line.get(key) or {}).items():
            if value is not None and name in roles:
                columns.setdefault(roles[name], {}).setdefault(index, []).append(value)
    curves: Curves = {}
    for role in sorted(columns, reverse=True):
        by_line = columns[role]
        curves[role] = tuple(fmean(by_line[i]) if i in by_line else None for i in range(len(lines)))
    return curves
