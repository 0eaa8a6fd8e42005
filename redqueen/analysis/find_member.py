"""Finds the member of a run that a person names: alive, replaced, or the best of its role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redqueen.analysis.replay import load_step
from redqueen.config import Config
from redqueen.method.evolution import fitness_for, proven_first
from redqueen.method.fitness import Fitness
from redqueen.method.population import AnyRole, Member
from redqueen.plugins import PluginError
from redqueen.records import ROLES
from redqueen.store.checkpoint import Checkpoint
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.lineage import Life, check_name, lives


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAtStep:
    """A member as it was at a checkpoint."""

    member: Member
    saved: Checkpoint


def find_member(directory: RunDirectory, config: Config, name: str, step: int | None) -> MemberAtStep:
    """Returns the member called `name` after `step` steps, by default as late as it can be had.

    `name` is a member's name in any case, or "best-student" or "best-teacher".
    Raises RunError if there is no such member, or no checkpoint that has it; CheckpointError if that is damaged.
    """
    wanted = name.casefold()
    for role in ROLES:
        if wanted == f"best-{role}":
            saved = load_step(directory, step)
            # The single agent plays both roles, so it is the best of either.
            candidates = [m for m in saved.population.members.values() if m.role in (role, "both")]
            fitness = fitness_at(directory, config, role, saved.step)
            return MemberAtStep(member=proven_first(candidates, role, config, saved.step, fitness)[0], saved=saved)
    check_name(directory, name)
    life = next(life for life in lives(directory.path) if life.name.casefold() == wanted)
    saved = load_step(directory, _step_of(life, directory, step))
    return MemberAtStep(member=saved.population.members[life.name], saved=saved)


def fitness_at(directory: RunDirectory, config: Config, role: AnyRole, step: int) -> Fitness:
    """Returns the fitness that the run ranks a role by after `step`."""
    try:
        return fitness_for(role, config.league)
    except PluginError:
        # It is a part that is not imported to read a run. What it gave is written in the line of the step.
        line = next((line for line in directory.metrics() if line["step"] == step), None)
        members: dict[str, Any] = line["members"] if line else {}
        return lambda member: members[member.name]["fitness"] if member.name in members else None


def _step_of(life: Life, directory: RunDirectory, step: int | None) -> int:
    """Returns the checkpoint to take a member from. Raises RunError if none that is kept has it."""
    # A member that is born at the end of step b is in the checkpoints from b on, and one that is replaced
    # at the end of step d in those before d.
    saved = directory.saved()
    having = [
        saved_step for saved_step in saved if saved_step >= life.born and (life.died is None or saved_step < life.died)
    ]
    if step is None and having:
        return having[-1]
    if step in having:
        return step
    if having:
        choice = f"{life.name} is in the checkpoints after step {', '.join(map(str, having))}: choose one with --step"
        raise RunError(f"{life.name} is not in a checkpoint after step {step}. {choice}")
    lived = "" if life.died is None else f" was replaced after step {life.died}, and"
    raise RunError(
        f"{life.name}{lived} is in no checkpoint that {directory.path} keeps: train with run.keep_every=1 to keep all"
    )
