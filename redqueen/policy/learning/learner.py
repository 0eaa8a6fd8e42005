"""The learner: one joint forward and backward pass for all members that played, an optimizer for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from redqueen.adapters.factors import Factors
from redqueen.config import LearningConfig
from redqueen.policy.executor import Executor
from redqueen.policy.learning.gradients import Pass, Tally
from redqueen.policy.learning.packing import Weighted, split
from redqueen.policy.learning.token_weights import token_weights
from redqueen.policy.lora.adapter_bank import AdapterBank, Gradients
from redqueen.records import MemberUpdate, Sample

Progress = Callable[[int, int], None]
_MOMENTS = ("exp_avg", "exp_avg_sq")


class LocalLearner:
    """Policy gradient on the members of `bank`. Each member has its own AdamW; those without samples do not move."""

    def __init__(self, bank: AdapterBank, config: LearningConfig, temperature: float, executor: Executor) -> None:
        self.bank = bank
        self.config = config
        self.executor = executor
        self.how = Pass(temperature, config.checkpointing)
        self.optimizers: dict[str, torch.optim.AdamW] = {}
        self._kept: Gradients | None = None

    def reset(self, member: str) -> None:
        """A fresh optimizer for `member`'s current weights; no moment or step count survives."""
        self.optimizers[member] = torch.optim.AdamW(
            [self.bank.masters[self.bank.slots[member]]],
            lr=self.config.lr,
            betas=(self.config.beta1, self.config.beta2),
            weight_decay=self.config.weight_decay,
            fused=True,
        )

    def forget(self, member: str) -> None:
        """Drops the optimizer of a member that has been replaced, if it has one."""
        self.optimizers.pop(member, None)

    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        """One optimizer step of every member that has samples, at `lr` if that is given, else at the configured rate.

        Raises KeyError for a member that is unknown or has no optimizer.
        """
        weights = token_weights(samples, self.config.loss)
        active = [
            Weighted(sample, self.bank.slots[sample.member], weight * sample.advantage)
            for sample, weight in zip(samples, weights, strict=True)
            if sample.advantage != 0
        ]
        tallies = {sample.member: Tally() for sample in samples}
        names = {self.bank.slots[member]: member for member in tallies}
        gradients = self._gradients(names)
        packs = list(split(active, self.config.batch_tokens))
        done, total = 0, sum(pack.tokens for pack in packs)

        def report(tokens: int) -> None:
            nonlocal done
            done += tokens
            if progress:
                progress(done, total)

        for by_slot in self.executor.accumulate(packs, self.config.batch_tokens, gradients, self.how, report):
            for slot, tally in by_slot.items():
                tallies[names[slot]].add(tally)
        updates = [self._step(m, tallies[m], gradients.flat[self.bank.slots[m]], lr) for m in sorted(tallies)]
        self.bank.refresh(*(update.member for update in updates if not update.skipped))
        return updates

    def _gradients(self, slots: Iterable[int]) -> Gradients:
        """Zero in these slots. On a GPU they are gone after the update, for sampling needs the memory for its cache; on
        a CPU, where new pages would cost some percent of a small update, they stay.
        """
        if self._kept is None:
            gradients = self.bank.gradients()
            self._kept = gradients if gradients.flat.device.type == "cpu" else None
            return gradients
        self._kept.clear(slots)
        return self._kept

    def _step(self, member: str, tally: Tally, gradient: Tensor, lr: float | None) -> MemberUpdate:
        norm, skipped = 0.0, ""
        if not tally.tokens:
            skipped = "every advantage was zero"
        else:
            norm = float(gradient.norm())
            if norm != norm or norm == float("inf"):
                skipped = "non-finite gradient"
            else:
                if norm > self.config.clip:
                    gradient.mul_(self.config.clip / norm)
                self._move(member, gradient, lr)
        count = max(tally.tokens, 1)
        return MemberUpdate(
            member=member,
            loss=tally.loss,
            grad_norm=norm,
            adapter_norm=float(self.bank.masters[self.bank.slots[member]].norm()),
            entropy=tally.entropy / count,
            logprob_gap=tally.gap / count,
            tokens=tally.tokens,
            skipped=skipped,
        )

    def _move(self, member: str, gradient: Tensor, lr: float | None) -> None:
        optimizer = self.optimizers[member]
        group = optimizer.param_groups[0]
        # the optimizer's own parameter is the member's row of the masters
        (parameter,) = group["params"]
        if lr is None:
            lr = self.config.lr
            if self.config.lr_warmup:
                taken = float(optimizer.state[parameter].get("step", 0))
                lr *= min(1.0, (taken + 1) / self.config.lr_warmup)
        group["lr"] = lr
        parameter.grad = gradient
        optimizer.step()
        parameter.grad = None

    def state(self, member: str) -> dict[str, Tensor]:
        """The step count and moments of `member`'s optimizer, by layer; empty before its first step."""
        optimizer = self.optimizers[member]
        own = optimizer.state[optimizer.param_groups[0]["params"][0]]
        if not own:
            return {}
        made: dict[str, Tensor] = {"step": own["step"].detach().cpu().clone()}
        for moment in _MOMENTS:
            for name, factors in self.bank.unpack(member, own[moment]).items():
                made |= {f"{name}.a.{moment}": factors.a, f"{name}.b.{moment}": factors.b}
        return made

    def load_state(self, member: str, state: Mapping[str, Tensor]) -> None:
        """Puts back what `state` returned."""
        self.reset(member)
        if not state:
            return
        optimizer = self.optimizers[member]
        parameter = optimizer.param_groups[0]["params"][0]
        own: dict[str, Tensor] = {"step": state["step"].to(parameter.device, copy=True)}
        for moment in _MOMENTS:
            own[moment] = self.bank.pack(
                {name: Factors(state[f"{name}.a.{moment}"], state[f"{name}.b.{moment}"]) for name in self.bank.places}
            )
        optimizer.state[parameter] = own
