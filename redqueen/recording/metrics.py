"""Sums a step up in one line of metrics.jsonl."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean

from redqueen.evolution import Game, Replacement, Standing
from redqueen.game.rewards import is_judged
from redqueen.game.seeds import AUTHOR
from redqueen.league.matchmaking import BANK
from redqueen.machine import now
from redqueen.played_step import ScoredAttempt, ScoredProposal
from redqueen.recording.held_out import held_out_metrics, rates
from redqueen.recording.recorder import Recorder, StepRecord
from redqueen.recording.throughput import throughput
from redqueen.records import ROLES, ImportanceRatio, Kind, MemberUpdate, Role, Rollout, Verdict
from redqueen.runs.directory import RunDirectory
from redqueen.runs.files import InPlace
from redqueen.runs.metrics import (
    MatchMetrics,
    MemberMetrics,
    OutcomeCounts,
    RatioMetrics,
    ReplacementMetrics,
    StepMetrics,
    TruncatedRates,
)


class MetricsRecorder(Recorder):
    """Appends each step's line to metrics.jsonl."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._place = InPlace(directory.metrics_file)

    def record(self, record: StepRecord) -> None:
        """Appends the step's line. Raises OSError if it cannot be written, RunError if the file is no longer there."""
        self._place.check()
        line = step_metrics(record)
        line["time"] = now()
        self.directory.append_metrics(line)
        self._place.check()

    def rewind(self, step: int) -> None:
        """Drops the lines of the steps after `step`: a resumed run plays those steps again."""
        self.directory.rewind_metrics(step)
        # The file is a new one now.
        self._place = InPlace(self.directory.metrics_file)


def step_metrics(record: StepRecord) -> StepMetrics:
    """Returns the step's line; `StepMetrics` explains each number."""
    kinds = record.kinds
    all_proposals = record.played.proposals
    all_attempts = record.played.attempts
    # A champion of the past is no part of the population, so what it wrote counts in no rate. A task of the task bank
    # is no proposal, but its solve rate counts.
    living = {standing.member.name for standing in record.standings}
    solve_rates = {kind: _solve_rates(_posed_to(living, all_proposals), kind) for kind in kinds}
    all_proposals = [proposal for proposal in all_proposals if proposal.proposed.rollout.member != BANK]
    proposals = [proposal for proposal in all_proposals if proposal.proposed.rollout.member in living]
    attempts = [attempt for attempt in all_attempts if attempt.attempted.rollout.member in living]
    # Rates are over what was judged. If faults of the machine counted as failures, a machine under load would look like
    # members that get worse. Attempts at a task that was withdrawn were judged by nothing.
    judged = [proposal for proposal in proposals if proposal.proposed.verdict.status != "infra_error"]
    answered = [attempt for attempt in attempts if is_judged(attempt.attempted.verdict)]
    valid = [proposal for proposal in judged if _is_valid(proposal)]
    # A proposal can be judged and still have no reward: the machine may have lost every attempt at its task.
    teacher_rewards = [proposal.reward for proposal in proposals if proposal.reward is not None]
    student_rewards = [attempt.reward for attempt in attempts if attempt.reward is not None]
    rollouts = _rollouts(proposals, attempts)
    updates = record.updates
    line: StepMetrics = {
        "step": record.step,
        "valid_rate": _mean(_is_valid(proposal) for proposal in judged),
        "valid_rate_by_kind": {kind: _valid_rate_of(kind, judged) for kind in kinds},
        "novel_rate": _mean(proposal.novel for proposal in valid),
        "novel_rate_by_kind": {kind: _novel_rate_of(kind, valid) for kind in kinds},
        "lines_by_kind": {kind: _lines_of(kind, valid) for kind in kinds},
        "seed_references": _seed_references(proposals),
        "solve_rate": _mean(_is_correct(attempt) for attempt in answered),
        "solve_rate_by_kind": {kind: _solve_rate_of(kind, answered) for kind in kinds},
        "tasks_by_kind": {kind: len(rates) for kind, rates in solve_rates.items()},
        "contested_by_kind": {kind: _contested(rates) for kind, rates in solve_rates.items()},
        "teacher_reward": _mean(teacher_rewards),
        "student_reward": _mean(student_rewards),
        "statuses": {
            "proposals": _status_counts(proposal.proposed.verdict for proposal in all_proposals),
            "attempts": _status_counts(attempt.attempted.verdict for attempt in all_attempts),
        },
        "truncated_rate": _truncated_rates(rollouts),
        "truncated_rate_by_kind": {kind: _truncated_rates_of(kind, rollouts) for kind in kinds},
        "dropped": _dropped(all_proposals, all_attempts),
        "tokens_sampled": _tokens_sampled(all_proposals, all_attempts),
        "tokens_trained": sum(update.tokens for update in updates),
        "tokens_by_phase": _tokens_by_phase(record),
        "response_tokens": {role: _response_tokens(role, rollouts) for role in ROLES},
        "entropy": {role: _entropies(role, rollouts) for role in ROLES},
        "logprob_gap": _per_token(updates, [update.logprob_gap for update in updates]),
        "importance_ratio": {update.member: _ratio(update, update.ratio) for update in updates if update.ratio},
        "loss": {update.member: _finite(update.loss) for update in updates},
        "grad_norm": {update.member: _finite(update.grad_norm) for update in updates},
        "adapter_norm": {update.member: update.adapter_norm for update in updates},
        "skipped": {update.member: update.skipped for update in updates if update.skipped},
        "members": {standing.member.name: _member(standing) for standing in record.population},
        "matches": [_match(game) for game in record.games],
        "outcomes": _outcomes(record.games),
        "par": {kind: record.par[kind] for kind in kinds if kind in record.par},
        "replacements": [_replacement(birth) for birth in record.births],
        "hall": list(record.hall_of_fame),
        "task_bank_size": record.task_bank_size,
        "throughput": throughput(record.work),
        "seconds": _rounded(record.seconds),
        **record.measures.metrics,
    }
    if record.answers:
        line["evals"] = rates(record.answers)
    if held_out := held_out_metrics(record.answers, record.start):
        line["held_out"] = held_out
    return line


def _posed_to(living: set[str], proposals: Sequence[ScoredProposal]) -> list[ScoredProposal]:
    """Returns the tasks of living teachers, or of the task bank, that were posed to living students."""
    authors = {*living, BANK}
    return [
        proposal
        for proposal in proposals
        if proposal.proposed.rollout.member in authors and proposal.proposed.student in living
    ]


def _kind(proposal: ScoredProposal) -> Kind:
    return proposal.proposed.rollout.kind


def _is_valid(proposal: ScoredProposal) -> bool:
    return proposal.proposed.task is not None


def _is_correct(attempt: ScoredAttempt) -> bool:
    return attempt.attempted.verdict.status == "correct"


def _truncated_rates(rollouts: Sequence[Rollout]) -> TruncatedRates:
    """Returns the shares of proposals and of attempts that the token limit ended."""

    def rate(role: Role) -> float | None:
        return _mean(rollout.completion.finish_reason == "length" for rollout in rollouts if rollout.role == role)

    return {"proposals": rate("teacher"), "attempts": rate("student")}


def _truncated_rates_of(kind: Kind, rollouts: Sequence[Rollout]) -> TruncatedRates:
    return _truncated_rates([rollout for rollout in rollouts if rollout.kind == kind])


def _valid_rate_of(kind: Kind, judged: Sequence[ScoredProposal]) -> float | None:
    return _mean(_is_valid(proposal) for proposal in judged if _kind(proposal) == kind)


def _solve_rate_of(kind: Kind, answered: Sequence[ScoredAttempt]) -> float | None:
    return _mean(_is_correct(attempt) for attempt in answered if attempt.attempted.rollout.kind == kind)


def _novel_rate_of(kind: Kind, valid: Sequence[ScoredProposal]) -> float | None:
    return _mean(proposal.novel for proposal in valid if _kind(proposal) == kind)


def _lines_of(kind: Kind, valid: Sequence[ScoredProposal]) -> float | None:
    """Returns the mean number of lines of the tasks' programs."""
    tasks = [proposal.proposed.task for proposal in valid if _kind(proposal) == kind]
    return _mean(len(task.program.splitlines()) for task in tasks if task is not None)


def _seed_references(proposals: Sequence[ScoredProposal]) -> float | None:
    """Returns the share of seed programs among the references that teachers were shown."""
    references = chain.from_iterable(proposal.proposed.references for proposal in proposals)
    return _mean(task.author == AUTHOR for task in references)


def _contested(solve_rates: Sequence[float]) -> int:
    """Returns how many tasks were solved sometimes: only these tell a student's attempts apart."""
    return sum(0 < rate < 1 for rate in solve_rates)


def _solve_rates(proposals: Sequence[ScoredProposal], kind: Kind) -> list[float]:
    """Returns the solve rates of the tasks of `kind` that have one."""
    rates: list[float] = []
    for proposal in proposals:
        if proposal.proposed.rollout.kind == kind and proposal.solve_rate is not None:
            rates.append(proposal.solve_rate)
    return rates


def _status_counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    return dict(sorted(Counter(verdict.status for verdict in verdicts).items()))


def _rollouts(proposals: Sequence[ScoredProposal], attempts: Sequence[ScoredAttempt]) -> list[Rollout]:
    """Returns what was written, proposals first."""
    rollouts = [proposal.proposed.rollout for proposal in proposals]
    return rollouts + [attempt.attempted.rollout for attempt in attempts]


def _tokens_sampled(proposals: Sequence[ScoredProposal], attempts: Sequence[ScoredAttempt]) -> int:
    return sum(len(rollout.completion.token_ids) for rollout in _rollouts(proposals, attempts))


def _tokens_by_phase(record: StepRecord) -> dict[str, int]:
    return {
        "propose": _tokens_sampled(record.played.proposals, ()),
        "solve": _tokens_sampled((), record.played.attempts),
        "learn": sum(update.tokens for update in record.updates),
        "evolve": sum(len(attempt.rollout.completion.token_ids) for attempt in record.held_out),
    }


def _response_tokens(role: Role, rollouts: Sequence[Rollout]) -> float | None:
    return _mean(len(rollout.completion.token_ids) for rollout in rollouts if rollout.role == role)


def _entropies(role: Role, rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns an estimate of each member's entropy in this role in nats per token, by name."""
    # The mean of -log p(token) over tokens drawn from p is an unbiased estimate of p's entropy. It costs nothing, and
    # it is over everything that a member wrote, whereas the learner sees only the samples that have an advantage.
    logprobs: dict[str, list[float]] = {}
    for rollout in rollouts:
        if rollout.role == role:
            logprobs.setdefault(rollout.member, []).extend(rollout.completion.logprobs)
    return {member: -fmean(values) for member, values in sorted(logprobs.items()) if values}


def _dropped(proposals: Sequence[ScoredProposal], attempts: Sequence[ScoredAttempt]) -> int:
    """Returns how many have no reward."""
    rewards = [proposal.reward for proposal in proposals] + [attempt.reward for attempt in attempts]
    return sum(reward is None for reward in rewards)


def _per_token(updates: Sequence[MemberUpdate], values: Sequence[float]) -> float | None:
    """Returns the mean of the updates' values, each weighted by the tokens that it was computed from."""
    tokens = sum(update.tokens for update in updates)
    weighted = sum(value * update.tokens for value, update in zip(values, updates, strict=True))
    return _finite(weighted / tokens) if tokens else None


def _ratio(update: MemberUpdate, ratio: ImportanceRatio) -> RatioMetrics:
    return {
        "mean": _finite(ratio.mean),
        "std": _finite(ratio.std),
        "clipped": _finite(ratio.clipped),
        "gap": _finite(update.logprob_gap),
    }


def _member(standing: Standing) -> MemberMetrics:
    member = standing.member
    return {
        "role": member.role,
        "mu": member.rating.mu,
        "sigma": member.rating.sigma,
        "fitness": standing.fitness,
        "record": [member.wins, member.draws, member.losses],
        "born": member.born,
        "parents": list(member.parents),
    }


def _match(game: Game) -> MatchMetrics:
    return {
        "teacher": game.match.teacher,
        "student": game.match.student,
        "score": game.score,
        "outcome": game.outcome,
    }


def _outcomes(games: Iterable[Game]) -> OutcomeCounts:
    counts = Counter(game.outcome for game in games)
    return {"student": counts["student"], "draw": counts["draw"], "teacher": counts["teacher"]}


def _replacement(birth: Replacement) -> ReplacementMetrics:
    line: ReplacementMetrics = {
        "victim": birth.victim,
        "child": birth.child,
        "parents": list(birth.parents),
        "operator": birth.operator,
        "age": birth.victim_age,
        "games": birth.victim_games,
        "tie": birth.tie,
    }
    if birth.distance is not None:
        line["distance"] = birth.distance
        line["tries"] = birth.tries
    return line


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


def _finite(value: float) -> float | None:
    """Returns `value`, or None if it is not finite; the line's `skipped` says why."""
    # Python would write NaN, which is no JSON: other programs could not read the file.
    return value if math.isfinite(value) else None


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return fmean(numbers) if numbers else None
