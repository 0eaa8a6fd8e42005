"""A run's base with room for members, on which a study plays and trains outside the run."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from redqueen.config import Config
from redqueen.engine.model.base import Base, fingerprint_of, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.method.evolution import fittest_first
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Attempted, Task, Verifier
from redqueen.store import checkpoint
from redqueen.store.directory import RunDirectory, RunError


@dataclass(frozen=True, slots=True)
class Replay:
    """The parts of a trainer that a study needs, as the run's own configuration makes them."""

    config: Config
    policy: Policy
    self_play: SelfPlay

    def close(self) -> None:
        """Ends the worker processes, if there are any."""
        self.policy.close()

    def attempt(self, posed: Sequence[tuple[str, Task]], attempts: int) -> list[Attempted]:
        """Returns judged attempts of each member at its task.

        Random numbers are derived from the task's id: at the same task all members draw the same ones.
        """
        return self.self_play.attempt(posed, attempts)


def build_replay(config: Config, base: Base, verifier: Verifier, slots: int) -> Replay:
    """Returns a `Replay` with room for `slots` members and an empty task bank; it must be closed."""
    policy = open_policy(base, config.model, slots, config.sampling, config.learning)
    return Replay(config, policy, SelfPlay(config, policy, verifier))


def ranked_students(saved: checkpoint.Checkpoint, config: Config) -> list[str]:
    """Returns the students that lived at a checkpoint, fittest first, by the fitness that the run itself ranks by."""
    role = "both" if config.population.single_agent else "student"
    ranked = fittest_first(saved.population.members_of(role), role, config, saved.step)
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
        closing(build_replay(config, base, verifier, slots)) as replay,
    ):
        # Prompts may show tasks of the bank as examples. A study poses them as the run did at that step.
        replay.self_play.task_bank.restore(saved.bank)
        yield replay


def load_step(directory: RunDirectory, step: int | None) -> checkpoint.Checkpoint:
    """Loads the checkpoint made after `step` steps, by default the newest.

    Raises RunError if there is no such checkpoint, CheckpointError if it is damaged.
    """
    saved = directory.saved()
    if not saved:
        raise RunError(f"{directory.path} has no checkpoint: nothing was trained here")
    if step is not None and step not in saved:
        raise RunError(f"{directory.path} has no checkpoint at step {step}: choose one of {', '.join(map(str, saved))}")
    return checkpoint.load(directory.checkpoints, saved[-1] if step is None else step)
