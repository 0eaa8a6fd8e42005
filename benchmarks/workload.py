"""The work that all contenders of a measurement share: rows, prompts, samples, and one loss for us and for the peers.

Shape suffixes: R rows, T tokens of a row, N scored tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import BenchmarkError
from redqueen import streams
from redqueen.adapters.initialisation import generator
from redqueen.game.seeds import seeds
from redqueen.policy.learning.token_weights import token_weights
from redqueen.policy.model.base import Base
from redqueen.policy.model.logprobs import TokenLogprobs
from redqueen.records import Prompt, Request, Sample, SamplingParams


def name(number: int) -> str:
    return f"m{number}"


# Members' shares of rows: each member's rows are neighbours, in the order of the members.


def equal(rows: int, members: int) -> list[int]:
    """`equal(16, 8)` is two rows for each; the first ones take what is left over."""
    return [rows // members + (number < rows % members) for number in range(members)]


def half_for_one(rows: int, members: int) -> list[int]:
    """The first member has half of all rows, the others share the rest."""
    if members == 1:
        return [rows]
    return [rows // 2, *equal(rows - rows // 2, members - 1)]


def falling(rows: int, members: int) -> list[int]:
    """Shares that go as 1/(i + 1), but nobody is without a row if there are enough: `[12, 6, 4, 3, 2, 2, 2, 1]`."""
    members = min(rows, members)
    total = sum(1 / (i + 1) for i in range(members))
    shares = [1] * members
    for _ in range(rows - members):
        neediest = max(range(members), key=lambda i: rows / (i + 1) / total - shares[i])
        shares[neediest] += 1
    return shares


def owners(shares: Sequence[int]) -> list[str]:
    """The member of each row."""
    return [name(number) for number, rows in enumerate(shares) for _ in range(rows)]


def samples(
    vocabulary: int, members: Sequence[str], prompt: int, completion: int, *, attempts: int = 1, shared: bool = False
) -> list[Sample]:
    """For each member in `members` a group of `attempts` samples of random tokens, none with advantage zero.

    A group's prompts are all the same with `shared`, else all different; all have `prompt` tokens.
    """
    noise = generator("bench", "samples")

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(vocabulary, (count,), generator=noise).tolist())

    made: list[Sample] = []
    for member in members:
        common = tokens(prompt)
        for attempt in range(attempts):
            start = common if shared else tokens(prompt)
            made.append(
                Sample(
                    member=member,
                    prompt_ids=start,
                    token_ids=tokens(completion),
                    logprobs=(-10.0,) * completion,
                    advantage=1.0 - 2 * (attempt % 2),
                )
            )
    return made


def prompts(base: Base, count: int, length: int) -> list[str]:
    """`count` different texts of exactly `length` tokens, cut out of the seed programs."""
    text = "\n\n".join(draft.program for draft in seeds())
    ids: list[int] = base.tokenizer(text).input_ids
    found: dict[str, None] = {}
    order = list(range(len(ids) - length))
    streams.python("bench", "prompts").shuffle(order)
    for start in order:
        piece = base.tokenizer.decode(ids[start : start + length])
        if list(base.tokenizer(piece).input_ids) == ids[start : start + length]:
            found[piece] = None
        if len(found) == count:
            return list(found)
    raise BenchmarkError(
        f"the seed programs hold only {len(found)} texts of {length} tokens: ask for fewer or shorter rows"
    )


def requests(texts: Sequence[str], members: Sequence[str], new_tokens: int) -> list[Request]:
    """One request for each text; nothing stops a row early."""
    return [
        Request(
            member=member,
            prompt=Prompt(text, stop=()),
            sampling=SamplingParams(max_tokens=new_tokens),
            seed=("bench", number),
        )
        for number, (text, member) in enumerate(zip(texts, members, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class Batch:
    """`samples` as tensors, for peers: the same tokens in the same rows, the same weights of the same scored tokens.

    Attributes:
        members: of each row, R.
        ids: input tokens [R, T].
        place: where the scored tokens are predicted in the flattened rows, [N]; each row has as many.
        target: the scored tokens [N].
        weight: their weights in the loss, advantages included [N].
    """

    members: list[str]
    ids: Tensor
    place: Tensor
    target: Tensor
    weight: Tensor

    def part(self, member: str) -> Batch:
        """The rows of one member."""
        rows = [r for r, owner in enumerate(self.members) if owner == member]
        scored = self.target.view(len(self.members), -1)
        place = torch.arange(self.ids.shape[1] - scored.shape[1], self.ids.shape[1])
        return Batch(
            [member] * len(rows),
            self.ids[rows],
            (torch.arange(len(rows))[:, None] * self.ids.shape[1] + place).flatten(),
            scored[rows].flatten(),
            self.weight.view(len(self.members), -1)[rows].flatten(),
        )


def batch(samples: Sequence[Sample]) -> Batch:
    """All samples must have prompts and completions of one length."""
    weights = token_weights(samples, "token_mean")
    prompt, completion = len(samples[0].prompt_ids), len(samples[0].token_ids)
    width = prompt + completion - 1
    place = torch.arange(prompt - 1, width)
    return Batch(
        [sample.member for sample in samples],
        torch.tensor([(s.prompt_ids + s.token_ids)[:-1] for s in samples]),
        (torch.arange(len(samples))[:, None] * width + place).flatten(),
        torch.tensor([s.token_ids for s in samples]).flatten(),
        torch.tensor([w * s.advantage for w, s in zip(weights, samples, strict=True)]).repeat_interleave(completion),
    )


def loss(backbone: Callable[..., Any], head_VH: Tensor, batch: Batch) -> Tensor:
    """The learner's policy-gradient loss over any model: only the adapters differ between us and the peers, since all
    take the same chunked log-probabilities of the same completion tokens. `backbone` is a transformers model without
    its head.
    """
    hidden_RTH = backbone(input_ids=batch.ids, use_cache=False).last_hidden_state
    logp_N, _ = TokenLogprobs.apply(hidden_RTH.flatten(0, 1)[batch.place], head_VH, batch.target, 1.0)
    return -(batch.weight * logp_N).sum()
