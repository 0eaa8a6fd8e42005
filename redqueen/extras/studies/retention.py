"""Do children keep what their parents learnt?

Every operator and every control makes a child of the same parents. All children are trained under identical conditions,
on tasks of the run's bank, and measured on reserved programs until they reach the parent's level again.

The children of a trial share one base: they have the same tasks in the same order, the same random numbers and fresh
optimizers. A member's samples, advantages and update do not depend on the others, so sharing does not change any
child's result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import torch
from torch import Tensor

from redqueen.analysis.replay import Replay, ranked_students
from redqueen.base import streams
from redqueen.engine.adapters import Adapter, generator, relative_distance
from redqueen.engine.learning.packing import PromptGroup, WeightedSample, build_micro_batch, micro_batches
from redqueen.errors import UserError
from redqueen.evals.held_out import most_tasks, reserved_tasks
from redqueen.method.advantages import advantages
from redqueen.method.evolution import OPERATORS
from redqueen.method.operators import CROSSOVERS
from redqueen.method.rewards import student_reward
from redqueen.method.seeds import Half
from redqueen.records import Attempted, Completion, GradedRollout, Sample, Task
from redqueen.store.checkpoint import Checkpoint
from redqueen.tasks.kinds import held_out_kinds

# How differently two members write: the exact Kullback-Leibler divergence of their next-token distributions.
#
# Shape suffixes: N rows (tokens that go through the model), S scored tokens, C tokens of a chunk, H hidden size,
# V vocabulary.

# The rows whose logits are held at a time.
_CHUNK = 128


@torch.inference_mode()
def mean_kl(replay: Replay, parent: str, children: Sequence[str], written: Sequence[Completion]) -> Mapping[str, float]:
    """Returns KL(parent ‖ child) in nats per token of `written`, by child: over the whole vocabulary, at temperature 1.

    If the parent wrote the texts at temperature 1, the sum over a text's tokens estimates the divergence of the two
    distributions over whole texts. At most 128 rows of logits of each member are held at a time.
    Raises ValueError if nothing was written.
    """
    count = sum(len(completion.token_ids) for completion in written)
    if not count:
        raise ValueError("no token to compare members on")
    totals = dict.fromkeys(children, 0.0)
    # The micro-batches of all members advance together, so that the parent's states are computed once for all children
    # and only one micro-batch of each member is held at a time.
    batches = [_batches(replay, name, written) for name in (parent, *children)]
    for of_parent, *others in zip(*batches, strict=True):
        reference_SH = _hidden(replay, of_parent)
        for child, groups in zip(children, others, strict=True):
            totals[child] += _divergence(replay, reference_SH, _hidden(replay, groups))
    return {child: total / count for child, total in totals.items()}


def _batches(replay: Replay, member: str, written: Sequence[Completion]) -> Iterator[list[PromptGroup]]:
    """Yields the same micro-batches for every member; only the slot differs."""
    slot = replay.policy.adapters.slots[member]
    # Packing wants samples with advantages and weights, as training does. No loss is computed here, so that any value
    # serves.
    items = [
        WeightedSample(
            Sample(member=member, prompt_ids=c.prompt_ids, token_ids=c.token_ids, logprobs=c.logprobs, advantage=1.0),
            slot,
            1.0,
        )
        for c in written
    ]
    return micro_batches(items, replay.config.learning.batch_tokens)


def _hidden(replay: Replay, groups: Sequence[PromptGroup]) -> Tensor:
    """Returns the states [S, H] that predict the scored tokens."""
    device = replay.policy.base.device
    batch = build_micro_batch(groups, device)
    slots = [group.slot for group in groups]
    hidden_NH = replay.policy.base.decoder.states(
        batch.ids_N, batch.position_N, batch.prefixes, lambda lengths: replay.policy.adapters.rows(slots, lengths)
    )
    return hidden_NH[batch.source_S]


def _divergence(replay: Replay, p_SH: Tensor, q_SH: Tensor) -> float:
    """Returns the sum over all rows of the divergence of `q` from `p`, in nats."""
    # The sum over the vocabulary is exact: a divergence of two close members is small, and an estimate from the drawn
    # tokens alone would be mostly noise. Logits are made in chunks, because [S, V] of two members would fill memory.
    # Chunks are summed in float64: thousands of small terms are added.
    total = 0.0
    decoder = replay.policy.base.decoder
    for start in range(0, len(p_SH), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        log_p_CV = decoder.logits(p_SH[chunk]).float().log_softmax(-1)
        log_q_CV = decoder.logits(q_SH[chunk]).float().log_softmax(-1)
        total += float((log_p_CV.exp() * (log_p_CV - log_q_CV)).sum(dtype=torch.float64))
    return total


PARENT = "parent"
COPY, MEAN = "copy_parent", "linear_mean"
PAIRED = (*CROSSOVERS, MEAN)
# The other half may be what the run selected its students by.
HALF: Half = "report"
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The sizes of the experiment."""

    seeds: int
    """Repetitions; each draws its own tasks, children and random numbers."""
    updates: int
    tasks: int
    """Fixed tasks on reserved programs, on which reward is measured."""
    every: int = 2
    """Updates from one measurement to the next."""
    tries: int = 2
    """Attempts at each fixed task."""
    practice: int = 6
    """Tasks of an update, if the run's bank has so many; attempts at each are the run's `game.attempts`."""

    @property
    def measured(self) -> tuple[int, ...]:
        """Returns the numbers of updates after which reward is measured."""
        return tuple(sorted({*range(0, self.updates, self.every), self.updates}))


@dataclass(frozen=True, slots=True)
class RetentionTrial:
    """One child of one seed."""

    operator: str
    parents: tuple[str, ...]
    """The fitter parent first."""
    seed: int
    kl: float
    """KL(parent ‖ child) at birth in nats per token (`mean_kl`), on what the parent wrote at the fixed tasks."""
    distance: float
    """Of the child's update from the parent's (`relative_distance`)."""
    level: float
    """The parent's mean reward at the fixed tasks."""
    level_solved: float
    """The parent's solve rate at the fixed tasks."""
    rewards: tuple[float, ...]
    """The child's mean reward at each of `RetentionPlan.measured`."""
    solved: tuple[float, ...]
    """The child's solve rate at each of `RetentionPlan.measured`."""
    regained: int | None
    """Updates after which the child's reward was first no lower than the parent's; None if it never was."""


def retention(replay: Replay, saved: Checkpoint, plan: RetentionPlan, report: Report) -> list[RetentionTrial]:
    """Runs every trial of `plan`; `replay` has room for `slots_needed(saved)` members.

    The parents are the fittest student of `saved` and the next in rank. Raises UserError if there are too few tasks.
    """
    family = tuple(ranked_students(saved, replay.config.evolution_settings)[:2])
    trials: list[RetentionTrial] = []
    for seed in range(plan.seeds):
        name = f"seed {seed + 1}/{plan.seeds}"
        trials += _trial(replay, saved, plan, family, seed, lambda done, name=name: report(name, done, plan.updates))
    return trials


def operators_for(students: int) -> tuple[str, ...]:
    """Returns the operators that can make a child: crossovers need two students."""
    return tuple(name for name in OPERATORS if students > 1 or name not in PAIRED)


def slots_needed(saved: Checkpoint) -> int:
    """Returns how many members are there at once: the children of one seed, and the parent."""
    return len(operators_for(len(_students(saved)))) + 1


def _students(saved: Checkpoint) -> list[str]:
    return [m.name for m in saved.population.members.values() if m.role != "teacher"]


def _trial(
    replay: Replay,
    saved: Checkpoint,
    plan: RetentionPlan,
    family: tuple[str, ...],
    seed: int,
    report: Callable[[int], None],
) -> list[RetentionTrial]:
    """Trains and measures the children of one family, from birth to the last update."""
    purpose = f"retention.{seed}.{family[0]}"
    # The parent joins as well. It is not trained: it gives the level that children have to reach, at the same tasks and
    # with the same random numbers as they have.
    fixed, pool = _tasks(replay, plan, purpose)
    children = _children(replay, [saved.adapters[name] for name in family], purpose)
    parent = saved.adapters[family[0]]
    replay.policy.join(PARENT, parent)
    for name, child in children.items():
        replay.policy.join(name, child)
    by_parent = replay.self_play.attempt([(PARENT, task) for task in fixed], plan.tries)
    level, level_solved = _scores(replay, by_parent)[PARENT]
    # One completion per task: further completions of the same prompt add little information about the KL.
    written = [attempt.rollout.completion for attempt in by_parent if attempt.number == 0]
    kl = mean_kl(replay, PARENT, list(children), written)
    # All children train together, each on its own samples of the same tasks. The first measurement is at birth, before
    # any update.
    measured = [_measure(replay, children, fixed, plan.tries)]
    for update in range(plan.updates):
        report(update)
        replay.policy.update(_practice(replay, children, pool, plan, purpose, update))
        if update + 1 in plan.measured:
            measured.append(_measure(replay, children, fixed, plan.tries))
    report(plan.updates)
    # The next trial uses the same names, so that its members must find no state of these optimizers.
    for name in (PARENT, *children):
        replay.policy.leave(name)
    trials: list[RetentionTrial] = []
    for name, child in children.items():
        rewards, solved = zip(*(scores[name] for scores in measured), strict=True)
        at_level = [u for u, reward in zip(plan.measured, rewards, strict=True) if reward >= level]
        trial = RetentionTrial(
            operator=name,
            parents=family if name in PAIRED else family[:1],
            seed=seed,
            kl=kl[name],
            distance=relative_distance(parent, child),
            level=level,
            level_solved=level_solved,
            rewards=rewards,
            solved=solved,
            regained=at_level[0] if at_level else None,
        )
        trials.append(trial)
    return trials


def _children(replay: Replay, parents: Sequence[Adapter], purpose: str) -> dict[str, Adapter]:
    """Returns one child by each operator; each draws from a stream of its own."""
    seed = replay.config.run.seed
    return {name: OPERATORS[name](parents, generator(seed, purpose, name)) for name in operators_for(len(parents))}


def _tasks(replay: Replay, plan: RetentionPlan, purpose: str) -> tuple[list[Task], list[Task]]:
    """Returns the fixed tasks, the kinds in turn, and those of the run's bank to learn from.

    Raises UserError if there are too few.
    """
    # The fixed tasks are held out. On tasks of the bank, which parent and children have been trained on, a child could
    # regain its parent's level by remembering them.
    config = replay.config
    kinds = config.game.kinds
    # A kind may have another one in which students are tested, as in an evaluation.
    tested = held_out_kinds(kinds)
    most = most_tasks(HALF, tested)
    if plan.tasks > most:
        raise UserError(f"--tasks {plan.tasks}: there are {most} reserved tasks, choose at most that")
    seed = streams.key(config.run.seed, purpose, "tasks")
    fixed = reserved_tasks(HALF, tested, plan.tasks, seed, replay.self_play.verifier)
    pool = [entry.task for entry in replay.self_play.task_bank.entries() if entry.task.kind in kinds]
    if not pool:
        raise UserError("the run's bank holds no tasks of its kinds to learn from")
    # Random numbers are derived from the task's id, so another seed of the study draws others at the same task.
    return [replace(task, id=f"{purpose}.{task.id}") for task in fixed], pool


def _practice(
    replay: Replay,
    children: Mapping[str, Adapter],
    pool: Sequence[Task],
    plan: RetentionPlan,
    purpose: str,
    update: int,
) -> list[Sample]:
    """Returns one update's samples of all children: the same tasks and random numbers, advantages by child."""
    rng = streams.python(replay.config.run.seed, purpose, "practice", update)
    # Draws are paired: every child gets the same tasks and random numbers, so that children differ by their operator
    # and not by luck. The id holds the update, since the same task may be drawn again and must then have new numbers.
    chosen = rng.sample(pool, min(plan.practice, len(pool)))
    drawn = [replace(task, id=f"{purpose}.{update}.{task.id}") for task in chosen]
    attempted = replay.self_play.attempt(list(product(children, drawn)), replay.config.game.attempts)
    graded = _graded(replay, attempted)
    # A run whitens advantages over all its students. Here each child is whitened alone, so that no child's update
    # depends on which others there are.
    samples: list[Sample] = []
    for name in children:
        own = [rollout for rollout in graded if rollout.rollout.member == name]
        samples += advantages(own, replay.config.advantage_settings)
    return samples


def _graded(replay: Replay, attempted: Sequence[Attempted]) -> list[GradedRollout]:
    """Returns the attempts with their rewards, without those that were lost to a fault of the machine."""
    graded: list[GradedRollout] = []
    for attempt in attempted:
        reward = student_reward(attempt, replay.config.game)
        if reward is not None:
            graded.append(GradedRollout(rollout=attempt.rollout, reward=reward, verdict=attempt.verdict))
    return graded


def _measure(
    replay: Replay, children: Mapping[str, Adapter], fixed: Sequence[Task], tries: int
) -> dict[str, tuple[float, float]]:
    """Returns mean reward and solve rate of each child at the fixed tasks, with the same random numbers each time."""
    return _scores(replay, replay.self_play.attempt(list(product(children, fixed)), tries))


def _scores(replay: Replay, attempted: Sequence[Attempted]) -> dict[str, tuple[float, float]]:
    """Returns mean reward and solve rate by member.

    Raises UserError if every attempt of a member was lost to a fault of the machine.
    """
    rewards: dict[str, list[float]] = {attempt.rollout.member: [] for attempt in attempted}
    solved: dict[str, list[bool]] = {name: [] for name in rewards}
    for graded in _graded(replay, attempted):
        rewards[graded.rollout.member].append(graded.reward)
        solved[graded.rollout.member].append(graded.verdict.status == "correct")
    if not all(rewards.values()):
        raise UserError("the sandbox failed on every attempt of a member: see redqueen doctor")
    return {name: (fmean(rewards[name]), fmean(solved[name])) for name in rewards}
