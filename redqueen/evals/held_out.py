"""The fixed tasks behind the fitness `held_out`: seed programs drawn once per run, attempted once by each student.

No teacher wrote them and no reward is paid on them, so the score does not move with the opponents. It is not a
benchmark: the same programs are in the task bank, where teachers see them as references.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import product

from redqueen import streams
from redqueen.config import Config, ConfigError
from redqueen.game.prompts import Prompts
from redqueen.game.rewards import solve_rate
from redqueen.judging import ask, submit_attempt
from redqueen.records import Attempted, Completion, Kind, Request, Sampler, Task, Verdict, Verifier
from redqueen.self_play import attempt_rollout


class HeldOutEvaluation:
    """Holds `league.held_out_tasks` tasks, whose kinds alternate, and lets members attempt them."""

    def __init__(
        self, config: Config, seeds: Sequence[Task], prompts: Prompts, sampler: Sampler, verifier: Verifier
    ) -> None:
        """Draws the tasks from `seeds`, code_f tasks with all their pairs.

        Raises ConfigError if `league.held_out_tasks` is more than there are.
        """
        count = config.league.held_out_tasks
        kinds = config.game.kinds
        if count > len(seeds):
            raise ConfigError(
                f"league.held_out_tasks={count}: there are {len(seeds)} seed programs, choose at most that"
            )
        self.config = config
        self.prompts = prompts
        self.sampler = sampler
        self.verifier = verifier
        # The tasks are the first of one shuffled list and the worked examples come from the rest, so the two never
        # share a program. The stream's name holds no step: a resumed run draws the same tasks.
        shuffled = streams.python(config.run.seed, "probe").sample(list(seeds), len(seeds))
        self.tasks = [self._as_kind(task, kinds[i % len(kinds)]) for i, task in enumerate(shuffled[:count])]
        shown = shuffled[count:][: config.game.shots]
        self.examples: dict[Kind, list[Task]] = {}
        for kind in kinds:
            self.examples[kind] = [self._as_kind(task, kind) for task in shown]

    def attempt(self, members: Sequence[str]) -> list[Attempted]:
        """Returns one judged attempt of each member at each task, by member and then by task."""
        # All members answer the same prompts with the same random numbers (the stream's name holds no member), so a
        # difference of two scores is due to the members and not to their luck.
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        prompt_of = {task: self.prompts.attempt(task, self.examples[task.kind]) for task in self.tasks}
        places = list(product(members, self.tasks))
        requests = [
            Request(
                member=member,
                prompt=prompt_of[task],
                sampling=sampling,
                seed=(self.config.run.seed, "probe", task.id),
            )
            for member, task in places
        ]

        def submit(index: int, completion: Completion) -> Future[Verdict]:
            return submit_attempt(self.verifier, self.prompts, places[index][1], completion)

        answers = ask(self.sampler, requests, submit)
        return [
            Attempted(task=task, number=0, rollout=attempt_rollout(member, task, completion), verdict=verdict)
            for (member, task), (completion, verdict) in zip(places, answers, strict=True)
        ]

    def _as_kind(self, task: Task, kind: Kind) -> Task:
        # The game has tasks of these programs too, named `seed-0-code_o` and the like. The prefix tells them apart.
        renamed = replace(task, id=f"probe-{task.id}")
        return renamed.as_kind(kind, streams.python(self.config.run.seed, "probe", task.id, kind))


def scores(attempted: Sequence[Attempted]) -> dict[str, float]:
    """Returns solve rates in [0, 1] by member; a member of whom the machine lost every attempt is left out."""
    verdicts: dict[str, list[Verdict]] = {}
    for attempt in attempted:
        verdicts.setdefault(attempt.rollout.member, []).append(attempt.verdict)
    rates = {member: solve_rate(judged) for member, judged in verdicts.items()}
    return {member: rate for member, rate in rates.items() if rate is not None}
