"""Texts of many members, sampled as a run does, against transformers' own forward pass over the same tokens."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch

from benchmarks.gpu.shapes import Letters, Shape, random_members, random_model
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.decoder import decoder_of
from redqueen.policy.sampling.completion import Row
from redqueen.policy.sampling.continuous_batch import BatchLimits, ContinuousBatch, RowGroup, TextModel
from redqueen.records import SamplingParams

MEMBERS = 4
# So many texts of each batch are computed again, the first, the last and some between them.
_CHECKED = 12


def errors_of_texts(shape: Shape, device: torch.device, rows: int) -> tuple[float, float]:
    """Returns the mean errors of log-probabilities: ours, and those of transformers in bf16, both against its fp32.

    The batch has `rows` rows and half as many texts more, of all lengths: rows end, are moved and admitted anew while
    graphs are there.
    """
    model = random_model(shape, device)
    decoder = decoder_of(model, pack=False)
    bank = random_members(decoder, shape, MEMBERS)
    groups = _groups(shape.vocabulary, rows + rows // 2)
    written: list[Row] = []
    text_model = TextModel(decoder, Letters(), frozenset())
    ContinuousBatch(text_model, bank, BatchLimits(rows, 2048), groups, written.append).run()

    of_row = {row.index: group for group in groups for row in group.rows}
    every = max(1, len(written) // _CHECKED)
    checked = [*written[::every], written[-1]]
    ours: list[float] = []
    theirs: list[float] = []
    for slot in range(MEMBERS):
        own = [row for row in checked if of_row[row.index].slot == slot]
        exact_model = _merged(model, bank, slot)
        rounded_model = copy.deepcopy(exact_model).bfloat16()
        for row in own:
            prompt = of_row[row.index].prompt_ids
            exact = _logprobs(exact_model, prompt, row.token_ids)
            ours += (torch.tensor(row.logprobs) - exact).abs().tolist()
            theirs += (_logprobs(rounded_model, prompt, row.token_ids) - exact).abs().tolist()
    return sum(ours) / len(ours), sum(theirs) / len(theirs)


def _groups(vocabulary: int, texts: int) -> list[RowGroup]:
    """Returns groups of one to four texts after one prompt, of all members in no order."""
    draw = random.Random(0)
    groups: list[RowGroup] = []
    count = 0
    while count < texts:
        rows: list[Row] = []
        for _ in range(min(draw.choice((1, 1, 2, 4)), texts - count)):
            params = SamplingParams(max_tokens=draw.randint(3, 24))
            rows.append(Row(count, ("text", count), params, ()))
            count += 1
        prompt = tuple(draw.choices(range(vocabulary), k=draw.randint(5, 60)))
        groups.append(RowGroup(draw.randrange(MEMBERS), prompt, rows))
    return groups


@torch.no_grad()
def _merged(model: Any, bank: AdapterBank, slot: int) -> Any:
    """Returns transformers' model in fp32, with a member's adapter in its weights."""
    merged = copy.deepcopy(model).float()
    modules: dict[str, Any] = dict(merged.named_modules())
    for name, factors in bank.read(f"m{slot}").items():
        weight = modules[name].weight
        # A and B are rounded to bf16 where they are multiplied, B with its scale.
        a = factors.a.to(weight.device).bfloat16().float()
        b = (bank.scales[slot] * factors.b.to(weight.device)).bfloat16().float()
        weight.add_((a @ b).T)
    return merged


@torch.no_grad()
def _logprobs(model: Any, prompt: tuple[int, ...], tokens: list[int]) -> torch.Tensor:
    """Returns the log-probabilities of tokens after a prompt."""
    ids = torch.tensor([[*prompt, *tokens]], device=model.device)
    logits = model(ids).logits[0, len(prompt) - 1 : -1].float()
    return logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()
