"""The end of a step: games are rated, and every k steps the weakest are replaced by children of the strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redqueen import streams
from redqueen.adapters.bank import AdapterBank, generator
from redqueen.adapters.operators import CONTROLS, CROSSOVERS, MUTATIONS, Operator
from redqueen.config import Config
from redqueen.league import (
    Birth,
    Match,
    Outcome,
    Table,
    TrueSkill,
    match_score,
    outcome,
    plan_births,
    task_score,
)
from redqueen.play import Played, match_id
from redqueen.policy.learner import LocalLearner
from redqueen.records import ROLES

OPERATORS: dict[str, Operator] = {**MUTATIONS, **CROSSOVERS, **CONTROLS}


@dataclass(frozen=True, slots=True)
class Game:
    """A match that was played. `score` is the student's, None if the machine spoilt every task (no game then)."""

    id: str
    match: Match
    score: float | None
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """One birth, with the fitness of those concerned at that moment."""

    victim: str
    child: str
    parents: tuple[str, ...]
    operator: str
    victim_fitness: float
    parent_fitness: tuple[float, ...]


def rate(table: Table, matches: Sequence[Match], played: Played, trueskill: TrueSkill) -> list[Game]:
    """One game for each match, in order; the table's ratings move."""
    games: list[Game] = []
    for m, match in enumerate(matches):
        name = match_id(played.step, m)
        # a proposal that is paid is one that the machine did not spoil
        judged = [p for p in played.proposed if p.match == name and p.id in played.teacher_rewards]
        if not judged:
            games.append(Game(name, match, None, None))
            continue
        score = match_score([task_score(played.rho.get(p.id), p.task is not None) for p in judged])
        result = outcome(score)
        table.record(match.teacher, match.student, result, trueskill)
        games.append(Game(name, match, score, result))
    return games


def replace_weakest(
    table: Table, bank: AdapterBank, learner: LocalLearner, step: int, config: Config
) -> list[Replacement]:
    """Plays out the births that are due after `step`; none unless evolution is on and k steps have passed."""
    league = config.league
    if not league.evolution or (step + 1) % league.every:
        return []
    replacements: list[Replacement] = []
    for role in ROLES:
        births = (
            plan_births(
                table.standings(role),
                gamma=league.gamma,
                burn_in=league.burn_in,
                crossover_probability=league.crossover,
                mutations=league.mutations,
                crossovers=league.crossovers,
                rng=streams.python(config.run.seed, step, "births", role),
                k=league.lcb,
            )
            if len(table.role(role)) > 1
            else []
        )
        replacements += [_bear(birth, table, bank, learner, step, config) for birth in births]
    return replacements


def _bear(
    birth: Birth, table: Table, bank: AdapterBank, learner: LocalLearner, step: int, config: Config
) -> Replacement:
    """Makes the child and puts it in the victim's slot: fresh rating, fresh optimizer, new name and version."""
    k = config.league.lcb
    # operators take the fitter parent first
    parents = tuple(sorted(birth.parents, key=lambda name: -table.members[name].rating.lcb(k)))
    child = OPERATORS[birth.operator](
        [bank.read(name) for name in parents], generator(config.run.seed, step, "operator", birth.victim)
    )
    victim = table.members[birth.victim]
    assert victim.role != "both", "the single agent is never replaced"
    fitness = tuple(table.members[name].rating.lcb(k) for name in parents)
    table.remove(victim.name)
    bank.retire(victim.name)
    learner.forget(victim.name)
    member = table.enrol(victim.role, step, parents, birth.operator)
    bank.add(member.name, child)
    learner.reset(member.name)
    return Replacement(victim.name, member.name, parents, birth.operator, victim.rating.lcb(k), fitness)
