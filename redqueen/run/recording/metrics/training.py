"""Metrics: what the members sampled and learned, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redqueen.base.intervals import mean
from redqueen.engine.work import Work
from redqueen.records import ROLES, Attempted, Kind, MemberUpdate, Role, Rollout
from redqueen.run.recording.metrics.metric import (
    CountedStep,
    Curves,
    Line,
    MetricChart,
    Metrics,
    at,
    by_key,
    named,
    one,
    several,
)

METRICS = Metrics("training")


def _mean_member(lines: Sequence[Line], name: str) -> Curves:
    """Returns the mean over the members in each role of a value by role and member."""
    curves: Curves = {}
    for role in named(lines, name):
        curves[role] = tuple(mean((at(line, name, role) or {}).values()) for line in lines)
    return curves


@METRICS.drawn(
    "nats per token",
    "entropy",
    "Entropy by role",
    "Mean over the living members of the negative log-probability of a sampled token.",
    _mean_member,
)
def entropy(step: CountedStep) -> dict[Role, dict[str, float]]:
    """Nats per token by role and member: mean negative log-probability of what it sampled, after temperature, `top_p`
    and `top_k`.
    """
    # The mean of -log p(token) over tokens drawn from p is an unbiased estimate of p's entropy. It costs nothing, and
    # it is over everything that a member wrote, whereas the learner sees only the samples that have an advantage.
    entropies: dict[Role, dict[str, float]] = {}
    for role in ROLES:
        logprobs: dict[str, list[float]] = {}
        for rollout in step.rollouts:
            if rollout.role == role:
                logprobs.setdefault(rollout.member, []).extend(rollout.completion.logprobs)
        means = {member: mean(values) for member, values in sorted(logprobs.items())}
        entropies[role] = {member: -value for member, value in means.items() if value is not None}
    return entropies


def _truncated(rollouts: Iterable[Rollout], role: Role) -> float | None:
    return mean(rollout.completion.finish_reason == "length" for rollout in rollouts if rollout.role == role)


def _truncated_rates(rollouts: Sequence[Rollout]) -> dict[str, float | None]:
    return {"proposals": _truncated(rollouts, "teacher"), "attempts": _truncated(rollouts, "student")}


@METRICS.drawn(
    "share",
    "truncated",
    "Texts cut off by the token limit",
    "Proposals and attempts that did not end by themselves; such a text counts as malformed.",
    by_key,
)
def truncated_rate(step: CountedStep) -> dict[str, float | None]:
    """Shares of `proposals` and `attempts` that the token limit cut off."""
    return _truncated_rates(step.rollouts)


@METRICS.add("share")
def truncated_rate_by_kind(step: CountedStep) -> dict[Kind, dict[str, float | None]]:
    """The same by kind."""
    return step.by_kind(step.rollouts, _truncated_rates)


@METRICS.drawn(
    "tokens",
    "response-tokens",
    "Length of the texts by role",
    "Mean length of what living members wrote: proposals of teachers and attempts of students.",
    by_key,
)
def response_tokens(step: CountedStep) -> dict[Role, float | None]:
    """By role: mean length of a text."""
    lengths: dict[Role, list[int]] = {role: [] for role in ROLES}
    for rollout in step.rollouts:
        lengths[rollout.role].append(len(rollout.completion.token_ids))
    return {role: mean(tokens) for role, tokens in lengths.items()}


@METRICS.add(
    "tokens",
    MetricChart("work-tokens", "Work of the students", "Mean length of the work before an answer.", one("work")),
    optional=True,
)
def work_tokens(step: CountedStep) -> float | None:
    """Mean length of the work in an attempt, 0 without any: its share of the text's characters, times its tokens. Only
    if the prompts ask for work.
    """
    if not step.record.with_work:
        return None
    return mean(_work_tokens(attempt.attempted) for attempt in step.attempts)


@METRICS.add(
    "share",
    MetricChart(
        "work",
        "Attempts with work, and with correct work",
        "Attempts that work the answer out, and the share of these whose work is what the program does, line by line. "
        "Harder tasks lower that share.",
        several(work="work_rate", faithful="faithful_rate"),
    ),
    optional=True,
)
def work_rate(step: CountedStep) -> float | None:
    """Attempts with work / attempts. Only if the prompts ask for work."""
    return mean(bool(attempt.attempted.work) for attempt in step.attempts) if step.record.with_work else None


@METRICS.add("share", optional=True)
def faithful_rate(step: CountedStep) -> float | None:
    """Attempts whose work is what the program does, line by line / attempts with work at tasks where that is known:
    those with one right answer, in a language that traces its programs.
    """
    true = step.record.true_work
    works = [attempt.attempted for attempt in step.attempts if attempt.attempted.work]
    return mean(attempt.work == true[attempt.task.id] for attempt in works if attempt.task.id in true)


def _work_tokens(attempted: Attempted) -> float:
    completion = attempted.rollout.completion
    return len(completion.token_ids) * len(attempted.work) / len(completion.text) if completion.text else 0.0


@METRICS.drawn(
    "tokens",
    "tokens",
    "Tokens a step",
    "Tokens sampled and trained on.",
    several(sampled="tokens_sampled", trained="tokens_trained"),
)
def tokens_sampled(step: CountedStep) -> int:
    """Tokens of proposals and attempts."""
    tokens = tokens_by_phase(step)
    return tokens["propose"] + tokens["solve"]


@METRICS.add("tokens")
def tokens_trained(step: CountedStep) -> int:
    """Tokens that were trained on."""
    return sum(update.tokens for update in step.record.updates)


@METRICS.drawn(
    "tokens",
    "tokens-by-phase",
    "Tokens by phase",
    "Tokens sampled to propose, to solve and for held-out scores, and trained on.",
    by_key,
)
def tokens_by_phase(step: CountedStep) -> dict[str, int]:
    """`propose` and `solve` (together `tokens_sampled`), `learn`, and `evolve` for held-out attempts."""
    return {
        "propose": _tokens(proposal.proposed.rollout for proposal in step.record.played.proposals),
        "solve": _tokens(attempt.attempted.rollout for attempt in step.all_attempts),
        "learn": tokens_trained(step),
        "evolve": _tokens(attempt.rollout for attempt in step.record.held_out),
    }


def _tokens(rollouts: Iterable[Rollout]) -> int:
    return sum(len(rollout.completion.token_ids) for rollout in rollouts)


@METRICS.add("seconds", MetricChart("seconds", "Seconds by phase", "Wall time of the step and of its phases.", by_key))
def seconds(step: CountedStep) -> dict[str, float]:
    """Wall time by phase, and `total`. `propose` ends with the last proposal, `solve` is the rest of that stream. With
    `learning.max_staleness=1`, `learn` is what is left when the next step has been sampled.
    """
    return {name: round(value, 3) for name, value in step.record.seconds.items()}


@METRICS.add("")
def throughput(step: CountedStep) -> dict[str, dict[str, float | None]]:
    """By phase (`play`: propose and solve; `learn`, `evolve`, `evaluate`), of the time in which it sampled or trained:
    `sampled_per_second` (tokens), `trained_rows_per_second` (tokens, prompts too), `prompt_tokens` (a shared prompt
    once), `decode_rows` (mean unfinished rows of a process's decode step), `mfu` (FLOPs of the base's products / the
    GPU's bf16 peak), `device_gib` and `host_gib` (peaks of the GPU's tensors and of the main process).
    """
    work = step.record.work
    return {phase: _throughput(done) for phase, done in work.items() if done.sampling_s or done.training_s}


def _throughput(work: Work) -> dict[str, float | None]:
    seconds = work.sampling_s + work.training_s
    return {
        "sampled_per_second": _per(work.sampled_tokens, work.sampling_s),
        "prompt_tokens": work.prompt_tokens,
        "decode_rows": _per(work.sampled_tokens, work.decode_steps),
        "trained_rows_per_second": _per(work.trained_rows, work.training_s),
        "mfu": None if work.peak_flops is None else round(work.flops / seconds / work.peak_flops, 4),
        "device_gib": None if work.device_bytes is None else _gib(work.device_bytes),
        "host_gib": _gib(work.host_bytes),
    }


def _per(count: float, by: float) -> float | None:
    return round(count / by, 2) if count and by else None


def _gib(size: int) -> float:
    return round(size / 2**30, 3)


def _by_member(step: CountedStep, value: Callable[[MemberUpdate], float]) -> dict[str, float | None]:
    return {update.member: _finite(value(update)) for update in step.record.updates}


def _finite(value: float) -> float | None:
    """Returns `value`, or None if it is not finite; the line's `skipped` says why."""
    # Python would write NaN, which is no JSON: other programs could not read the file.
    return value if math.isfinite(value) else None


@METRICS.add("loss")
def loss(step: CountedStep) -> dict[str, float | None]:
    """By member."""
    return _by_member(step, lambda update: update.loss)


def _by_role(lines: Sequence[Line], name: str) -> Curves:
    """Returns the mean over the members of each role of a value that the lines have by member."""
    columns: dict[str, dict[int, list[float]]] = {}
    roles: dict[str, str] = {}
    for index, line in enumerate(lines):
        # `members` are those after the births. Who was replaced in this step is known from the lines before.
        roles.update({member: values["role"] for member, values in (line.get("members") or {}).items()})
        for member, value in (line.get(name) or {}).items():
            if value is not None and member in roles:
                columns.setdefault(roles[member], {}).setdefault(index, []).append(value)
    curves: Curves = {}
    for role in sorted(columns, reverse=True):
        by_line = columns[role]
        curves[role] = tuple(mean(by_line.get(index, ())) for index in range(len(lines)))
    return curves


@METRICS.drawn(
    "norm",
    "gradient-norm",
    "Norm of the gradient by role",
    "Mean over the living members that were updated, before clipping.",
    _by_role,
)
def grad_norm(step: CountedStep) -> dict[str, float | None]:
    """By member, before clipping."""
    return _by_member(step, lambda update: update.grad_norm)


@METRICS.add("norm")
def adapter_norm(step: CountedStep) -> dict[str, float]:
    """By member."""
    return {update.member: update.adapter_norm for update in step.record.updates}


@METRICS.add("")
def skipped(step: CountedStep) -> dict[str, str]:
    """By member: why it was not updated."""
    return {update.member: update.skipped for update in step.record.updates if update.skipped}


@METRICS.drawn(
    "nats per token",
    "logprob-gap",
    "Sampler and learner apart",
    "Mean absolute difference between the log-probabilities of the sampler and of the learner.",
    one("gap"),
)
def logprob_gap(step: CountedStep) -> float | None:
    """Nats per token: mean absolute difference of sampler's and learner's log-probabilities of trained tokens."""
    updates = step.record.updates
    tokens = tokens_trained(step)
    return _finite(sum(update.logprob_gap * update.tokens for update in updates) / tokens) if tokens else None


def _largest(lines: Sequence[Line], name: str) -> Curves:
    """Returns the largest spread and the largest truncated share of the members' importance ratios."""

    def largest(line: Line, key: str) -> float | None:
        ratios = (line.get(name) or {}).values()
        return max((ratio[key] for ratio in ratios if ratio[key] is not None), default=None)

    return {
        "spread": tuple(largest(line, "std") for line in lines),
        "truncated": tuple(largest(line, "clipped") for line in lines),
    }


@METRICS.drawn(
    "ratio",
    "importance-ratio",
    "Importance ratio",
    "Learner's / sampler's probability of a trained token: spread and truncated share, of the member that has "
    "the most.",
    _largest,
)
def importance_ratio(step: CountedStep) -> dict[str, dict[str, Any]]:
    """By trained member: `mean`, `std` and share above the cap (`clipped`) of the
    [importance ratio](../ALGORITHM.md#learning), applied or not, and its own `logprob_gap` (`gap`).
    """
    ratios: dict[str, dict[str, Any]] = {}
    for update in step.record.updates:
        if update.ratio:
            ratios[update.member] = {
                "mean": _finite(update.ratio.mean),
                "std": _finite(update.ratio.std),
                "clipped": _finite(update.ratio.clipped),
                "gap": _finite(update.logprob_gap),
            }
    return ratios


@METRICS.drawn(
    "samples",
    "dropped",
    "Samples without a reward",
    "Faults of the machine, and attempts at tasks that were withdrawn.",
    one("dropped"),
)
def dropped(step: CountedStep) -> int:
    """Proposals and attempts without a reward: faults of the machine, attempts at withdrawn tasks."""
    rewards = [proposal.reward for proposal in step.all_proposals]
    rewards += [attempt.reward for attempt in step.all_attempts]
    return sum(reward is None for reward in rewards)
