"""The learner computes all members' gradients in one joint pass and moves each member with its own optimizer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from redqueen.config import LearningConfig
from redqueen.engine.adapters import Factors
from redqueen.engine.executor import Executor
from redqueen.engine.learning.gradients import ForwardOptions, TokenStats, refuse_mismatch
from redqueen.engine.learning.packing import PromptGroup, WeightedSample, group_by_prompt
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.meter import Meter
from redqueen.records import MemberUpdate, Progress, Sample

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedUpdate:
    """The gradients of an update that no member has taken yet."""

    gradients: Gradients
    stats: Mapping[str, TokenStats]
    """By member, sorted by name."""
    teachers: frozenset[str]
    """The members that wrote as teachers alone."""
    rows: int
    """Tokens that went through the model."""
    seconds: float


class LocalLearner:
    """Trains the members of `bank` by policy gradient. The executor decides where gradients are computed.

    Each member has its own AdamW (Loshchilov & Hutter 2019); members without samples do not move.
    """

    def __init__(
        self, bank: AdapterBank, config: LearningConfig, temperature: float, executor: Executor, meter: Meter
    ) -> None:
        """`temperature` is the temperature of the distribution that is trained. `meter` counts the work."""
        self.bank = bank
        self.config = config
        self.executor = executor
        self.meter = meter
        self.options = ForwardOptions(
            temperature=temperature,
            checkpointing=config.checkpointing is True,
            ratio_cap=config.importance_ratio_cap,
            corrected=config.importance_ratio == "truncated",
            entropy_bonus=config.entropy_bonus,
        )
        self.optimizers: dict[str, torch.optim.AdamW] = {}
        # Counted here as well, because an optimizer keeps its count on the device.
        self._steps_taken: dict[str, int] = {}
        self._kept_gradients: Gradients | None = None

    def reset(self, member: str) -> None:
        """Gives `member` a new optimizer, with moments and a step count of 0. Its weights stay."""
        parameter = self.bank.masters[self.bank.slots[member]]
        optimizer = torch.optim.AdamW(
            [parameter],
            lr=self.config.lr,
            betas=(self.config.beta1, self.config.beta2),
            weight_decay=self.config.weight_decay,
            fused=True,
        )
        # AdamW would allocate them in its first step. On a GPU they would then lie for good in the midst of memory that
        # the KV cache of the next step needs in one piece.
        state: dict[str, Tensor] = {"step": torch.zeros((), device=parameter.device)}
        for moment in _MOMENTS:
            state[moment] = torch.zeros_like(parameter)
        optimizer.state[parameter] = state
        self.optimizers[member] = optimizer
        self._steps_taken[member] = 0

    def forget(self, member: str) -> None:
        """Drops the optimizer of a member that leaves, if it has one."""
        self.optimizers.pop(member, None)
        self._steps_taken.pop(member, None)

    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        """Takes one optimizer step for every member that has samples, and reports on each, sorted by name.

        `lr` replaces the configured learning rate and its warm-up. `progress(done, total)` is called with tokens.
        Raises KeyError if a member has no optimizer, MismatchError if the samples were written with other weights,
        before any member has moved.
        """
        return self.apply(self.compute(samples, progress), lr=lr)

    def compute(self, samples: Sequence[Sample], progress: Progress | None = None) -> ComputedUpdate:
        """Computes what `apply` needs, and changes no weight; other threads may read the weights meanwhile.

        There is memory for one update at a time. Raises what `update` does.

        From here the way goes through `packing.py` (micro-batches) and `gradients.py` (the loss) to the backward pass
        of `LowRankLinear` in `engine/lora/sites.py`, which adds into the rows of `gradients` by slot.
        """
        start = time.perf_counter()
        # Members are looked up first: an unknown one must not leave the others with half an update.
        stats = {member: TokenStats() for member in sorted({sample.member for sample in samples})}
        for member in stats:
            if member not in self.optimizers:
                raise KeyError(member)
        by_slot = {self.bank.slots[member]: member for member in stats}
        gradients = self._cleared_gradients(by_slot)
        groups = self._groups(samples)

        # One call computes all members' gradients. Micro-batches may end in any order, so progress counts tokens.
        total = sum(group.tokens for group in groups)
        done = 0

        def on_batch(tokens: int) -> None:
            nonlocal done
            done += tokens
            if progress:
                progress(done, total)

        budget = self.config.batch_tokens
        for batch in self.executor.accumulate(groups, budget, gradients, self.options, on_batch):
            for slot, tokens in batch.items():
                stats[by_slot[slot]].add(tokens)

        refuse_mismatch({member: stats[member].ratio for member in stats}, self.config.max_logprob_gap)
        students = {sample.member for sample in samples if sample.role == "student"}
        return ComputedUpdate(
            gradients=gradients,
            stats=stats,
            teachers=frozenset(stats) - students,
            rows=total,
            seconds=time.perf_counter() - start,
        )

    def apply(self, computed: ComputedUpdate, *, lr: float | None = None) -> list[MemberUpdate]:
        """Takes the optimizer steps along computed gradients, and reports on each member, sorted by name."""
        with self.meter.training(computed.seconds) as work:
            updates = self._apply(computed, lr)
            work.trained_rows = computed.rows
            work.trained_tokens = sum(update.tokens for update in updates)
        return updates

    def _apply(self, computed: ComputedUpdate, lr: float | None) -> list[MemberUpdate]:
        stats = computed.stats
        # Clipping and the optimizer's step are each member's own, so one member's large gradient scales no other's.
        # The device is waited for once before the steps and once after, however many members there are.
        members = list(stats)
        steps = [computed.gradients.flat[self.bank.slots[member]] for member in members]
        norms = dict(zip(members, _norms(steps), strict=True))
        skipped = {member: _why_skipped(stats[member].tokens, norms[member]) for member in members}
        moved = [member for member in members if not skipped[member]]
        for member, gradient in zip(members, steps, strict=True):
            if member in moved:
                rate = self._learning_rate(member, member in computed.teachers) if lr is None else lr
                self._step(member, gradient, norms[member], rate)
        # Sampling reads copies in the compute dtype. They are renewed for the members that moved.
        self.bank.refresh(*moved)
        sizes = _norms([self.bank.masters[self.bank.slots[member]] for member in members])
        return [
            MemberUpdate(
                member=member,
                loss=stats[member].loss,
                grad_norm=norms[member],
                adapter_norm=size,
                logprob_gap=stats[member].ratio.mean_gap,
                tokens=stats[member].tokens,
                ratio=stats[member].ratio.summary(),
                skipped=skipped[member],
            )
            for member, size in zip(members, sizes, strict=True)
        ]

    def _groups(self, samples: Sequence[Sample]) -> list[PromptGroup]:
        """Groups the samples to compute by prompt; those with advantage 0 count in the normalisation only."""
        # An advantage of 0 has no gradient, and a task that all or no attempts solved gives only such samples, so
        # leaving them out saves whole prompts. Their tokens still count in the weights: leaving them out there would
        # make the step larger the fewer samples carry a signal.
        weighted = [
            WeightedSample(sample, self.bank.slots[sample.member], weight * sample.advantage)
            for sample, weight in zip(samples, token_weights(samples, self.config.loss), strict=True)
            if sample.advantage != 0
        ]
        return list(group_by_prompt(weighted, self.config.batch_tokens))

    def _cleared_gradients(self, slots: Iterable[int]) -> Gradients:
        """Returns gradients that are zero in these slots."""
        # On a GPU they are freed after the update, because sampling needs the memory for its cache. On a CPU they are
        # kept: the page faults of new memory would cost some percent of a small update.
        if self._kept_gradients is None:
            gradients = self.bank.gradients()
            self._kept_gradients = gradients if gradients.flat.device.type == "cpu" else None
            return gradients
        self._kept_gradients.clear(slots)
        return self._kept_gradients

    def _learning_rate(self, member: str, is_teacher: bool) -> float:
        """Returns the learning rate of a member's next step."""
        lr = self.config.lr
        if is_teacher and self.config.teacher_lr is not None:
            lr = self.config.teacher_lr
        # The warm-up counts a member's own steps: a child starts with a small rate whenever it joins the run.
        if self.config.lr_warmup:
            lr *= min(1.0, (self._steps_taken[member] + 1) / self.config.lr_warmup)
        return lr

    def _step(self, member: str, gradient: Tensor, norm: float, lr: float) -> None:
        """Clips one member's gradient of this norm and takes a step of this learning rate along it."""
        if norm > self.config.clip:
            gradient.mul_(self.config.clip / norm)
        optimizer = self.optimizers[member]
        group = optimizer.param_groups[0]
        # The optimizer's only parameter is the member's row of the masters.
        (parameter,) = group["params"]
        group["lr"] = lr
        # The gradient lies in memory that all members share, so the parameter holds it only during the step.
        parameter.grad = gradient
        optimizer.step()
        parameter.grad = None
        self._steps_taken[member] += 1

    def state(self, member: str) -> dict[str, Tensor]:
        """Returns the step count and moments of `member`'s optimizer, by layer; empty before its first step."""
        # By layer and at the member's own rank, as its weights are saved: the bank's layout may differ in another run.
        optimizer = self.optimizers[member]
        saved = optimizer.state[optimizer.param_groups[0]["params"][0]]
        if not self._steps_taken[member]:
            return {}
        state: dict[str, Tensor] = {"step": saved["step"].detach().cpu().clone()}
        for moment in _MOMENTS:
            for name, factors in self.bank.unpack(member, saved[moment]).items():
                state[f"{name}.a.{moment}"] = factors.a
                state[f"{name}.b.{moment}"] = factors.b
        return state

    def load_state(self, member: str, state: Mapping[str, Tensor]) -> None:
        """Gives `member` a new optimizer with a saved state, as `state` returns it."""
        self.reset(member)
        if not state:
            return
        optimizer = self.optimizers[member]
        fresh = optimizer.state[optimizer.param_groups[0]["params"][0]]
        fresh["step"].copy_(state["step"])
        for moment in _MOMENTS:
            factors = {
                name: Factors(state[f"{name}.a.{moment}"], state[f"{name}.b.{moment}"]) for name in self.bank.places
            }
            fresh[moment].copy_(self.bank.pack(factors))
        self._steps_taken[member] = int(state["step"])


def token_weights(samples: Sequence[Sample], loss: Literal["token_mean", "sequence_mean"]) -> list[float]:
    """Returns one weight for each sample: that of each of its tokens in the loss.

    token_mean: 1 / (the completion tokens of the sample's member).
    sequence_mean: 1 / (the samples of the sample's member x the sample's tokens).
    """
    # The sums run over the samples of one member: its update must not depend on the other members in the batch.
    tokens: dict[str, int] = {}
    count: dict[str, int] = {}
    for sample in samples:
        tokens[sample.member] = tokens.get(sample.member, 0) + len(sample.token_ids)
        count[sample.member] = count.get(sample.member, 0) + 1
    if loss == "token_mean":
        return [1 / tokens[sample.member] for sample in samples]
    return [1 / (count[sample.member] * len(sample.token_ids)) for sample in samples]


def _norms(vectors: Sequence[Tensor]) -> list[float]:
    """Returns the Euclidean norm of each vector. Waits for the device once, for all of them."""
    return torch.stack([vector.norm() for vector in vectors]).tolist() if vectors else []


def _why_skipped(tokens: int, norm: float) -> str:
    """Returns why a member with so many trained tokens and this gradient takes no step; empty if it takes one."""
    # A step with a zero gradient would not be harmless: AdamW would still decay the weights and follow its moments. A
    # gradient that is not finite would destroy the weights and the moments for good.
    if not tokens:
        return "every advantage was zero"
    return "" if math.isfinite(norm) else "non-finite gradient"
