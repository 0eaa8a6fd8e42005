"""The embedded learner: one joint forward and backward pass for all members that played, an optimizer for each.

Shape suffixes: R rows, T tokens, N scored tokens, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.adapters.bank import AdapterBank
from redqueen.config import LearningConfig
from redqueen.policy.base import Base
from redqueen.policy.losses import TokenLogprobs, token_weights
from redqueen.records import MemberUpdate, Sample

Progress = Callable[[int, int], None]
_STATE = ("step", "exp_avg", "exp_avg_sq")


@dataclass(slots=True)
class _Tally:
    """Sums over one member's trained tokens."""

    loss: float = 0.0
    entropy: float = 0.0
    gap: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Weighted:
    sample: Sample
    slot: int
    weight: float  # of each token, the advantage included

    @property
    def width(self) -> int:
        return len(self.sample.prompt_ids) + len(self.sample.token_ids) - 1


class LocalLearner:
    """Policy gradient on the members of `bank`. Each member has its own AdamW; those without samples do not move."""

    def __init__(self, base: Base, bank: AdapterBank, config: LearningConfig, temperature: float) -> None:
        self.base, self.bank, self.config, self.temperature = base, bank, config, temperature
        self.optimizers: dict[str, torch.optim.AdamW] = {}
        if config.checkpointing:
            base.model.gradient_checkpointing_enable({"use_reentrant": False})

    def reset(self, member: str) -> None:
        """A fresh optimizer for `member`'s current weights; no moment or step count survives."""
        self.optimizers[member] = torch.optim.AdamW(
            self.bank.masters(member),
            lr=self.config.lr,
            betas=(self.config.beta1, self.config.beta2),
            weight_decay=self.config.weight_decay,
            fused=True,
        )

    def forget(self, member: str) -> None:
        """Drops the optimizer of a member that has been replaced."""
        del self.optimizers[member]

    def update(self, samples: Sequence[Sample], progress: Progress | None = None) -> list[MemberUpdate]:
        """One optimizer step of every member that has samples. Raises KeyError for an unknown member."""
        weights = token_weights(samples, self.config.loss)
        active = [
            _Weighted(sample, self.bank.slots[sample.member], weight * sample.advantage)
            for sample, weight in zip(samples, weights, strict=True)
            if sample.advantage != 0
        ]
        tallies = {sample.member: _Tally() for sample in samples}
        self.bank.zero_grad()
        # transformers recomputes activations in training mode only; nothing else depends on the mode here
        self.base.model.train(self.config.checkpointing)
        done, total = 0, sum(item.width for item in active)
        for batch in _micro_batches(active, self.config.batch_tokens):
            self._accumulate(batch, tallies)
            done += sum(item.width for item in batch)
            if progress:
                progress(done, total)
        self.base.model.eval()
        updates = [self._step(member, tallies[member]) for member in sorted(tallies)]
        self.bank.zero_grad()
        return updates

    def _accumulate(self, batch: list[_Weighted], tallies: Mapping[str, _Tally]) -> None:
        """Adds the gradients of one micro-batch and what its tokens say about their members."""
        device = self.base.device
        width = max(item.width for item in batch)
        ids_RT = torch.zeros(len(batch), width, dtype=torch.long)
        places: list[Tensor] = []
        for r, item in enumerate(batch):
            sequence = item.sample.prompt_ids + item.sample.token_ids
            ids_RT[r, : item.width] = torch.tensor(sequence[:-1])
            places.append(torch.arange(len(item.sample.prompt_ids) - 1, item.width) + r * width)
        target_N = torch.tensor([t for item in batch for t in item.sample.token_ids], device=device)
        old_N = torch.tensor([x for item in batch for x in item.sample.logprobs], device=device)
        weight_N = torch.tensor([item.weight for item in batch for _ in item.sample.token_ids], device=device)
        with self.bank.routing.rows([item.slot for item in batch]), torch.enable_grad():
            # padding is on the right, where a causal model's real tokens never look: no mask is needed
            hidden_RTH = self.base.model.base_model(input_ids=ids_RT.to(device), use_cache=False).last_hidden_state
            hidden_NH = hidden_RTH.flatten(0, 1)[torch.cat(places).to(device)]
            logp_N, entropy_N = TokenLogprobs.apply(
                hidden_NH, self.base.model.get_output_embeddings().weight, target_N, self.temperature
            )
            loss_N = -weight_N * logp_N
            loss_N.sum().backward()
        loss_N, gap_N = loss_N.detach(), (logp_N.detach() - old_N).abs()
        start = 0
        for item in batch:
            tally, own = tallies[item.sample.member], slice(start, start + len(item.sample.token_ids))
            tally.loss += float(loss_N[own].sum())
            tally.entropy += float(entropy_N[own].sum())
            tally.gap += float(gap_N[own].sum())
            tally.tokens += own.stop - own.start
            start = own.stop

    def _step(self, member: str, tally: _Tally) -> MemberUpdate:
        masters = self.bank.masters(member)
        optimizer, skipped, norm = self.optimizers[member], "", 0.0
        if not tally.tokens:
            skipped = "every advantage was zero"
        else:
            gradients = self.bank.gradients(member)
            norm = float(torch.nn.utils.get_total_norm(gradients))
            if norm != norm or norm == float("inf"):
                skipped = "non-finite gradient"
            else:
                shrink = min(1.0, self.config.clip / (norm + 1e-12))
                # the optimizer's own parameters are the same memory as `masters`
                for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients, strict=True):
                    parameter.grad = gradient.mul_(shrink)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                self.bank.refresh(member)
        count = max(tally.tokens, 1)
        return MemberUpdate(
            member,
            loss=tally.loss,
            grad_norm=norm,
            adapter_norm=float(torch.nn.utils.get_total_norm(masters)),
            entropy=tally.entropy / count,
            logprob_gap=tally.gap / count,
            tokens=tally.tokens,
            skipped=skipped,
        )

    def state(self, member: str) -> dict[str, Tensor]:
        """The moments and step counts of `member`'s optimizer, by site; empty before its first step."""
        optimizer = self.optimizers[member]
        return {
            f"{name}.{key}": value.detach().cpu().clone()
            for name, parameter in zip(self._names(), optimizer.param_groups[0]["params"], strict=True)
            for key, value in optimizer.state[parameter].items()
        }

    def load_state(self, member: str, state: Mapping[str, Tensor]) -> None:
        """Puts back what `state` returned."""
        self.reset(member)
        if not state:
            return
        optimizer = self.optimizers[member]
        for name, parameter in zip(self._names(), optimizer.param_groups[0]["params"], strict=True):
            optimizer.state[parameter] = {key: state[f"{name}.{key}"].to(parameter.device, copy=True) for key in _STATE}

    def _names(self) -> list[str]:
        return [f"{name}.{factor}" for name in self.bank.sites for factor in ("a", "b")]


def _micro_batches(items: Sequence[_Weighted], budget: int) -> Iterator[list[_Weighted]]:
    """Items of like length, at most `budget` padded tokens together (one item may exceed it), sorted by slot."""
    batch: list[_Weighted] = []
    for item in sorted(items, key=lambda item: item.width):
        if batch and item.width * (len(batch) + 1) > budget:
            yield sorted(batch, key=lambda i: i.slot)
            batch = []
        batch.append(item)
    if batch:
        yield sorted(batch, key=lambda i: i.slot)
