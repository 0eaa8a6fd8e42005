"""Members of a run as they were at a step: found by name, and played and trained on outside the run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redqueen.config import Config, EvolutionSettings, LeagueConfig
from redqueen.engine.model.base import fingerprint_of, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.method.evolution import fitness_for, fittest_first, proven_first
from redqueen.method.fitness import Fitness
from redqueen.method.population import AnyRole, Member
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.plugins import PluginError
from redqueen.records import ROLES
from redqueen.store import checkpoint
from redqueen.store.checkpoint import Checkpoint
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.lineage import kept_step, members_to_name


@dataclass(frozen=True, slots=True)
class Replay:
    """The parts of a trainer that a study needs, as the run's own configuration makes them."""

    config: Config
    policy: Policy
    self_play: SelfPlay


def ranked_students(saved: checkpoint.Checkpoint, settings: EvolutionSettings) -> list[str]:
    """Returns the students that lived at a checkpoint, fittest first, by the fitness that the run itself ranks by."""
    role = "both" if saved.population.members_of("both") else "student"
    ranked = fittest_first(saved.population.members_of(role), role, settings, saved.step)
    return [member.name for member in ranked]


@contextmanager
def open_replay(config: Config, saved: checkpoint.Checkpoint, slots: int) -> Generator[Replay]:
    """Loads the base that `saved` was made on, with room for `slots` members and the task bank as it was then.

    Raises ModelError if it cannot be loaded, CheckpointError if the base has other weights.
    """
    # On other weights the adapters would load without an error and mean nothing. A name does not identify weights: an
    # id on the Hub can be updated, and a local folder can be replaced.
    base = load(config.model)
    if fingerprint_of(base) != saved.fingerprint:
        raise checkpoint.CheckpointError(
            f"the checkpoint at step {saved.step} was made on other weights ({saved.base}) than {config.model.name} has"
        )
    with (
        LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed) as verifier,
        open_policy(base, config.engine_settings, slots) as policy,
    ):
        replay = Replay(config, policy, SelfPlay(config.play_settings, policy, verifier))
        # Prompts may show tasks of the bank as examples. A study poses them as the run did at that step.
        replay.self_play.task_bank.restore(saved.bank)
        yield replay


def load_step(directory: RunDirectory, step: int | None) -> checkpoint.Checkpoint:
    """Loads the checkpoint made after `step` steps, by default the newest.

    Raises RunError if there is no such checkpoint, CheckpointError if it is damaged.
    """
    return checkpoint.load(directory.checkpoints, directory.kept(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAtStep:
    """A member as it was at a checkpoint."""

    member: Member
    saved: Checkpoint


def find_member(directory: RunDirectory, settings: EvolutionSettings, name: str, step: int | None) -> MemberAtStep:
    """Returns the member called `name` after `step` steps, by default as late as it can be had.

    `name` is a member's name in any case, or "best-student" or "best-teacher".
    Raises RunError if there is no such member, or no checkpoint that has it; CheckpointError if that is damaged.
    """
    wanted = name.casefold()
    saved = checkpoint.load(directory.checkpoints, kept_step(directory, name, step))
    for role in ROLES:
        if wanted == f"best-{role}":
            # The single agent plays both roles, so it is the best of either.
            candidates = [m for m in saved.population.members.values() if m.role in (role, "both")]
            if not candidates:
                raise RunError(
                    f"{directory.path} has no {role}s: choose one of {', '.join(members_to_name(directory))}"
                )
            fitness = fitness_at(directory, settings.league, role, saved.step)
            return MemberAtStep(member=proven_first(candidates, role, settings, saved.step, fitness)[0], saved=saved)
    member = next(member for member in saved.population.members.values() if member.name.casefold() == wanted)
    return MemberAtStep(member=member, saved=saved)


def fitness_at(directory: RunDirectory, league: LeagueConfig, role: AnyRole, step: int) -> Fitness:
    """Returns the fitness that the run ranks a role by after `step`."""
    try:
        return fitness_for(role, league)
    except PluginError:
        # It is a part that is not imported to read a run. What it gave is written in the line of the step.
        line = next((line for line in directory.metrics() if line["step"] == step), None)
        members: dict[str, Any] = line["members"] if line else {}
        return lambda member: members[member.name]["fitness"] if member.name in members else None
