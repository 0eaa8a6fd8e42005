"""The end of a step: games are rated, and every k steps the weakest are replaced by children of the strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from redqueen import streams
from redqueen.adapters.distance import relative_distance
from redqueen.adapters.factors import Adapter
from redqueen.adapters.initialisation import generator
from redqueen.adapters.operators import CONTROLS, CROSSOVERS, MUTATIONS, Operator
from redqueen.config import Config, LeagueConfig
from redqueen.league import (
    AnyRole,
    Birth,
    Champion,
    Fitness,
    Match,
    Member,
    Outcome,
    Probe,
    Table,
    TrueSkill,
    champion,
    game_learnability,
    match_score,
    named_fitness,
    outcome,
    plan_births,
    ranking,
    task_score,
)
from redqueen.policy.policy import Policy
from redqueen.records import ROLES, Proposed, Role
from redqueen.self_play import Played, match_id

OPERATORS: dict[str, Operator] = {**MUTATIONS, **CROSSOVERS, **CONTROLS}

# How often a child too close to a living member is drawn, at most; some operators draw nothing and give the same again.
TRIES = 8


@dataclass(frozen=True, slots=True)
class Game:
    """A match that was played. `score` is the student's, None if the machine spoilt every task (no game then)."""

    id: str
    match: Match
    score: float | None
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """One birth, with the fitness of those concerned at that moment (None: not known yet).

    `distance` is the child's from the nearest living member of its role, None where `league.min_distance` is 0;
    `tries` says how many children were drawn for it.
    """

    victim: str
    child: str
    parents: tuple[str, ...]
    operator: str
    victim_fitness: float | None
    parent_fitness: tuple[float | None, ...]
    distance: float | None = None
    tries: int = 1


def rate(table: Table, matches: Sequence[Match], played: Played, trueskill: TrueSkill) -> list[Game]:
    """One game for each match, in order; the table's ratings move."""
    games: list[Game] = []
    paid: dict[str, list[float]] = {}
    for (task, _), reward in played.student_rewards.items():
        paid.setdefault(task, []).append(reward)
    by_match: dict[str, list[Proposed]] = {}
    for p in played.proposed:
        # a proposal that is paid is one that the machine did not spoil
        if p.id in played.teacher_rewards:
            by_match.setdefault(p.match, []).append(p)
    for m, match in enumerate(matches):
        name = match_id(played.step, m)
        judged = by_match.get(name, [])
        if not judged:
            games.append(Game(name, match, None, None))
            continue
        score = match_score([task_score(played.rho.get(p.id), p.task is not None) for p in judged])
        result = outcome(score)
        table.record(match.teacher, match.student, result, trueskill)
        if match.teacher != match.student:
            rho = [played.rho[p.id] for p in judged if p.task is not None]
            # an invalid proposal is the teacher's doing, and no game of the student's
            pay = fmean(played.teacher_rewards[p.id] for p in judged)
            table.note(match.teacher, pay, game_learnability([*rho, *[0.0] * (len(judged) - len(rho))]))
            earned = [reward for p in judged for reward in paid.get(p.id, ())]
            table.note(match.student, fmean(earned) if earned else None, game_learnability(rho) if rho else None)
        games.append(Game(name, match, score, result))
    return games


def fitness_for(role: AnyRole, league: LeagueConfig) -> Fitness:
    """What members of `role` are ranked by."""
    return named_fitness(league.teacher_fitness if role == "teacher" else league.student_fitness, league.lcb)


def fitness_of(member: Member, league: LeagueConfig) -> float | None:
    """The member's fitness as of now; None: not known yet."""
    return fitness_for(member.role, league)(member.standing())


def due(step: int, league: LeagueConfig) -> bool:
    """Whether `step` is the last of its k: the hour of probes, champions and births."""
    return (step + 1) % league.every == 0


def measure(table: Table, probe: Probe, step: int, league: LeagueConfig) -> None:
    """Scores the students on the held-out tasks if a ranking by them is due after `step`."""
    if league.student_fitness == "held_out" and due(step, league):
        table.probed(probe([m.name for m in table.members.values() if m.role != "teacher"]))


def crown(table: Table, step: int, league: LeagueConfig) -> tuple[list[Champion], list[Champion]]:
    """Takes the fittest of each role into the hall of fame if that is due after `step`: (who entered, who left).

    Only a member that has played, and has played its burn-in, is a candidate. Call it before the births.
    """
    entered: list[Champion] = []
    left: list[Champion] = []
    if not (league.hall_of_fame and due(step, league)):
        return entered, left
    for role in ROLES:
        ranked = ranking(table.standings(role), fitness_for(role, league))
        proven = [s for s in ranked if s.games >= max(1, league.burn_in)]
        if proven:
            best = table.members[proven[0].member]
            entered.append(champion(best.name, role, step, best.rating, fitness_of(best, league)))
            left += table.induct(entered[-1], league.hall_of_fame)
    return entered, left


def plan(table: Table, role: Role, step: int, config: Config) -> list[Birth]:
    """The births of `role` that are due after `step`; none unless evolution is on and k steps have passed."""
    league = config.league
    if not league.evolution or not due(step, league) or len(table.standings(role)) < 2:
        return []
    return plan_births(
        table.standings(role),
        gamma=league.gamma,
        burn_in=league.burn_in,
        crossover_probability=league.crossover,
        mutations=league.mutations,
        crossovers=league.crossovers,
        rng=streams.python(config.run.seed, step, "births", role),
        fitness=fitness_for(role, league),
        survivors=league.survivors,
        parents=league.parents,
        contestants=league.contestants,
        elite=league.elite,
    )


def replace_weakest(table: Table, policy: Policy, step: int, config: Config) -> list[Replacement]:
    """Plays out the births that are due after `step`."""
    return [_bear(birth, table, policy, step, config) for role in ROLES for birth in plan(table, role, step, config)]


def _bear(birth: Birth, table: Table, policy: Policy, step: int, config: Config) -> Replacement:
    """Makes the child and puts it in the victim's slot: fresh rating, fresh optimizer, new name and version."""
    victim = table.members[birth.victim]
    assert victim.role != "both", "the single agent is never replaced"
    child, distance, tries = _conceive(birth, table, policy, step, config)
    fitness = tuple(fitness_of(table.members[name], config.league) for name in birth.parents)
    table.remove(victim.name)
    policy.leave(victim.name)
    member = table.enrol(victim.role, step, birth.parents, birth.operator)
    policy.join(member.name, child)
    lost = fitness_of(victim, config.league)
    return Replacement(victim.name, member.name, birth.parents, birth.operator, lost, fitness, distance, tries)


def _conceive(
    birth: Birth, table: Table, policy: Policy, step: int, config: Config
) -> tuple[Adapter, float | None, int]:
    """The child's weights, its distance from the nearest that lives on, and how often it was drawn.

    With `league.min_distance` a child closer than that is drawn again, `TRIES` times in all; the last one is kept.
    """
    parents = [policy.adapter(name) for name in birth.parents]
    operator, seed, least = OPERATORS[birth.operator], config.run.seed, config.league.min_distance
    child = operator(parents, generator(seed, step, "operator", birth.victim))
    if not least:
        return child, None, 1
    role = table.members[birth.victim].role
    others = [policy.adapter(m.name) for m in table.members.values() if m.role == role and m.name != birth.victim]
    nearest = min(relative_distance(child, other) for other in others)
    tries = 1
    while nearest < least and tries < TRIES:
        child = operator(parents, generator(seed, step, "operator", birth.victim, tries))
        nearest = min(relative_distance(child, other) for other in others)
        tries += 1
    return child, nearest, tries
