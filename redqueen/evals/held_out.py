"""The fixed tasks behind the fitness `held_out`: seed programs drawn once per run, attempted once by each student.

No teacher wrote them and no reward is paid on them, so the score does not move with the opponents. It is not a
benchmark: the same programs are in the bank, where teachers see them as references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redqueen import streams
from redqueen.config import Config, ConfigError
from redqueen.game.prompts import Prompts
from redqueen.game.rewards import solve_rate
from redqueen.records import Attempted, Kind, Request, Rollout, Sampler, Task, Verdict, Verifier


class SeedProbe:
    """`league.held_out_tasks` tasks, the kinds in turn, and how members do on them."""

    def __init__(
        self, config: Config, seeds: Sequence[Task], format: Prompts, sampler: Sampler, verifier: Verifier
    ) -> None:
        """`seeds` are code_f tasks with all their pairs. Raises ConfigError if more are asked for than there are."""
        wanted, kinds = config.league.held_out_tasks, config.game.kinds
        if wanted > len(seeds):
            raise ConfigError(
                f"league.held_out_tasks={wanted}: there are {len(seeds)} seed programs, choose at most that"
            )
        drawn = streams.python(config.run.seed, "probe").sample(list(seeds), len(seeds))
        self.config, self.format, self.sampler, self.verifier = config, format, sampler, verifier
        self.tasks = [self._as_kind(task, kinds[i % len(kinds)]) for i, task in enumerate(drawn[:wanted])]
        # worked examples as in training, never a program that is asked about
        self.shots = {
            kind: [self._as_kind(t, kind) for t in drawn[wanted:][: config.game.shots]] for kind in config.game.kinds
        }

    def attempt(self, members: Sequence[str]) -> list[Attempted]:
        """One judged attempt of each member at each task. All answer the same prompts with the same random numbers."""
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        seed = self.config.run.seed
        places = [(member, task) for member in members for task in self.tasks]
        completions = self.sampler.sample(
            [
                Request(
                    member=member,
                    prompt=self.format.attempt(task, self.shots[task.kind]),
                    sampling=sampling,
                    seed=(seed, "probe", task.id),
                )
                for member, task in places
            ]
        )
        answers = [
            (task, self.format.read_attempt(task.kind, completion.text))
            for (_, task), completion in zip(places, completions, strict=True)
        ]
        return [
            Attempted(
                task=task,
                number=0,
                rollout=Rollout(member=member, role="student", kind=task.kind, group=task.id, completion=completion),
                verdict=verdict,
            )
            for (member, task), completion, verdict in zip(
                places, completions, self.verifier.grade(answers), strict=True
            )
        ]

    def _as_kind(self, task: Task, kind: Kind) -> Task:
        probe = replace(task, id=f"probe-{task.id}")
        return probe.as_kind(kind, streams.python(self.config.run.seed, "probe", task.id, kind))


def scores(attempted: Sequence[Attempted]) -> dict[str, float]:
    """Solve rates in [0, 1] by member; one whose every attempt was lost to a fault of the machine is left out."""
    verdicts: dict[str, list[Verdict]] = {}
    for attempt in attempted:
        verdicts.setdefault(attempt.rollout.member, []).append(attempt.verdict)
    rates = {member: solve_rate(own) for member, own in verdicts.items()}
    return {member: rate for member, rate in rates.items() if rate is not None}
