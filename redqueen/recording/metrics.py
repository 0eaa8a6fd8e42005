"""What a step is summed up as: one line of metrics.jsonl."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from redqueen.config import LeagueConfig
from redqueen.evolution import Game, Replacement, fitness_of
from redqueen.league.population import Population
from redqueen.records import Kind, MemberUpdate
from redqueen.self_play import Played

Line = dict[str, Any]


def summarise(played: Played, updates: Sequence[MemberUpdate], kinds: Sequence[Kind]) -> Line:
    """The step's numbers. Rates and means are null where there was nothing to average.

    valid_rate: valid / all proposals. solve_rate: correct / judged attempts. contested: tasks with 0 < rho < 1.
    Faults of the machine are in `statuses` and `dropped` and in nothing else.
    """
    proposed, attempted = played.proposed, played.attempted
    judged = [p for p in proposed if p.verdict.status != "infra_error"]
    tries = [a for a in attempted if a.verdict.status != "infra_error"]
    rho = [(p.rollout.kind, played.rho[p.id]) for p in proposed if p.id in played.rho]
    return {
        "step": played.step,
        "valid_rate": _mean(p.task is not None for p in judged),
        "valid_rate_by_kind": {k: _mean(p.task is not None for p in judged if p.rollout.kind == k) for k in kinds},
        "novel_rate": _mean(p.id in played.novel for p in judged if p.task is not None),
        "solve_rate": _mean(a.verdict.status == "correct" for a in tries),
        "solve_rate_by_kind": {
            k: _mean(a.verdict.status == "correct" for a in tries if a.rollout.kind == k) for k in kinds
        },
        "tasks_by_kind": {k: sum(kind == k for kind, _ in rho) for k in kinds},
        "contested_by_kind": {k: sum(kind == k and 0 < rate < 1 for kind, rate in rho) for k in kinds},
        "teacher_reward": _mean(played.teacher_rewards.values()),
        "student_reward": _mean(played.student_rewards.values()),
        "statuses": {
            "proposals": dict(sorted(Counter(p.verdict.status for p in proposed).items())),
            "attempts": dict(sorted(Counter(a.verdict.status for a in attempted).items())),
        },
        "dropped": len(proposed) + len(attempted) - len(played.teacher_rewards) - len(played.student_rewards),
        "tokens_sampled": sum(len(x.rollout.completion.token_ids) for x in (*proposed, *attempted)),
        **_learning(updates),
    }


def _learning(updates: Sequence[MemberUpdate]) -> Line:
    tokens = sum(u.tokens for u in updates)

    def per_token(values: Sequence[float]) -> float | None:
        weighted = sum(v * u.tokens for v, u in zip(values, updates, strict=True))
        return _finite(weighted / tokens) if tokens else None

    return {
        "tokens_trained": tokens,
        "entropy": per_token([u.entropy for u in updates]),
        "logprob_gap": per_token([u.logprob_gap for u in updates]),
        "loss": {u.member: _finite(u.loss) for u in updates},
        "grad_norm": {u.member: _finite(u.grad_norm) for u in updates},
        "adapter_norm": {u.member: u.adapter_norm for u in updates},
        "skipped": {u.member: u.skipped for u in updates if u.skipped},
    }


def league_summary(
    population: Population, games: Sequence[Game], births: Sequence[Replacement], league: LeagueConfig
) -> Line:
    """Ratings after the step, its games, who was replaced, and the hall of fame."""
    return {
        "members": {
            m.name: {
                "role": m.role,
                "mu": m.rating.mu,
                "sigma": m.rating.sigma,
                "fitness": fitness_of(m, league),
                "record": [m.wins, m.draws, m.losses],
                "born": m.born,
                "parents": list(m.parents),
            }
            for m in population.members.values()
        },
        "matches": [
            {"teacher": g.match.teacher, "student": g.match.student, "score": g.score, "outcome": g.outcome}
            for g in games
        ],
        "replacements": [
            {
                "victim": b.victim,
                "child": b.child,
                "parents": list(b.parents),
                "operator": b.operator,
                **({} if b.distance is None else {"distance": b.distance, "tries": b.tries}),
            }
            for b in births
        ],
        "hall": list(population.hall_of_fame),
    }


def _finite(value: float) -> float | None:
    """JSON has no NaN; what was skipped, and why, is in `skipped`."""
    return value if math.isfinite(value) else None


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None
