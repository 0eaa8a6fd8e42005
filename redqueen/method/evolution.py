"""What a step does to the population: games are rated, and every k steps children of the strong replace the weakest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from statistics import fmean

from redqueen import plugins
from redqueen.base import streams
from redqueen.config import EvolutionSettings, LeagueConfig
from redqueen.engine.adapters import Adapter, generator, relative_distance
from redqueen.engine.policy import MemberPolicy
from redqueen.method.fitness import Fitness, game_learnability, named_fitness
from redqueen.method.games import Par, match_score, outcome, par_by
from redqueen.method.hall_of_fame import Champion, champion_of
from redqueen.method.matchmaking import Match
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.method.operators.modules import Operator
from redqueen.method.played_step import PlayedMatch, PlayedStep, ScoredPosed, ScoredProposal
from redqueen.method.population import AnyRole, Member, Population
from redqueen.method.rating import GameResult, TrueSkill, inherited
from redqueen.method.results import Game, Replacement, Standing
from redqueen.method.rewards import scores
from redqueen.method.selection import Birth, is_evolution_step, plan_births, ranking
from redqueen.records import ROLES, Attempted, Kind, Role

OPERATORS: dict[str, Operator] = {**MUTATIONS, **CROSSOVERS, **CONTROLS}


def named_operator(name: str, parents: int) -> Operator:
    """Returns the operator of one or two parents called `name`, ours or a plugin's."""
    kind: plugins.Part = "mutation" if parents == 1 else "crossover"
    # A mutation of a plugin may have the name of a crossover of ours, and the other way round.
    if name in OPERATORS and name not in plugins.names(kind):
        return OPERATORS[name]
    return plugins.find(kind, name)


TRIES = 8
"""The most draws for a child before one that is too close to a living member is accepted. Some operators return the
same child each time."""


def rate_games(
    population: Population, played: PlayedStep, trueskill: TrueSkill, league: LeagueConfig
) -> tuple[list[Game], Par]:
    """Rates one game for each match, in order, and records mean rewards and learnability for its members.

    Returns the games, and the par that they were played against.
    """
    # Without teachers there are no games: what students earn at fixed tasks counts for the fitnesses that look at it.
    for one in played.practised if not played.matches else ():
        _record_student(population, one.practice.student, one.tasks)
        population.count_practice(one.practice.student)
    # All matches of the step are part of par before the first is judged by it. So the order of the matches has no
    # effect, and the first step of a run has a par.
    rates = [_solve_rates(match) for match in played.matches]
    population.add_matches(rates, league.par_matches)
    par = par_by(league.game, population.recent_matches)
    games = [
        _rate_match(population, match, solve_rates, par, trueskill, league.draw_band)
        for match, solve_rates in zip(played.matches, rates, strict=True)
    ]
    return games, par


def _solve_rates(match: PlayedMatch) -> dict[Kind, list[float]]:
    """Returns the solve rates of a match's valid tasks. Tasks whose attempts the machine lost are left out."""
    rates: dict[Kind, list[float]] = {}
    for proposal in match.proposals:
        if proposal.solve_rate is not None:
            rates.setdefault(proposal.proposed.rollout.kind, []).append(proposal.solve_rate)
    return rates


def _rate_match(
    population: Population,
    played: PlayedMatch,
    solve_rates: dict[Kind, list[float]],
    par: Par,
    trueskill: TrueSkill,
    band: float,
) -> Game:
    match = played.match
    score = match_score(solve_rates, par) if solve_rates else None
    # The single agent is teacher and student at once. It has no rival, so there is nothing to rank it by.
    if match.teacher == match.student:
        return Game(match=match, score=score, outcome=None)
    result = outcome(score, band) if score is not None else _forfeit(played)
    # A match that the machine lost is not a game and says nothing about either side, not even by its invalid proposals.
    if result is not None:
        paid = [proposal for proposal in played.proposals if proposal.reward is not None]
        _record_game(population, match, paid)
        population.rate_game(match.teacher, match.student, result, trueskill)
    return Game(match=match, score=score, outcome=result)


def _forfeit(played: PlayedMatch) -> GameResult | None:
    """Returns the outcome of a match without a solve rate: the student wins if every proposal was judged invalid.

    Otherwise the machine lost what there was to play, and there is no game.
    """
    # Without this a teacher whose proposals are never valid would play no game: its rating would stand still, and as it
    # never ends its burn-in it could never be replaced.
    judged_invalid = [p.proposed.task is None and p.reward is not None for p in played.proposals]
    return "student" if judged_invalid and all(judged_invalid) else None


def _record_game(population: Population, match: Match, paid: Sequence[ScoredProposal]) -> None:
    """Records mean reward and learnability for both sides."""
    solve_rates = [proposal.solve_rate for proposal in paid if proposal.solve_rate is not None]
    # An invalid proposal is a fault of the teacher. It counts as a task without learnability for the teacher, and for
    # the student as no task at all.
    invalid = [0.0] * (len(paid) - len(solve_rates))
    teacher_rewards = [proposal.reward for proposal in paid if proposal.reward is not None]
    population.record_game(match.teacher, fmean(teacher_rewards), game_learnability([*solve_rates, *invalid]))
    _record_student(population, match.student, paid)


def _record_student(population: Population, student: str, tasks: Sequence[ScoredProposal | ScoredPosed]) -> None:
    """Records mean reward and learnability for a student of what it was posed in a match, or in its practice."""
    solve_rates = [task.solve_rate for task in tasks if task.solve_rate is not None]
    # If every proposal was invalid, the student won without having played a task, and there is nothing to record.
    attempts = chain.from_iterable(task.attempts for task in tasks)
    student_rewards = [attempt.reward for attempt in attempts if attempt.reward is not None]
    population.record_game(
        student,
        fmean(student_rewards) if student_rewards else None,
        game_learnability(solve_rates) if solve_rates else None,
    )


def fitness_for(role: AnyRole, league: LeagueConfig) -> Fitness:
    """Returns the fitness that members of `role` are ranked by."""
    return named_fitness(league.teacher_fitness if role == "teacher" else league.student_fitness, league.lcb)


def fitness_of(member: Member, league: LeagueConfig) -> float | None:
    """Returns the member's present fitness, or None if it is not known yet."""
    return fitness_for(member.role, league)(member)


def fittest_first(
    members: Sequence[Member], role: AnyRole, settings: EvolutionSettings, step: int, fitness: Fitness | None = None
) -> list[Member]:
    """Returns members of one role as the run ranks them after `step`. A stream of the step decides ties.

    `fitness` stands in for the run's own where that is not at hand.
    """
    rng = streams.python(settings.seed, step, "ranking", role)
    return ranking(members, fitness or fitness_for(role, settings.league), rng)


def proven_first(
    members: Sequence[Member], role: AnyRole, settings: EvolutionSettings, step: int, fitness: Fitness | None = None
) -> list[Member]:
    """Returns members of one role, the fittest of those that have played enough first, and then the others.

    Enough is a burn-in, at least one game. A newborn has the fitness of its parents until it has played, so it
    may seem the best without having done anything.
    """
    ranked = fittest_first(members, role, settings, step, fitness)
    least = max(1, settings.evolution.burn_in)
    # The sort is stable: within a group the order of fitness stays. If no member has finished its burn-in, those that
    # played at all come first.
    return sorted(ranked, key=lambda member: (member.matches < least, member.matches == 0))


def standings_of(population: Population, league: LeagueConfig) -> tuple[Standing, ...]:
    """Returns where every living member stands now, in order of birth."""
    members = population.members.values()
    return tuple(Standing(member=member, fitness=fitness_of(member, league)) for member in members)


def score_held_out(
    population: Population, attempt: Callable[[Sequence[str]], list[Attempted]], step: int, settings: EvolutionSettings
) -> list[Attempted]:
    """Scores the students on the held-out tasks if an evolution round that ranks by them follows `step`.

    `attempt` lets members attempt these tasks. Returns their attempts, or none if there is no such round.
    """
    # The attempts cost a phase of sampling, so they are made only where a ranking is about to use them.
    if settings.league.student_fitness != "held_out" or not is_evolution_step(step, settings.evolution):
        return []
    attempted = attempt(list(population.players("student")))
    population.set_held_out(scores(attempted))
    return attempted


def update_hall_of_fame(
    population: Population, policy: MemberPolicy, step: int, settings: EvolutionSettings
) -> list[Champion]:
    """Lets copies of the fittest join the hall of fame if an evolution round follows `step`. Returns the new champions.

    It must come before the births, which may replace a member that is about to become a champion.
    """
    entered, leavers = add_champions(population, step, settings)
    # First those who leave: the adapter bank has just as many slots as the run has members and champions.
    for champion in leavers:
        policy.leave(champion.name)
    for champion in entered:
        policy.join(champion.name, policy.adapter(champion.member), trained=False)
    return entered


def add_champions(
    population: Population, step: int, settings: EvolutionSettings
) -> tuple[list[Champion], list[Champion]]:
    """Adds the fittest of each role to the population's hall of fame. Returns the champions that entered and that left.

    Only a member that has played, and has played its burn-in, is a candidate.
    """
    entered: list[Champion] = []
    leavers: list[Champion] = []
    league = settings.league
    if not (league.hall_of_fame and is_evolution_step(step, settings.evolution)):
        return entered, leavers
    for role in ROLES:
        # A member that never played has its prior rating, so without a game it could be a champion by default.
        ranked = fittest_first(population.members_of(role), role, settings, step)
        proven = [member for member in ranked if member.games >= max(1, settings.evolution.burn_in)]
        if proven:
            best = proven[0]
            champion = champion_of(best.name, role, step, best.rating, fitness_of(best, league))
            entered.append(champion)
            leavers += population.add_champion(champion, league.hall_of_fame)
    return entered, leavers


def plan(population: Population, role: Role, step: int, settings: EvolutionSettings) -> list[Birth]:
    """Plans the births of `role` that follow `step`. Returns none unless evolution is on and this is its step."""
    members = population.members_of(role)
    if not settings.evolution.enabled or not is_evolution_step(step, settings.evolution) or len(members) < 2:
        return []
    rng = streams.python(settings.seed, step, "births", role)
    return plan_births(members, settings.evolution, fitness_for(role, settings.league), rng)


def replace_weakest(
    population: Population, policy: MemberPolicy, step: int, settings: EvolutionSettings
) -> list[Replacement]:
    """Replaces the weakest of each role by children of the strong, if an evolution round follows `step`."""
    # Children are put in place one after the other, but parents and victims of a role were all chosen before: no child
    # is a parent in the round of its own birth.
    births: list[Replacement] = []
    for role in ROLES:
        planned = plan(population, role, step, settings)
        leaving = {birth.victim for birth in planned}
        births += [_replace(birth, leaving, population, policy, step, settings) for birth in planned]
    return births


def _replace(
    birth: Birth,
    leaving: AbstractSet[str],
    population: Population,
    policy: MemberPolicy,
    step: int,
    settings: EvolutionSettings,
) -> Replacement:
    """Makes the child and puts it in the victim's place, with a fresh optimizer and a new name.

    `leaving` are the names of all victims of the round, some of which may be gone already.
    """
    victim = population.members[birth.victim]
    assert victim.role != "both", "the single agent is never replaced"
    # Everything that reads the old population comes first: the victim's slot is the child's from here on.
    others = [each.name for each in population.members_of(victim.role) if each.name not in leaving]
    child, distance, tries = _make_child(birth, others, policy, step, settings)
    parents = [population.members[name] for name in birth.parents]
    parent_fitness = tuple(fitness_of(parent, settings.league) for parent in parents)
    rating = inherited([parent.rating for parent in parents])
    population.remove_member(victim.name)
    policy.leave(victim.name)
    member = population.add_member(victim.role, step, birth.parents, birth.operator, rating)
    policy.join(member.name, child)
    return Replacement(
        victim=victim.name,
        child=member.name,
        parents=birth.parents,
        operator=birth.operator,
        victim_fitness=fitness_of(victim, settings.league),
        victim_age=step - victim.born,
        victim_games=victim.games,
        tie=birth.tie,
        parent_fitness=parent_fitness,
        distance=distance,
        tries=tries,
    )


def _make_child(
    birth: Birth, living: Sequence[str], policy: MemberPolicy, step: int, settings: EvolutionSettings
) -> tuple[Adapter, float | None, int]:
    """Returns the child's weights, its distance from the nearest of the `living`, and how often it was drawn.

    With `evolution.min_distance` a child that is closer than that is drawn again, `TRIES` times in all. The last one is
    kept in any case.
    """
    parents = [policy.adapter(name) for name in birth.parents]
    operator = named_operator(birth.operator, len(parents))
    seed = settings.seed
    least = settings.evolution.min_distance
    child = operator(parents, generator(seed, step, "operator", birth.victim))
    if not least:
        return child, None, 1
    # Who leaves in this round is not among them: a child may be as close to a victim as it likes.
    others = [policy.adapter(name) for name in living]
    nearest = min(relative_distance(child, other) for other in others)
    # The number of the try is part of the stream's name from the second on. So the first child is the one that a run
    # without a least distance would have drawn.
    tries = 1
    while nearest < least and tries < TRIES:
        child = operator(parents, generator(seed, step, "operator", birth.victim, tries))
        nearest = min(relative_distance(child, other) for other in others)
        tries += 1
    return child, nearest, tries
