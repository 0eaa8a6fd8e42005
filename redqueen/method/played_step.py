"""The result of a step is a tree: a `PlayedStep` has matches, a match has proposals, and a proposal has attempts.

Solve rates and rewards are put on it here, when everything is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from redqueen.config import GameConfig
from redqueen.method.judging import faults_of, withdraw
from redqueen.method.matchmaking import Match
from redqueen.method.practice import Practice, note_attempts
from redqueen.method.rewards import is_judged, solve_rate, student_reward, teacher_reward
from redqueen.method.task_bank import TaskBank
from redqueen.records import Attempted, GradedRollout, PosedTask, Proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAttempt:
    """An attempt with its reward: a leaf of the step's tree."""

    attempted: Attempted
    reward: float | None
    """None after a fault of the machine, and where the task was withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredProposal:
    """A proposal with its reward and the attempts at its task."""

    proposed: Proposed
    reward: float | None
    """None if the machine lost the proposal or all its attempts."""
    solve_rate: float | None
    """None if no attempt could be judged: the proposal is not a valid task, the machine failed, or the task was
    withdrawn because its program gave other results when it ran again."""
    novel: bool
    """Whether it is a valid task with a new idea (`redqueen.method.seeds`)."""
    attempts: tuple[ScoredAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedMatch:
    """A match with everything that was written in it."""

    match: Match
    proposals: tuple[ScoredProposal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPosed:
    """A fixed task with the attempts at it."""

    posed: PosedTask
    solve_rate: float | None
    """None if no attempt could be judged."""
    attempts: tuple[ScoredAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Practised:
    """A student with the fixed tasks that it was posed."""

    practice: Practice
    tasks: tuple[ScoredPosed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """A step's matches when everything is judged and paid, in the order in which they were drawn."""

    step: int
    matches: tuple[PlayedMatch, ...]
    practised: tuple[Practised, ...] = ()

    @property
    def proposals(self) -> list[ScoredProposal]:
        return list(chain.from_iterable(match.proposals for match in self.matches))

    @property
    def posed(self) -> list[ScoredPosed]:
        """The fixed tasks."""
        return list(chain.from_iterable(one.tasks for one in self.practised))

    @property
    def attempts(self) -> list[ScoredAttempt]:
        return list(chain.from_iterable(task.attempts for task in (*self.proposals, *self.posed)))

    def graded(self) -> list[GradedRollout]:
        """Returns all rollouts that have a reward, teachers' first."""
        # No member caused a fault of the machine. Paid as a failure, it would teach members to avoid what they wrote
        # on a machine that happened to be busy, so such a rollout has no reward and is not trained on.
        paid = [(proposal.proposed, proposal.reward) for proposal in self.proposals]
        paid += [(attempt.attempted, attempt.reward) for attempt in self.attempts]
        return [
            GradedRollout(rollout=text.rollout, reward=reward, verdict=text.verdict)
            for text, reward in paid
            if reward is not None
        ]


def score_step(
    step: int,
    matches: Sequence[Match],
    proposed: Sequence[Proposed],
    attempted: Sequence[Attempted],
    task_bank: TaskBank,
    pay: GameConfig,
    practices: Sequence[Practice] = (),
    posed: Sequence[PosedTask] = (),
) -> PlayedStep:
    """Returns the step's tree with solve rates and rewards, and adds its valid tasks to the task bank.

    A task that was withdrawn does not enter the bank, and what the bank has on its program leaves.
    """
    # A task has the id of its proposal, so attempts find their proposal by it.
    attempts: dict[str, list[Attempted]] = {}
    for attempt in attempted:
        attempts.setdefault(attempt.task.id, []).append(attempt)
    faults = faults_of(attempted)
    # The order of the proposals decides which of two alike tasks is the new one. It is the order in which they were
    # asked for and not that of their ends, so a run can be repeated exactly.
    scored: dict[str, list[ScoredProposal]] = {match.id: [] for match in matches}
    for proposal in proposed:
        own = attempts.get(proposal.id, [])
        if proposal.id in faults:
            proposal, own = withdraw(proposal, own, faults[proposal.id])
        scored[proposal.match].append(_score(proposal, own, task_bank, pay))
    # After all others: the same program may have come twice in the step, under two names.
    for program in {attempt.task.program for attempt in attempted if attempt.task.id in faults}:
        task_bank.remove(program)
    at_fixed = [(one, attempts.get(one.task.id, [])) for one in posed]
    note_attempts(task_bank, [(one, _right(own)) for one, own in at_fixed], step)
    practised = [
        Practised(
            practice=practice,
            tasks=tuple(_score_posed(one, own, pay) for one, own in at_fixed if one.practice == practice.id),
        )
        for practice in practices
    ]
    played = [PlayedMatch(match=match, proposals=tuple(scored[match.id])) for match in matches]
    return PlayedStep(step=step, matches=tuple(played), practised=tuple(practised))


def _right(attempts: Sequence[Attempted]) -> list[bool]:
    """Returns which of the judged attempts are right."""
    return [attempt.verdict.status == "correct" for attempt in attempts if is_judged(attempt.verdict)]


def _score_posed(posed: PosedTask, attempts: Sequence[Attempted], pay: GameConfig) -> ScoredPosed:
    return ScoredPosed(
        posed=posed,
        solve_rate=solve_rate([attempt.verdict for attempt in attempts]),
        attempts=_paid(attempts, pay),
    )


def _paid(attempts: Sequence[Attempted], pay: GameConfig) -> tuple[ScoredAttempt, ...]:
    return tuple(ScoredAttempt(attempted=attempt, reward=student_reward(attempt, pay)) for attempt in attempts)


def _score(proposed: Proposed, attempts: Sequence[Attempted], task_bank: TaskBank, pay: GameConfig) -> ScoredProposal:
    rho = solve_rate([attempt.verdict for attempt in attempts])
    task = proposed.task
    # Asked before the task enters the bank, where it would be known.
    novel = task is not None and task_bank.is_novel(task)
    if task is not None:
        task_bank.add(task, rho)
    return ScoredProposal(
        proposed=proposed,
        reward=teacher_reward(proposed, rho, novel, pay),
        solve_rate=rho,
        novel=novel,
        attempts=_paid(attempts, pay),
    )
