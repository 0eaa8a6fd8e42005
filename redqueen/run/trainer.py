"""Trains a population: plays steps (`redqueen.method.step`), records and evaluates them, and saves checkpoints.

A run is a function of its configuration. Every random number comes from a stream that is named by the seed and by where
it is used, so a resumed run plays each step exactly as the uninterrupted run would have: `store/checkpoint.py` keeps
members, optimizers, slots and task bank, `run/session.py` the batch sizes that the run was fitted with. There are three
exceptions: vLLM draws its own numbers, what was sampled ahead (`learning.max_staleness`) is sampled anew, and on a
machine with less memory the batches are fitted again, so that numbers round differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

from redqueen.config import Config, PopulationConfig
from redqueen.engine.adapters import generator, perturb, starting_adapter
from redqueen.engine.model.base import BaseFacts
from redqueen.engine.policy import MemberPolicy
from redqueen.evals.held_out import START, HeldOutAnswer, HeldOutEvaluation, run_evaluation
from redqueen.evals.in_training import TrainingEvaluation
from redqueen.method.behaviour import Behaviour, behaviours, true_work
from redqueen.method.evolution import standings_of
from redqueen.method.planting import Planted, plant_seeds, plant_tasks
from redqueen.method.played_step import PlayedStep
from redqueen.method.population import AnyRole, Population
from redqueen.method.prompts import WithWork
from redqueen.method.rating import TrueSkill
from redqueen.method.self_play import SelfPlay
from redqueen.method.step import Coevolution, SampledStep, play_step
from redqueen.method.task_bank import likeness_of
from redqueen.records import Attempted, Progress, Task, Verifier
from redqueen.run.recording.files import ArchiveRecorder, MetricsRecorder, answer_of
from redqueen.run.recording.measures import Measures, Spread
from redqueen.run.recording.phases import Phases
from redqueen.run.recording.recorder import Recorder, StepRecord
from redqueen.store import checkpoint
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import EvaluationRow
from redqueen.store.directory import RunDirectory, RunError
from redqueen.tasks.kinds import held_out_kinds


class Trainer:
    """One run: its population, its policy, its task bank and its directory."""

    def __init__(
        self,
        config: Config,
        policy: MemberPolicy,
        base: BaseFacts,
        verifier: Verifier,
        directory: RunDirectory,
        spread: Spread = map,
    ) -> None:
        """Opens the archive. `policy` has no members yet; the trainer closes it, and the caller the verifier.

        `spread` computes what tasks are by themselves.
        """
        self.config = config
        self.base = base
        self.directory = directory
        self.policy = policy
        settings = config.play_settings
        self.self_play = SelfPlay(settings, self.policy, verifier)
        self.state = Coevolution(
            config=config,
            policy=policy,
            self_play=self.self_play,
            population=Population(),
            trueskill=TrueSkill(),
            held_out=lambda members: self.held_out.attempt(members),
            phases=lambda step: Phases(step, self.watchers, policy),
        )
        self.evaluation: TrainingEvaluation | None = None
        if config.evals.every:
            self.evaluation = TrainingEvaluation(
                config.evals, config.league, settings, self.policy, verifier, base.fingerprint
            )
        self.start_answers: tuple[HeldOutAnswer, ...] = ()
        self.own_held_out: tuple[Task, ...] = ()
        self.archive = ArchiveRecorder(directory.archive)
        self.metrics = MetricsRecorder(directory, config.run.metrics)
        self.measures = Measures(config.game.kinds, spread)
        self.watchers: Sequence[Recorder] = ()
        """They receive each event. Who sets them closes them."""
        self.played = 0
        # What the next step was given while the present one learned (`learning.max_staleness`). A checkpoint does not
        # have it: a resumed run samples it anew.
        self._sampled_ahead: SampledStep | None = None

    def step(self, step: int) -> StepRecord:
        """Plays one step, and evaluates where it is time to. Returns what is to be recorded of it."""
        config = self.config
        seen = _Observed(self.self_play)
        outcome = play_step(self.state, step, self._sampled_ahead, seen.observe)
        self._sampled_ahead = outcome.ahead
        phases = cast(Phases, outcome.phases)
        answers: Sequence[HeldOutAnswer] = ()
        asked = ""
        if self.evaluation is not None and (step % config.evals.every == 0 or step == config.run.steps):
            with phases.phase("evaluate"):
                answers = self.evaluation.answers(list(self.population.players("student")), phases.progress)
            asked = self.evaluation.asked
        living = [standing.member.name for standing in outcome.standings]
        return StepRecord(
            kinds=config.game.kinds,
            played=outcome.played,
            updates=tuple(outcome.updates),
            games=tuple(outcome.games),
            par=outcome.par,
            ratings=outcome.ratings,
            held_out=tuple(outcome.held_out),
            standings=outcome.standings,
            champions=tuple(outcome.champions),
            births=tuple(outcome.births),
            population=standings_of(self.population, config.league),
            hall_of_fame=tuple(self.population.hall_of_fame),
            task_bank_size=len(self.self_play.task_bank),
            with_work=isinstance(self.self_play.prompts, WithWork),
            true_work=seen.works,
            measures=self.measures.measure(outcome.played, seen.called, living),
            answers=tuple(answers),
            start=self.start_answers if answers else (),
            asked=asked,
            seconds=phases.seconds,
            work=phases.work,
        )

    @property
    def population(self) -> Population:
        return self.state.population

    def run(self) -> None:
        """Plays and records the steps that are left. Raises OSError or sqlite3.Error if the disk is full or fails."""
        steps = self.config.run.steps
        for step in range(self.played + 1, steps + 1):
            record = self.step(step)
            # Records come before the checkpoint. A kill between the two leaves records of a step that no checkpoint
            # knows: `restore` removes them, and the step is played again. In the other order the step would be lost to
            # the archive, as nothing could play it again.
            self.record(record)
            self.played = step
            if step % self.config.run.checkpoint_every == 0 or step == steps:
                self.save()
            # Watchers receive a step after its checkpoint, so a step that was shown as finished survives a kill
            # (with run.checkpoint_every=1).
            for watcher in self.watchers:
                watcher.record(record)

    def record(self, record: StepRecord) -> None:
        """Writes a step into the archive and metrics.jsonl. Raises OSError or sqlite3.Error if the disk is full."""
        # A run always has a checkpoint, that of its start among them.
        if not self.directory.saved():
            raise RunError(f"the checkpoints in {self.directory.checkpoints} were removed while the run trained")
        self.archive.record(record)
        self.metrics.record(record)

    def begin(self, fixed: Sequence[Task] | None = None, progress: Progress = lambda done, total: None) -> Planted:
        """Makes the first population, fills the task bank and writes the first checkpoint.

        `fixed` are the tasks of `game.tasks`, None without. Returns what became of the fixed tasks. `progress` hears
        how many answers of how many the start has given.
        Raises AdapterError if the starting adapter does not fit the base.
        """
        share = self.config.evals.held_out_share
        play = self.self_play
        alone = not self.config.population.teachers
        planted = plant_seeds(play, share, students_alone=alone) if fixed is None else plant_tasks(play, fixed, share)
        self._test_on(planted.held_out)
        # All members start near one adapter. The noise tells them apart: two equal adapters would give the same answers
        # to the same prompts, since at one task all members draw the same random numbers.
        config = self.config
        start = starting_adapter(
            config.population.init, config.model, config.game.kinds, config.run.seed, self.policy.shapes()
        )
        if self.evaluation is not None:
            self.policy.join(START, start, trained=False)
            self.start_answers = tuple(self.evaluation.answers([START], progress))
            self.policy.leave(START)
        for role in _first_roles(self.config.population):
            member = self.population.add_member(role, 0)
            noise = generator(self.config.run.seed, "perturb", member.name)
            self.policy.join(member.name, perturb(start, self.config.population.perturbation, noise))
        self.archive.begin(self.population.members.values(), self.start_answers)
        self.save()
        return planted

    def _test_on(self, held_out: Sequence[Task]) -> None:
        """Makes the user's tasks that are held out a part of the evaluation."""
        self.own_held_out = tuple(held_out)
        if self.evaluation is not None and held_out:
            self.evaluation.add_own(held_out)

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Resumes where `saved` was made. Raises CheckpointError if it belongs to another base."""
        # An adapter is a difference from its base. On other weights of the same shapes it would load without a word and
        # mean nothing.
        if saved.fingerprint != self.base.fingerprint:
            raise checkpoint.CheckpointError(
                f"the checkpoint at step {saved.step} was made on another base ({saved.base}) or in another model.dtype"
            )
        self.state.population = saved.population
        self.played = saved.step
        self.self_play.task_bank.hold_out(map(likeness_of, saved.own_held_out))
        self.self_play.task_bank.restore(saved.bank)
        self._test_on(saved.own_held_out)
        for name in (*self.population.members, *self.population.hall_of_fame):
            self.policy.join(
                name,
                saved.adapters[name],
                trained=name in self.population.members,
                state=saved.optimizers.get(name),
                version=saved.versions[name],
                slot=saved.slots[name],
            )
        # Steps that were recorded after the checkpoint are played again, so their records must go. Both recorders do
        # nothing if there are none.
        self.archive.rewind(saved.step)
        self.metrics.rewind(saved.step)
        with ArchiveReader(self.directory.archive) as reader:
            self.measures.restore(reader.measures_of_members())
            self.start_answers = tuple(answer_of(row) for row in reader.every(EvaluationRow, 0))

    def save(self) -> Path:
        """Writes a checkpoint of everything that was played. Returns its folder."""
        names = (*self.population.members, *self.population.hall_of_fame)
        return checkpoint.save(
            self.directory.checkpoints,
            checkpoint.Checkpoint(
                step=self.played,
                base=self.base.name,
                fingerprint=self.base.fingerprint,
                alpha=self.config.model.alpha,
                population=self.population,
                bank=self.self_play.task_bank.entries(),
                own_held_out=self.own_held_out,
                adapters={name: self.policy.adapter(name) for name in names},
                optimizers={name: self.policy.state(name) for name in self.population.members},
                versions={name: self.policy.version(name) for name in names},
                slots={name: self.policy.slot(name) for name in names},
            ),
            keep_last=self.config.run.keep_last,
            keep_every=self.config.run.keep_every,
        )

    def close(self) -> None:
        """Closes the archive and ends the worker processes, if there are any."""
        if self.evaluation is not None:
            self.evaluation.close()
        self.archive.close()
        self.policy.close()

    @cached_property
    def held_out(self) -> HeldOutEvaluation:
        """The held-out tasks that students are selected by, drawn when they are first needed."""
        # Most runs do not use them, and preparing them runs their programs in the sandbox.
        count = self.config.league.held_out_tasks
        kinds = held_out_kinds(self.config.game.kinds)
        return run_evaluation(self.self_play, "selection", kinds, count)


class _Observed:
    """What is recorded of a step's tasks that only running their programs tells."""

    def __init__(self, self_play: SelfPlay) -> None:
        self.self_play = self_play
        self.called: Mapping[str, Behaviour] = {}
        self.works: Mapping[str, str] = {}

    def observe(self, played: PlayedStep, attempted: Sequence[Attempted]) -> None:
        verifier = self.self_play.verifier
        self.called = behaviours(_novel_tasks(played), verifier)
        self.works = true_work(attempted, self.self_play.prompts, verifier)


def _novel_tasks(played: PlayedStep) -> list[Task]:
    """Returns the tasks whose behaviour is measured: a task that is no new idea would only repeat one."""
    tasks = [proposal.proposed.task for proposal in played.proposals if proposal.novel]
    return [task for task in tasks if task is not None]


def _first_roles(population: PopulationConfig) -> list[AnyRole]:
    """Returns the roles of the first population, in order of birth."""
    if population.single_agent:
        return ["both"]
    teachers: list[AnyRole] = ["teacher"] * population.teachers
    students: list[AnyRole] = ["student"] * population.students
    return teachers + students
