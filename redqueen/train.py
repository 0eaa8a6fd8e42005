"""The main job: five phases a step, a checkpoint after it."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from redqueen import streams
from redqueen.adapters.factors import Factors
from redqueen.adapters.initialisation import fresh, generator, perturb
from redqueen.adapters.peft_files import load_adapter, refit
from redqueen.assets import warm_start
from redqueen.config import Config
from redqueen.errors import AdapterError
from redqueen.evals.held_out import SeedProbe, scores
from redqueen.evolution import rate, replace_weakest, score_held_out, update_hall_of_fame
from redqueen.game.rewards import advantages
from redqueen.league.hall_of_fame import add_champion_matches
from redqueen.league.matchmaking import Match, matchmake
from redqueen.league.population import AnyRole, Population
from redqueen.league.rating import TrueSkill
from redqueen.policy.model.base import Base
from redqueen.policy.policy import open_policy
from redqueen.recording import archive as rows
from redqueen.recording import metrics
from redqueen.records import Attempted, Verifier
from redqueen.runs import checkpoint
from redqueen.runs.archive.writer import Archive
from redqueen.runs.directory import RunDirectory
from redqueen.self_play import Play, seed_tasks, settle


class Reporter(Protocol):
    """Where a person watches."""

    def phase(self, step: int, name: str) -> None:
        """A phase begins."""
        ...

    def progress(self, done: int, total: int) -> None:
        """How far the phase is."""
        ...

    def finished(self, line: metrics.Line) -> None:
        """A step has ended; `line` is what went into metrics.jsonl."""
        ...


class Trainer:
    """One run: its members, its bank of tasks, its directory."""

    def __init__(
        self,
        config: Config,
        base: Base,
        base_fingerprint: str,
        verifier: Verifier,
        directory: RunDirectory,
        reporter: Reporter,
    ) -> None:
        self.config, self.base, self.directory, self.reporter = config, base, directory, reporter
        self.policy = open_policy(base, config.model, members(config), config.sampling, config.learning)
        self.play = Play(config, self.policy, verifier)
        self.seed_probe: SeedProbe | None = None
        self.probed: list[Attempted] = []
        self.population = Population()
        self.trueskill = TrueSkill()
        self.archive = Archive(directory.archive)
        self.fingerprint = base_fingerprint
        self.next_step = 0
        self.seconds: dict[str, float] = {}

    def step(self, step: int) -> metrics.Line:
        """Plays one step; the archive and metrics.jsonl have it when this returns."""
        config, report = self.config, self.reporter.progress
        self.seconds = {}

        with self._phase(step, "match"):
            matches = self._matches(step)
        with self._phase(step, "propose"):
            proposed = self.play.propose(step, matches, report)
        with self._phase(step, "solve"):
            attempted = self.play.solve(proposed, report)
            played = settle(step, proposed, attempted, self.play.bank, config.game)
        with self._phase(step, "learn"):
            # champions are met, not trained
            living = [g for g in played.graded() if g.rollout.member in self.population.members]
            updates = self.policy.update(advantages(living), report)
        with self._phase(step, "evolve"):
            games = rate(self.population, matches, played, self.trueskill)
            ratings = self.population.ratings()
            self.probed = []
            score_held_out(self.population, self.probe, step, config)
            standings = rows.standing_rows(self.population, step, config.league)
            entered, left = update_hall_of_fame(self.population, step, config)
            for champion in left:
                self.policy.leave(champion.name)
            for champion in entered:
                self.policy.join(champion.name, self.policy.adapter(champion.member), trained=False)
            births = replace_weakest(self.population, self.policy, step, config)

        line: metrics.Line = {
            **metrics.summarise(played, updates, config.game.kinds),
            **metrics.league_summary(self.population, games, births, config.league),
            "bank": len(self.play.bank),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }
        self.archive.write(
            [
                *rows.step_rows(played, games, ratings, births),
                *[rows.member_row(self.population.members[birth.child]) for birth in births],
                *standings,
                *[rows.champion_row(champion) for champion in entered],
                *[rows.probe_row(step, attempt) for attempt in self.probed],
            ]
        )
        self.directory.append_metrics(line)
        return line

    def _matches(self, step: int) -> list[Match]:
        """Who plays whom in this step: pairs of the living, some of them split to meet past champions instead."""
        league, seed = self.config.league, self.config.run.seed
        drawn = matchmake(
            self.population.players("teacher"),
            self.population.players("student"),
            weighting=league.matchmaking,
            trueskill=self.trueskill,
            rng=streams.python(seed, step, "match"),
            step=step,
            matches=self.config.game.matches or None,
        )
        champions = self.population.hall_of_fame.values()
        return add_champion_matches(drawn, champions, league.hall_matches, step, streams.python(seed, step, "hall"))

    def run(self) -> None:
        """Plays the steps that are left, with checkpoints."""
        steps, every = self.config.run.steps, self.config.run.checkpoint_every
        for step in range(self.next_step, steps):
            line = self.step(step)
            self.next_step = step + 1
            if self.next_step % every == 0 or self.next_step == steps:
                self.save()
            self.reporter.finished(line)

    def begin(self) -> None:
        """A new population and a bank of seeds. Raises AdapterError if the start does not fit the base."""
        self.play.plant()
        start = self._start()
        population = self.config.population
        sizes: dict[AnyRole, int] = {"teacher": population.teachers, "student": population.students}
        if population.single_agent:
            sizes = {"both": 1}
        roles: list[AnyRole] = [role for role, size in sizes.items() for _ in range(size)]
        for role in roles:
            member = self.population.add_member(role, -1)
            noise = generator(self.config.run.seed, "perturb", member.name)
            self.policy.join(member.name, perturb(start, population.perturbation, noise))
        self.archive.write([rows.member_row(member) for member in self.population.members.values()])
        self.save()

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Goes on where `saved` was made. Raises CheckpointError if it belongs to another base."""
        if saved.fingerprint != self.fingerprint:
            raise checkpoint.CheckpointError(
                f"the checkpoint at step {saved.step} was made on another base ({saved.base}), not on these weights"
            )
        self.population, self.next_step = saved.population, saved.step
        self.play.bank.restore(saved.bank)
        for name in self.population.members:
            self.policy.join(name, saved.adapters[name], state=saved.optimizers[name], version=saved.versions[name])
        for name in self.population.hall_of_fame:
            self.policy.join(name, saved.adapters[name], trained=False, version=saved.versions[name])
        self.archive.rewind(saved.step)
        self.directory.rewind_metrics(saved.step)

    def save(self) -> Path:
        """A checkpoint of everything up to `next_step`."""
        config = self.config
        names = (*self.population.members, *self.population.hall_of_fame)
        return checkpoint.save(
            self.directory.checkpoints,
            checkpoint.Checkpoint(
                self.next_step,
                self.base.name,
                self.fingerprint,
                config.model.alpha,
                self.population,
                self.play.bank.entries(),
                {name: self.policy.adapter(name) for name in names},
                {name: self.policy.state(name) for name in self.population.members},
                {name: self.policy.version(name) for name in names},
            ),
            keep_last=config.run.keep_last,
            keep_every=config.run.keep_every,
        )

    def probe(self, members: Sequence[str]) -> Mapping[str, float]:
        """Held-out scores, by member; the tasks are drawn when they are first needed, the same after a resume."""
        if self.seed_probe is None:
            play = self.play
            self.seed_probe = SeedProbe(
                self.config, seed_tasks(play.verifier), play.format, play.sampler, play.verifier
            )
        self.probed = self.seed_probe.attempt(members)
        return scores(self.probed)

    def close(self) -> None:
        self.archive.close()
        self.policy.close()

    def _start(self) -> dict[str, Factors]:
        """The adapter that all members start near."""
        model, init = self.config.model, self.config.population.init
        noise = generator(self.config.run.seed, "fresh")
        folder = warm_start(model) if init == "auto" else None if init == "fresh" else Path(init)
        if folder is None:
            return fresh(self.policy.shapes(), model.rank, noise)
        adapter, alpha = load_adapter(folder)
        if adapter.keys() != self.policy.shapes().keys():
            raise AdapterError(f"{folder} was made for another base or other model.targets")
        rank = next(iter(adapter.values())).a.shape[1]
        return refit(adapter, alpha / rank, model.rank, model.alpha / model.rank, noise)

    @contextmanager
    def _phase(self, step: int, name: str) -> Generator[None]:
        self.reporter.phase(step, name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        self.seconds["total"] = sum(value for key, value in self.seconds.items() if key != "total")


def members(config: Config) -> int:
    """How many adapters a run holds."""
    population = config.population
    living = 1 if population.single_agent else population.teachers + population.students
    return living + 2 * config.league.hall_of_fame
