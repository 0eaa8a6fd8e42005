"""The part `correct`: texts of two members in one batch, as a run samples them, against transformers in fp32.

Every way that a GPU has is taken: recorded steps and launched ones, a room for each row and kv_cache. At the end the
learner computes the log-probabilities of texts again, and takes a step. Later parts compile nothing of this again.
"""

from __future__ import annotations

import copy
import os
import random
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch

from benchmarks.gpu.clock import device_for, forget_peak
from benchmarks.gpu.output import say
from benchmarks.gpu.shapes import (
    BUNDLED,
    SEVEN_B,
    TINY,
    Letters,
    Shape,
    random_members,
    random_model,
    random_policy,
    samples_of,
)
from benchmarks.timing import BenchmarkError
from redqueen.config import LearningConfig
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.decoder import decoder_of
from redqueen.engine.sampling import kv_cache, recorded
from redqueen.engine.sampling.continuous_batch import BatchLimits, ContinuousBatch, RowGroup, TextModel
from redqueen.engine.sampling.tokens import Row
from redqueen.records import SamplingParams

MEMBERS = 2
WAYS: dict[str, dict[str, str]] = {
    "as a run": {},
    "without graphs": {recorded.VARIABLE: "off"},
    "a room for each row": {kv_cache.VARIABLE: "off"},
    "pages": {kv_cache.VARIABLE: "on"},
}
"""The ways that are compared, each with the variables that choose it."""
# So many texts of each batch are computed again, the first, the last and some between them.
_CHECKED = 12
# The rows of the batch that is learned from, and what sampler and learner may differ by, in nats.
_LEARNED = 8
_GAP = 0.05
# Beside twice what transformers loses in bf16, in nats.
_SLACK = 1e-4


def part(*, tiny: bool) -> None:
    """Compares two layers of the bundled model's shape and of a 7B model's."""
    if tiny:
        run_correct({"toy": TINY}, device_for(tiny=tiny), (8,))
    else:
        run_correct({"bundled": BUNDLED, "7B": SEVEN_B}, device_for(tiny=tiny), (8, 128))


def run_correct(shapes: Mapping[str, Shape], device: torch.device, sizes: Sequence[int]) -> None:
    """Compares two layers of each shape, with batches of so many rows.

    Raises BenchmarkError, after the last check, if one differs by more than rounding.
    """
    failed: list[str] = []
    for family, shape in shapes.items():
        failed += _failed(family, Texts(shape.with_layers(2), device), sizes)
        forget_peak()
    if failed:
        raise BenchmarkError(f"{len(failed)} ways do not compute what transformers does: {'; '.join(failed)}")


def _failed(family: str, texts: Texts, sizes: Sequence[int]) -> list[str]:
    """Makes the checks of one shape; returns the names of those that fail."""
    checks: dict[str, Callable[[str], bool]] = {}
    for rows in sizes:
        for way, variables in WAYS.items():
            checks[f"{family}, {rows} rows, {way}"] = partial(_compare, texts, rows, variables)
    # The last one, because the members move in it.
    checks[f"{family}, the learner"] = texts.learn
    return [name for name, check in checks.items() if not _passes(name, check)]


def _passes(name: str, check: Callable[[str], bool]) -> bool:
    try:
        return check(name)
    # Whatever it is, the other ways are worth knowing about.
    except Exception as why:  # noqa: BLE001
        traceback.print_exc()
        say(f"FAILED {name}", f"{type(why).__name__}: {(str(why).strip().splitlines() or [''])[0]}")
        return False


def _compare(texts: Texts, rows: int, variables: Mapping[str, str], name: str) -> bool:
    """Prints the errors of one way; returns whether they are rounding."""
    with mock.patch.dict(os.environ, variables):
        written, of_row = texts.sample(rows)
    ours, theirs = texts.errors(written, of_row)
    good = ours < 2 * theirs + _SLACK
    say(
        f"{'ok' if good else 'FAILED'} {name}: mean error of log-probabilities, nats",
        f"{ours:.1e}",
        f"{theirs:.1e} is that of transformers in bf16",
    )
    return good


class Texts:
    """A base of random weights with members, and transformers' models with a member's adapter in their weights."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        model = random_model(shape, device)
        self.vocabulary = shape.vocabulary
        self.decoder = decoder_of(model, pack=False)
        self.model = TextModel(self.decoder, Letters(), frozenset())
        self.bank = random_members(self.decoder, shape, MEMBERS)
        self.exact = [_merged(model, self.bank, slot) for slot in range(MEMBERS)]
        self.rounded = [copy.deepcopy(exact).bfloat16() for exact in self.exact]

    def learn(self, name: str) -> bool:
        """Takes a step on a batch of texts; returns whether sampler and learner agree, and every member has moved."""
        written, of_row = self.sample(_LEARNED)
        policy = random_policy(self.decoder, self.bank, LearningConfig(lr=1e-5, batch_tokens=1024))
        groups = {id(group): group for group in of_row.values()}
        updates = policy.learner.update(samples_of(list(groups.values())))
        gap = max(update.logprob_gap for update in updates)
        moved = [update for update in updates if not update.skipped and update.grad_norm > 0]
        good = gap < _GAP and len(moved) == MEMBERS and len(written) == len(of_row)
        say(f"{'ok' if good else 'FAILED'} {name}: nats between it and the sampler", f"{gap:.1e}", f"below {_GAP}")
        return good

    def sample(self, rows: int) -> tuple[list[Row], dict[int, RowGroup]]:
        """Returns texts, and the group of each.

        The batch has `rows` rows and half as many texts more, of all lengths: rows end, are moved and admitted anew
        while graphs are there.
        """
        groups = _groups(self.vocabulary, rows + rows // 2)
        written: list[Row] = []
        ContinuousBatch(self.model, self.bank, BatchLimits(rows, 2048), groups, written.append).run()
        return written, {row.index: group for group in groups for row in group.rows}

    def errors(self, written: list[Row], of_row: Mapping[int, RowGroup]) -> tuple[float, float]:
        """Returns mean errors of log-probabilities: ours, and those of transformers in bf16, both against its fp32."""
        every = max(1, len(written) // _CHECKED)
        ours: list[float] = []
        theirs: list[float] = []
        for row in [*written[::every], written[-1]]:
            group = of_row[row.index]
            exact = _logprobs(self.exact[group.slot], group.prompt_ids, row.token_ids)
            ours += (torch.tensor(row.logprobs) - exact).abs().tolist()
            rounded = _logprobs(self.rounded[group.slot], group.prompt_ids, row.token_ids)
            theirs += (rounded - exact).abs().tolist()
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
