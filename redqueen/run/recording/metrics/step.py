"""A finished step as metrics count it: what living members wrote, what was judged, and the tasks that were measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from redqueen.method.played_step import ScoredAttempt, ScoredPosed, ScoredProposal
from redqueen.method.rewards import is_judged
from redqueen.records import Kind, Rollout
from redqueen.run.recording.measures import MeasuredTask
from redqueen.run.recording.recorder import StepRecord

Item = ScoredProposal | ScoredPosed | ScoredAttempt | Rollout | MeasuredTask
I = TypeVar("I", bound=Item)  # noqa: E741
T = TypeVar("T")


class CountedStep:
    """A step's record, sorted.

    Rates are over what was judged. If faults of the machine counted as failures, a machine under load would look like
    members that get worse. Attempts at a task that was withdrawn were judged by nothing.
    """

    def __init__(self, record: StepRecord) -> None:
        self.record = record
        self.kinds = record.kinds
        # A champion of the past is no part of the population, so what it wrote counts in no rate.
        self.living = {standing.member.name for standing in record.standings}
        self.all_proposals = record.played.proposals
        """With those of champions."""
        self.all_attempts = record.played.attempts
        """With those of champions."""
        self.proposals = [
            proposal for proposal in self.all_proposals if proposal.proposed.rollout.member in self.living
        ]
        self.attempts = [attempt for attempt in self.all_attempts if attempt.attempted.rollout.member in self.living]
        self.judged = [proposal for proposal in self.proposals if proposal.proposed.verdict.status != "infra_error"]
        """The proposals that are valid or not."""
        self.valid = [proposal for proposal in self.judged if is_valid(proposal)]
        self.answered = [attempt for attempt in self.attempts if is_judged(attempt.attempted.verdict)]
        """The attempts that are right or wrong."""
        at_fixed = [attempt for posed in record.played.posed for attempt in posed.attempts]
        self.answered_own = [attempt for attempt in at_fixed if is_judged(attempt.attempted.verdict)]
        """Those at fixed tasks."""
        self.rollouts = [proposal.proposed.rollout for proposal in self.proposals]
        """What living members wrote, proposals first."""
        self.rollouts += [attempt.attempted.rollout for attempt in self.attempts]
        self.rated_own = [posed for posed in record.played.posed if posed.solve_rate is not None]
        """The fixed tasks with a solve rate."""
        self.rated: list[ScoredProposal | ScoredPosed] = [
            proposal
            for proposal in self.proposals
            if proposal.proposed.student in self.living and proposal.solve_rate is not None
        ]
        self.rated += self.rated_own
        """The tasks of living teachers, and fixed ones, with a solve rate of a living student."""
        self.measured = record.measures.tasks
        """The valid tasks of living teachers, as they were measured."""

    def by_kind(self, items: Iterable[I], value: Callable[[list[I]], T]) -> dict[Kind, T]:
        groups: dict[Kind, list[I]] = {kind: [] for kind in self.kinds}
        for item in items:
            groups.setdefault(_kind(item), []).append(item)
        return {kind: value(groups[kind]) for kind in self.kinds}


def is_valid(proposal: ScoredProposal) -> bool:
    """Returns whether a proposal is a task."""
    return proposal.proposed.task is not None


def _kind(item: Item) -> Kind:
    if isinstance(item, ScoredProposal):
        return item.proposed.rollout.kind
    if isinstance(item, ScoredPosed):
        return item.posed.task.kind
    if isinstance(item, ScoredAttempt):
        return item.attempted.rollout.kind
    return item.kind
