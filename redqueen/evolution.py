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
from redqueen.config import Config, EvolutionConfig, LeagueConfig
from redqueen.league.fitness import Fitness, HeldOutScorer, game_learnability, named_fitness
from redqueen.league.hall_of_fame import Champion, champion_of
from redqueen.league.matchmaking import Match
from redqueen.league.population import AnyRole, Member, Population
from redqueen.league.rating import Outcome, TrueSkill, match_score, outcome, task_score
from redqueen.league.selection import Birth, plan_births, ranking
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

    `distance` is the child's from the nearest living member of its role, None where `evolution.min_distance` is 0;
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


def rate(population: Population, matches: Sequence[Match], played: Played, trueskill: TrueSkill) -> list[Game]:
    """One game for each match, in order; the population's ratings move."""
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
        population.rate_game(match.teacher, match.student, result, trueskill)
        if match.teacher != match.student:
            rho = [played.rho[p.id] for p in judged if p.task is not None]
            # an invalid proposal is the teacher's doing, and no game of the student's
            pay = fmean(played.teacher_rewards[p.id] for p in judged)
            invalid = [0.0] * (len(judged) - len(rho))
            population.record_game(match.teacher, pay, game_learnability([*rho, *invalid]))
            earned = [reward for p in judged for reward in paid.get(p.id, ())]
            mean = fmean(earned) if earned else None
            population.record_game(match.student, mean, game_learnability(rho) if rho else None)
        games.append(Game(name, match, score, result))
    return games


def fitness_for(role: AnyRole, league: LeagueConfig) -> Fitness:
    """What members of `role` are ranked by."""
    return named_fitness(league.teacher_fitness if role == "teacher" else league.student_fitness, league.lcb)


def fitness_of(member: Member, league: LeagueConfig) -> float | None:
    """The member's fitness as of now; None: not known yet."""
    return fitness_for(member.role, league)(member)


def is_evolution_step(step: int, config: EvolutionConfig) -> bool:
    """Whether an evolution round (every `evolution.every` steps) follows this step."""
    return (step + 1) % config.every == 0


def score_held_out(population: Population, scorer: HeldOutScorer, step: int, config: Config) -> None:
    """Scores the students on the held-out tasks if an evolution round that ranks by them follows `step`."""
    if config.league.student_fitness == "held_out" and is_evolution_step(step, config.evolution):
        students = [m.name for m in population.members.values() if m.role != "teacher"]
        population.set_held_out(scorer(students))


def update_hall_of_fame(population: Population, step: int, config: Config) -> tuple[list[Champion], list[Champion]]:
    """Takes the fittest of each role into the hall of fame if an evolution round follows `step`.

    Only a member that has played, and has played its burn-in, is a candidate. Call it before the births. Returns who
    entered and who left.
    """
    entered: list[Champion] = []
    left: list[Champion] = []
    league = config.league
    if not (league.hall_of_fame and is_evolution_step(step, config.evolution)):
        return entered, left
    for role in ROLES:
        ranked = ranking(population.members_of(role), fitness_for(role, league))
        proven = [m for m in ranked if m.games >= max(1, config.evolution.burn_in)]
        if proven:
            best = proven[0]
            entered.append(champion_of(best.name, role, step, best.rating, fitness_of(best, league)))
            left += population.add_champion(entered[-1], league.hall_of_fame)
    return entered, left


def plan(population: Population, role: Role, step: int, config: Config) -> list[Birth]:
    """The births of `role` that follow `step`; none unless evolution is on and k steps have passed."""
    members = population.members_of(role)
    if not config.evolution.enabled or not is_evolution_step(step, config.evolution) or len(members) < 2:
        return []
    rng = streams.python(config.run.seed, step, "births", role)
    return plan_births(members, config.evolution, fitness_for(role, config.league), rng)


def replace_weakest(population: Population, policy: Policy, step: int, config: Config) -> list[Replacement]:
    """Plays out the births that are due after `step`."""
    return [
        _bear(birth, population, policy, step, config)
        for role in ROLES
        for birth in plan(population, role, step, config)
    ]


def _bear(birth: Birth, population: Population, policy: Policy, step: int, config: Config) -> Replacement:
    """Makes the child and puts it in the victim's slot: fresh rating, fresh optimizer, new name and version."""
    victim = population.members[birth.victim]
    assert victim.role != "both", "the single agent is never replaced"
    child, distance, tries = _conceive(birth, population, policy, step, config)
    fitness = tuple(fitness_of(population.members[name], config.league) for name in birth.parents)
    population.remove_member(victim.name)
    policy.leave(victim.name)
    member = population.add_member(victim.role, step, birth.parents, birth.operator)
    policy.join(member.name, child)
    lost = fitness_of(victim, config.league)
    return Replacement(victim.name, member.name, birth.parents, birth.operator, lost, fitness, distance, tries)


def _conceive(
    birth: Birth, population: Population, policy: Policy, step: int, config: Config
) -> tuple[Adapter, float | None, int]:
    """The child's weights, its distance from the nearest that lives on, and how often it was drawn.

    With `evolution.min_distance` a child closer than that is drawn again, `TRIES` times in all; the last one is kept.
    """
    parents = [policy.adapter(name) for name in birth.parents]
    operator, seed, least = OPERATORS[birth.operator], config.run.seed, config.evolution.min_distance
    child = operator(parents, generator(seed, step, "operator", birth.victim))
    if not least:
        return child, None, 1
    role = population.members[birth.victim].role
    others = [policy.adapter(m.name) for m in population.members.values() if m.role == role and m.name != birth.victim]
    nearest = min(relative_distance(child, other) for other in others)
    tries = 1
    while nearest < least and tries < TRIES:
        child = operator(parents, generator(seed, step, "operator", birth.victim, tries))
        nearest = min(relative_distance(child, other) for other in others)
        tries += 1
    return child, nearest, tries
