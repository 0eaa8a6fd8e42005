"""Held-out scores: fixed tasks on reserved programs, attempted once by each member.

No teacher wrote them, nothing was trained on them or on anything alike, and no reward is paid on them. So the score
does not move with the opponents. The fitness `held_out` scores by one half of the programs. What is reported is
measured on the other half, which no selection has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from redqueen.config import Config, ConfigError
from redqueen.evals.reserved_tasks import Examples, most_tasks, reserved_tasks, worked_examples
from redqueen.method.judging import ask_attempts
from redqueen.method.prompts import Prompts
from redqueen.method.seeds import Half
from redqueen.records import Attempted, Kind, Progress, Request, Sampler, SamplingParams, Task, Verifier
from redqueen.tasks.kinds import held_out_kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutEvaluation:
    """Holds fixed tasks and lets members attempt them."""

    tasks: Sequence[Task]
    examples: Examples
    """The worked examples that every prompt of a kind shows."""
    prompts: Prompts
    sampler: Sampler
    verifier: Verifier
    sampling: SamplingParams
    seed: int
    """Names the random numbers of the attempts."""

    def attempt(self, members: Sequence[str], progress: Progress | None = None) -> list[Attempted]:
        """Returns one judged attempt of each member at each task, by member and then by task."""
        # All members answer the same prompts with the same random numbers (the stream's name holds no member), so a
        # difference of two scores is due to the members and not to their luck.
        prompt_of = {task: self.prompts.attempt(task, self.examples[task.kind]) for task in self.tasks}
        # The members take turns in the requests, so that they are sampled side by side in mixed batches.
        tasks: list[Task] = []
        requests: list[Request] = []
        for task, member in product(self.tasks, members):
            seed = (self.seed, "probe", task.id)
            tasks.append(task)
            requests.append(Request(member=member, prompt=prompt_of[task], sampling=self.sampling, seed=seed))
        attempted = ask_attempts(self.sampler, self.verifier, self.prompts, tasks, requests, progress)
        order = {member: number for number, member in enumerate(members)}
        # The sort is stable: the tasks of a member stay in order.
        return sorted(attempted, key=lambda one: order[one.rollout.member])


def run_evaluation(
    config: Config,
    half: Half,
    kinds: Sequence[Kind],
    count: int,
    prompts: Prompts,
    sampler: Sampler,
    verifier: Verifier,
) -> HeldOutEvaluation:
    """Returns a run's evaluation on `count` tasks of a half: the same for all its members, and after a resume.

    The tasks are of these `kinds` in turn, so their order is a part of what is asked.

    Raises UserError if a program fails in the sandbox.
    """
    seed = config.run.seed
    return HeldOutEvaluation(
        tasks=reserved_tasks(half, kinds, count, seed, verifier),
        examples=worked_examples(kinds, config.game.shots, seed, verifier),
        prompts=prompts,
        sampler=sampler,
        verifier=verifier,
        sampling=config.sampling.params(config.sampling.attempt_tokens),
        seed=seed,
    )


def check_held_out(config: Config) -> None:
    """Raises ConfigError if students are to be scored by more held-out tasks than there are."""
    count = config.league.held_out_tasks
    most = most_tasks("selection", held_out_kinds(config.game.kinds))
    if config.league.student_fitness == "held_out" and count > most:
        raise ConfigError(f"league.held_out_tasks={count}: there are {most} held-out tasks, choose at most that")
