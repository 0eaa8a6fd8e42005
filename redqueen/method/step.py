"""One step of PopuLoRA as a function: match, propose, solve, learn, evolve (arXiv:2605.16727, section 3, Algorithm 1).

Nothing here knows of files, an archive or a console: `redqueen.run.trainer` plays steps one after another, records them
and saves what they have changed. docs/READING.md says which file to read next.

The five phases:

1. **match**: each teacher is paired with students, by their ratings (`matchmaking.py`).
2. **propose**: teachers write tasks, and the verifier rejects what is no task (`self_play.py`).
3. **solve**: the matched student attempts each task several times, and some attempts are judged again (`retrial.py`);
   texts are paid (`played_step.py`, `rewards.py`), and matches are games that move ratings (`rating.py`).
4. **learn**: each member takes one policy-gradient step on its own texts (`advantages.py`, `engine/learning/`).
5. **evolve**: now and then the weakest of each role are replaced by children of others (`selection.py`, `operators/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from redqueen.base import streams
from redqueen.config import Config
from redqueen.engine.policy import MemberPolicy
from redqueen.method.advantages import advantages
from redqueen.method.evolution import rate_games, replace_weakest, score_held_out, standings_of, update_hall_of_fame
from redqueen.method.hall_of_fame import Champion, add_champion_matches
from redqueen.method.matchmaking import Match, matchmake, numbered
from redqueen.method.played_step import PlayedStep, score_step
from redqueen.method.population import Population
from redqueen.method.practice import Practice, posed_per_kind, posed_tasks, practices
from redqueen.method.rating import Rating, TrueSkill
from redqueen.method.results import Game, Replacement, Standing
from redqueen.method.selection import is_evolution_step
from redqueen.method.self_play import SelfPlay
from redqueen.records import Attempted, Kind, MemberUpdate, PosedTask, Proposed


class Phases(Protocol):
    """Is told which phase of a step has begun, and how far it is. It may measure them."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Opens a phase; it ends with the context."""
        ...

    def next(self, name: str) -> None:
        """Ends the present phase and begins another, which ends where the present one would have."""
        ...

    def progress(self, done: int, total: int) -> None:
        """Is called when the phase has done `done` of `total` parts."""
        ...


@dataclass(slots=True, kw_only=True)
class Coevolution:
    """What steps are played with, and what they change."""

    config: Config
    policy: MemberPolicy
    """The members' weights."""
    self_play: SelfPlay
    """The task bank, the prompts and the verifier."""
    population: Population
    """The members, their ratings and their past games, and the hall of fame."""
    trueskill: TrueSkill
    held_out: Callable[[Sequence[str]], list[Attempted]]
    """Has members attempt the held-out tasks that students are selected by; only `student_fitness=held_out` asks."""
    phases: Callable[[int], Phases]
    """Makes the observer of a step's phases; called once a step."""


@dataclass(frozen=True, slots=True)
class SampledStep:
    """A step's texts and verdicts, before they count for anything."""

    phases: Phases
    matches: Sequence[Match]
    practices: Sequence[Practice]
    posed: Sequence[PosedTask]
    proposed: Sequence[Proposed]
    attempted: Sequence[Attempted]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What a step has changed."""

    played: PlayedStep
    games: Sequence[Game]
    par: Mapping[Kind, float]
    ratings: Mapping[str, Rating]
    """After the games and before the births."""
    updates: Sequence[MemberUpdate]
    held_out: Sequence[Attempted]
    standings: tuple[Standing, ...]
    """The members that played, after the games and before the births."""
    champions: Sequence[Champion]
    births: Sequence[Replacement]
    phases: Phases
    ahead: SampledStep | None
    """The texts of the next step, if they were sampled while this one learned (`learning.max_staleness`)."""


def play_step(
    state: Coevolution,
    step: int,
    sampled: SampledStep | None = None,
    observe: Callable[[PlayedStep, Sequence[Attempted]], None] = lambda played, attempted: None,
) -> StepOutcome:
    """Plays one step: match, propose, solve, learn, evolve.

    `sampled` are the step's texts if an earlier step has sampled them. `observe` sees the scored texts, in the phase
    solve, before anything is learned from them.
    """
    config = state.config
    population = state.population
    sampled = sampled or sample_step(state, step)
    phases = sampled.phases
    # The order matters. Ratings must know this step's games before anything ranks by them, also the next step's
    # matches, which may be drawn while this one learns.
    with phases.phase("solve"):
        bank = state.self_play.task_bank
        played = score_step(
            step,
            sampled.matches,
            sampled.proposed,
            sampled.attempted,
            bank,
            config.game,
            sampled.practices,
            sampled.posed,
        )
        observe(played, sampled.attempted)
        games, par = rate_games(population, played, state.trueskill, config.league)
        ratings = population.ratings()
    updates, ahead = _learn(state, step, played, phases)
    # Held-out scores must be there before the ranking, and champions are copied before the births, which may remove
    # the original.
    with phases.phase("evolve"):
        settings = config.evolution_settings
        held_out = score_held_out(population, state.held_out, step, settings)
        standings = standings_of(population, config.league)
        champions = update_hall_of_fame(population, state.policy, step, settings)
        births = replace_weakest(population, state.policy, step, settings)
    return StepOutcome(
        played=played,
        games=games,
        par=par,
        ratings=ratings,
        updates=updates,
        held_out=held_out,
        standings=standings,
        champions=champions,
        births=births,
        phases=phases,
        ahead=ahead,
    )


def sample_step(state: Coevolution, step: int) -> SampledStep:
    """Draws the matches, and samples and judges their texts. No member changes, so it may be done a step ahead."""
    phases = state.phases(step)
    config = state.config
    play = state.self_play
    with phases.phase("match"):
        matches = _matches(state, step)
        count = posed_per_kind(config.game, config.population)
        practising = practices(state.population.players("student"), step, len(matches), count)
        posed = posed_tasks(play.task_bank, config.game, step, practising, count, config.run.seed)
    # A task is attempted as soon as it is verified, while other proposals are still being written. When the last
    # proposal is written, the phase changes to `solve`; students alone begin there.
    with phases.phase("propose" if matches else "solve"):
        proposed, attempted = play.play(step, matches, phases.progress, lambda: phases.next("solve"), posed)
    return SampledStep(phases, matches, practising, posed, proposed, attempted)


def _learn(
    state: Coevolution, step: int, played: PlayedStep, phases: Phases
) -> tuple[list[MemberUpdate], SampledStep | None]:
    """Updates each member once, on this step's rollouts alone. Returns also what was sampled for the next step."""
    # Champions play, but are not trained.
    living = [graded for graded in played.graded() if graded.rollout.member in state.population.members]
    config = state.config
    samples = advantages(living, config.advantage_settings)
    members_change = config.evolution.enabled or config.league.hall_of_fame > 0
    round_follows = members_change and is_evolution_step(step, config.evolution)
    # Where members come or go at the end of the step, the next one cannot be sampled before that.
    if not config.learning.max_staleness or round_follows or step == config.run.steps:
        # The rollouts were sampled from the weights that are updated here, and nothing changes these in between.
        with phases.phase("learn"):
            return state.policy.update(samples, phases.progress), None
    finish = state.policy.begin_update(samples)
    # These rollouts will be one version old when they are learned from; the importance ratio corrects that.
    ahead = sample_step(state, step + 1)
    with phases.phase("learn"):
        return finish(), ahead


def _matches(state: Coevolution, step: int) -> list[Match]:
    """Returns who plays whom: pairs of the living, some of which are split to meet past champions instead."""
    config = state.config
    seed = config.run.seed
    if not config.population.teachers:
        return []
    drawn = matchmake(
        state.population.players("teacher"),
        state.population.players("student"),
        weighting=config.league.matchmaking,
        trueskill=state.trueskill,
        rng=streams.python(seed, step, "match"),
        step=step,
    )
    if config.game.matches:
        # The single agent plays its only pair as often as that.
        drawn = numbered([(drawn[0].teacher, drawn[0].student)] * config.game.matches, step)
    champions = state.population.hall_of_fame.values()
    return add_champion_matches(drawn, champions, config.league.hall_matches, step, streams.python(seed, step, "hall"))
