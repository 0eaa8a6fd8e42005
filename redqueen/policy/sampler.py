"""The embedded sampler: one mixed batch whose rows belong to different members, over a transformers model.

Shape suffixes: R rows of a batch, P unique prompts in it, T tokens, V vocabulary, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from redqueen import streams
from redqueen.adapters.bank import AdapterBank
from redqueen.config import SamplingConfig
from redqueen.policy.base import Base
from redqueen.policy.cache import SlabCache
from redqueen.records import Completion, Prompt, Request

Progress = Callable[[int, int], None]
# a batch is shrunk when at most this share of its rows is still being written
SHRINK = 0.6


@dataclass(slots=True)
class _Row:
    index: int
    request: Request
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that continue one prompt of one member."""

    slot: int
    prompt_ids: tuple[int, ...]
    rows: list[_Row]


class LocalSampler:
    """Samples from the members of `bank`, in process, with the weights that the learner moves."""

    def __init__(self, base: Base, bank: AdapterBank, config: SamplingConfig) -> None:
        self.base, self.bank, self.config = base, bank, config

    @torch.no_grad()
    def sample(self, requests: Sequence[Request], progress: Progress | None = None) -> list[Completion]:
        """Completions in the order of `requests`. Raises KeyError for a member that the bank does not hold."""
        results: dict[int, Completion] = {}
        for groups in self._batches(self._groups(requests)):
            self._decode(groups)
            for group in groups:
                for row in group.rows:
                    results[row.index] = self._completion(group, row)
            if progress:
                progress(len(results), len(requests))
        return [results[i] for i in range(len(requests))]

    def _groups(self, requests: Sequence[Request]) -> list[_Group]:
        groups: dict[tuple[str, Prompt], _Group] = {}
        for index, request in enumerate(requests):
            name = (request.member, request.prompt)
            if name not in groups:
                groups[name] = _Group(self.bank.slots[request.member], encode(self.base, request.prompt), [])
            groups[name].rows.append(_Row(index, request))
        return list(groups.values())

    def _batches(self, groups: list[_Group]) -> Iterator[list[_Group]]:
        """Batches of like length, so that little is padded; within one, rows are sorted by slot."""
        batch: list[_Group] = []
        for group in sorted(groups, key=lambda g: (g.rows[0].request.max_tokens, len(g.prompt_ids))):
            if batch and sum(len(g.rows) for g in [*batch, group]) > self.config.batch_rows:
                yield sorted(batch, key=lambda g: g.slot)
                batch = []
            batch.append(group)
        if batch:
            yield sorted(batch, key=lambda g: g.slot)

    def _decode(self, groups: list[_Group]) -> None:
        device = self.base.device
        rows = [row for group in groups for row in group.rows]
        slots = [group.slot for group in groups for _ in group.rows]
        room = max(row.request.max_tokens for row in rows)
        uniforms_RT = torch.from_numpy(np.stack([streams.uniforms(room, *row.request.seed) for row in rows])).to(
            device, torch.float32
        )
        hidden_PH, prefilled, mask_PT = self._prefill(groups)
        owner_R = torch.tensor([p for p, group in enumerate(groups) for _ in group.rows], device=device)
        cache = SlabCache.fan_out(prefilled, owner_R, room)
        del prefilled
        mask_RT = torch.cat([mask_PT[owner_R], mask_PT.new_ones(len(rows), room)], dim=1)
        position_R = mask_PT.sum(1)[owner_R]
        hidden_RH = hidden_PH[owner_R]
        width = mask_PT.shape[1]
        for step in range(room):
            token_R, logprob_R = draw(
                self.base.model.get_output_embeddings()(hidden_RH),
                uniforms_RT[:, step],
                self.config.temperature,
            )
            for row, token, logprob in zip(rows, token_R.tolist(), logprob_R.tolist(), strict=True):
                self._extend(row, token, logprob)
            live = [i for i, row in enumerate(rows) if not row.finished and len(row.tokens) < row.request.max_tokens]
            if not live or step == room - 1:
                return
            if len(live) <= SHRINK * len(rows):
                rows, slots = [rows[i] for i in live], [slots[i] for i in live]
                live_R = torch.tensor(live, device=device)
                cache.keep(live_R)
                uniforms_RT, mask_RT, position_R, token_R = (
                    t[live_R] for t in (uniforms_RT, mask_RT, position_R, token_R)
                )
            with self.bank.routing.rows(slots):
                hidden_RH = self.base.model.base_model(
                    input_ids=token_R[:, None],
                    attention_mask=mask_RT[:, : width + step + 1],
                    position_ids=position_R[:, None] + step,
                    past_key_values=cache,
                    use_cache=True,
                ).last_hidden_state[:, -1]

    def _prefill(self, groups: list[_Group]) -> tuple[Tensor, DynamicCache, Tensor]:
        """Hidden states of the prompts' last tokens [P, H], their cache, and the mask of left padding [P, T]."""
        device = self.base.device
        width = max(len(group.prompt_ids) for group in groups)
        ids_PT = torch.zeros(len(groups), width, dtype=torch.long)
        mask_PT = torch.zeros(len(groups), width, dtype=torch.long)
        for p, group in enumerate(groups):
            ids_PT[p, width - len(group.prompt_ids) :] = torch.tensor(group.prompt_ids)
            mask_PT[p, width - len(group.prompt_ids) :] = 1
        ids_PT, mask_PT = ids_PT.to(device), mask_PT.to(device)
        cache = DynamicCache()
        with self.bank.routing.rows([group.slot for group in groups]):
            out = self.base.model.base_model(
                input_ids=ids_PT,
                attention_mask=mask_PT,
                position_ids=(mask_PT.cumsum(1) - 1).clamp(min=0),
                past_key_values=cache,
                use_cache=True,
            )
        return out.last_hidden_state[:, -1].contiguous(), cache, mask_PT

    def _extend(self, row: _Row, token: int, logprob: float) -> None:
        if row.finished or len(row.tokens) >= row.request.max_tokens:
            return
        row.tokens.append(token)
        row.logprobs.append(logprob)
        if token in self.base.end_ids:
            row.finished = True
            return
        stop = row.request.prompt.stop
        if stop:
            # one token is at least one character: the tail holds every stop string that this token can complete
            tail = self.base.tokenizer.decode(row.tokens[-(max(map(len, stop)) + 1) :])
            row.finished = any(s in tail for s in stop)

    def _completion(self, group: _Group, row: _Row) -> Completion:
        prompt = row.request.prompt
        text = self.base.tokenizer.decode(row.tokens, skip_special_tokens=True)
        cut = min((at for s in prompt.stop if (at := text.find(s)) >= 0), default=len(text))
        return Completion(
            group.prompt_ids, tuple(row.tokens), tuple(row.logprobs), prompt.prefix + text[:cut], row.finished
        )


def encode(base: Base, prompt: Prompt) -> tuple[int, ...]:
    """Token ids of a prompt: raw text, or one user message through the model's chat template."""
    if not prompt.chat:
        return tuple(base.tokenizer(prompt.text + prompt.prefix).input_ids)
    text = base.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt.text}], tokenize=False, add_generation_prompt=True
    )
    return tuple(base.tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids)


def draw(logits_RV: Tensor, uniform_R: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Inverse-CDF sampling: tokens [R] and their log-probabilities [R] at `temperature`."""
    scaled_RV = logits_RV.float() / temperature
    lse_R = scaled_RV.logsumexp(-1)
    cdf_RV = (scaled_RV - lse_R[:, None]).exp_().cumsum_(-1)
    # the last entry is 1 up to rounding: scale, so that no uniform falls past the end
    token_R = torch.searchsorted(cdf_RV, (uniform_R * cdf_RV[:, -1])[:, None], right=True)[:, 0]
    token_R = token_R.clamp_(max=logits_RV.shape[-1] - 1)
    return token_R, scaled_RV.gather(1, token_R[:, None])[:, 0] - lse_R
