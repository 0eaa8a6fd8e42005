"""Do children keep what their parents learnt? Every operator and every control, born of the same parents and trained
under identical conditions, until the parent's level is reached again.

All children of a trial learn in one bank: the same tasks in the same order, the same random numbers, fresh optimizers.
A member's samples, advantages and update do not depend on the others, so company changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from redqueen import streams
from redqueen.adapters.distance import relative_distance
from redqueen.adapters.factors import Adapter
from redqueen.adapters.initialisation import generator
from redqueen.adapters.operators import CROSSOVERS
from redqueen.analysis.replay import Loaded, ranked_students
from redqueen.analysis.retention.divergence import mean_kl
from redqueen.errors import UserError
from redqueen.evolution import OPERATORS
from redqueen.game.rewards import advantages, student_reward
from redqueen.programs.normal_form import fingerprint
from redqueen.records import Attempted, GradedRollout, Rollout, Sample, Task
from redqueen.runs.checkpoint import Checkpoint

PARENT = "parent"
COPY, MEAN = "copy_parent", "linear_mean"
PAIRED = (*CROSSOVERS, MEAN)
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of the experiment.

    Attributes:
        parents: how many of the fittest students are the first parent in turn.
        seeds: repetitions for each; each draws its own tasks, children and random numbers.
        updates, every: updates of each child, and updates from one measurement to the next.
        tasks, tries: fixed tasks on which reward is measured, and attempts at each.
        practice: tasks of an update; attempts at each are the run's `game.attempts`.
    """

    parents: int
    seeds: int
    updates: int
    every: int
    tasks: int
    tries: int
    practice: int

    @property
    def measured(self) -> tuple[int, ...]:
        """The numbers of updates after which reward is measured."""
        return tuple(sorted({*range(0, self.updates, self.every), self.updates}))


@dataclass(frozen=True, slots=True)
class Trial:
    """One child of one seed.

    Attributes:
        operator, parents, seed: how it was made; the fitter parent first.
        kl: KL(parent ‖ child) at birth, nats per token (`mean_kl`), on what the parent wrote at the fixed tasks.
        distance: of its update from the parent's (`relative_distance`).
        level, level_solved: the parent's mean reward and solve rate at the fixed tasks.
        rewards, solved: the child's own, at each of `Plan.measured`.
        regained: updates after which the child's reward was first no lower than the parent's; None: not within
            `Plan.updates`.
    """

    operator: str
    parents: tuple[str, ...]
    seed: int
    kl: float
    distance: float
    level: float
    level_solved: float
    rewards: tuple[float, ...]
    solved: tuple[float, ...]
    regained: int | None


def retention(loaded: Loaded, saved: Checkpoint, plan: Plan, report: Report) -> list[Trial]:
    """Every trial of `plan` on students of `saved`. `loaded` has room for `slots_needed(saved)` members.

    Raises UserError if the run has too few students or its bank too few tasks.
    """
    families = _families(loaded, saved, plan.parents)
    trials: list[Trial] = []
    for seed in range(plan.seeds):
        for f, family in enumerate(families):
            name = f"seed {seed + 1}/{plan.seeds}, parent {f + 1}/{len(families)}"
            trials += _trial(
                loaded, saved, plan, family, seed, lambda done, name=name: report(name, done, plan.updates)
            )
    return trials


def operators_for(students: int) -> tuple[str, ...]:
    """What children can be made by: crossovers need two students."""
    return tuple(name for name in OPERATORS if students > 1 or name not in PAIRED)


def slots_needed(saved: Checkpoint) -> int:
    """Members in the bank at once: the children of one seed, and the parent."""
    return len(operators_for(len(_students(saved)))) + 1


def _students(saved: Checkpoint) -> list[str]:
    return [m.name for m in saved.population.members.values() if m.role != "teacher"]


def _families(loaded: Loaded, saved: Checkpoint, parents: int) -> list[tuple[str, ...]]:
    """First parents with the next in rank as the second, so that the fitter is always first."""
    ranked = ranked_students(saved, loaded.config)
    most = max(1, len(ranked) - 1)
    if parents > most:
        raise UserError(
            f"--parents {parents}: with {len(ranked)} students at most {most}, for a crossover's second parent is the "
            "next in rank"
        )
    return [tuple(ranked[i : i + 2]) for i in range(parents)]


def _trial(
    loaded: Loaded,
    saved: Checkpoint,
    plan: Plan,
    family: tuple[str, ...],
    seed: int,
    report: Callable[[int], None],
) -> list[Trial]:
    """The children of one family, from birth to the last update."""
    purpose = f"retention.{seed}.{family[0]}"
    fixed, pool = _tasks(loaded, plan, purpose)
    children = _children(loaded, [saved.adapters[name] for name in family], purpose)
    parent = saved.adapters[family[0]]
    loaded.policy.join(PARENT, parent)
    for name, child in children.items():
        loaded.policy.join(name, child)
    base = loaded.attempt([(PARENT, task) for task in fixed], plan.tries)
    level, level_solved = _scores(loaded, base)[PARENT]
    # one text for each task: the children of a group of texts share its prompt, and differ little in divergence
    kl = mean_kl(loaded, PARENT, list(children), [a.rollout.completion for a in base if a.number == 0])
    measured = [_measure(loaded, children, fixed, plan.tries)]
    for update in range(plan.updates):
        report(update)
        loaded.policy.update(_practice(loaded, children, pool, plan, purpose, update))
        if update + 1 in plan.measured:
            measured.append(_measure(loaded, children, fixed, plan.tries))
    report(plan.updates)
    for name in (PARENT, *children):
        loaded.policy.leave(name)
    made: list[Trial] = []
    for name, child in children.items():
        rewards, solved = zip(*(scores[name] for scores in measured), strict=True)
        at = [u for u, reward in zip(plan.measured, rewards, strict=True) if reward >= level]
        first = at[0] if at else None
        parents = family if name in PAIRED else family[:1]
        far = relative_distance(parent, child)
        made.append(Trial(name, parents, seed, kl[name], far, level, level_solved, rewards, solved, first))
    return made


def _children(loaded: Loaded, parents: Sequence[Adapter], purpose: str) -> dict[str, Adapter]:
    seed = loaded.config.run.seed
    return {name: OPERATORS[name](parents, generator(seed, purpose, name)) for name in operators_for(len(parents))}


def _tasks(loaded: Loaded, plan: Plan, purpose: str) -> tuple[list[Task], list[Task]]:
    """The fixed tasks, the kinds in turn, and those to learn from: no program is in both."""
    tasks = [entry.task for entry in loaded.self_play.task_bank.entries()]
    shuffled = streams.python(loaded.config.run.seed, purpose, "tasks").sample(tasks, len(tasks))
    by_kind = [[task for task in shuffled if task.kind == kind] for kind in loaded.config.game.kinds]
    # the first of each kind, then the second of each ...
    turns = sorted(
        ((i, k, task) for k, own in enumerate(by_kind) for i, task in enumerate(own)), key=lambda turn: turn[:2]
    )
    fixed = [task for _, _, task in turns[: plan.tasks]]
    seen = {fingerprint(task.program) for task in fixed}
    pool = [task for _, _, task in turns[plan.tasks :] if fingerprint(task.program) not in seen]
    if len(fixed) < plan.tasks or len(pool) < plan.practice:
        raise UserError(
            f"the run's bank holds {len(tasks)} tasks, too few for {plan.tasks} fixed ones and {plan.practice} others "
            "to learn from: choose a smaller --tasks or --practice"
        )
    return [replace(task, id=f"{purpose}.{task.id}") for task in fixed], pool


def _practice(
    loaded: Loaded, children: Mapping[str, Adapter], pool: Sequence[Task], plan: Plan, purpose: str, update: int
) -> list[Sample]:
    """One update's samples of all children: the same tasks and random numbers, each with advantages of its own."""
    rng = streams.python(loaded.config.run.seed, purpose, "practice", update)
    drawn = [replace(task, id=f"{purpose}.{update}.{task.id}") for task in rng.sample(pool, plan.practice)]
    posed = [(name, task) for name in children for task in drawn]
    attempted = loaded.attempt(posed, loaded.config.game.attempts)
    graded = _graded(loaded, attempted)
    # whitened within the child, where a run whitens over all its students: nobody's update depends on company
    return [sample for name in children for sample in advantages([g for g in graded if g.rollout.member == name])]


def _graded(loaded: Loaded, attempted: Sequence[Attempted]) -> list[GradedRollout]:
    """What the machine did not spoil."""
    paid: list[tuple[Rollout, float | None]] = [
        (a.rollout, student_reward(a.verdict, loaded.config.game)) for a in attempted
    ]
    return [GradedRollout(rollout=rollout, reward=reward) for rollout, reward in paid if reward is not None]


def _measure(
    loaded: Loaded, children: Mapping[str, Adapter], fixed: Sequence[Task], tries: int
) -> dict[str, tuple[float, float]]:
    return _scores(loaded, loaded.attempt([(name, task) for name in children for task in fixed], tries))


def _scores(loaded: Loaded, attempted: Sequence[Attempted]) -> dict[str, tuple[float, float]]:
    """Mean reward and solve rate by member. Raises UserError if the machine spoilt every attempt of one."""
    paid: dict[str, list[float]] = {a.rollout.member: [] for a in attempted}
    solved: dict[str, list[bool]] = {name: [] for name in paid}
    for a in attempted:
        reward = student_reward(a.verdict, loaded.config.game)
        if reward is not None:
            paid[a.rollout.member].append(reward)
            solved[a.rollout.member].append(a.verdict.status == "correct")
    if not all(paid.values()):
        raise UserError("the sandbox failed on every attempt of a member: see redqueen doctor")
    return {name: (fmean(paid[name]), fmean(solved[name])) for name in paid}
