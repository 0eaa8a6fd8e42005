"""The work that all contenders of a measurement share: rows, prompts, samples, and one loss for all of them.

Shape suffixes: R rows, T tokens of a row, N scored tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import BenchmarkError
from redqueen.base import streams
from redqueen.engine.adapters import generator
from redqueen.engine.learning.learner import token_weights
from redqueen.engine.model.base import Base
from redqueen.engine.model.forward import TokenLogprobs
from redqueen.records import Prompt, Request, Sample, SamplingParams
from redqueen.tasks.python import seeds


def name(number: int) -> str:
    """Returns the name of a member."""
    return f"m{number}"


# Members' shares of rows: each member's rows are neighbours, in the order of the members.


def equal(rows: int, members: int) -> list[int]:
    """Returns equal shares: `equal(16, 8)` is two rows for each. The first members take the remainder."""
    return [rows // members + (number < rows % members) for number in range(members)]


def half_for_one(rows: int, members: int) -> list[int]:
    """Returns half of all rows for the first member, and equal shares of the rest for the others."""
    if members == 1:
        return [rows]
    return [rows // 2, *equal(rows - rows // 2, members - 1)]


def falling(rows: int, members: int) -> list[int]:
    """Returns shares that fall as 1/(i + 1), at least one row each if there are enough: `[12, 6, 4, 3, 2, 2, 2, 1]`."""
    # Each further row goes to the member that is furthest below its exact share.
    members = min(rows, members)
    total = sum(1 / (i + 1) for i in range(members))
    shares = [1] * members
    for _ in range(rows - members):
        neediest = max(range(members), key=lambda i: rows / (i + 1) / total - shares[i])
        shares[neediest] += 1
    return shares


def owners(shares: Sequence[int]) -> list[str]:
    """Returns the member of each row."""
    members: list[str] = []
    for number, rows in enumerate(shares):
        members += [name(number)] * rows
    return members


def samples(
    vocabulary: int, members: Sequence[str], prompt: int, completion: int, *, attempts: int = 1, shared: bool = False
) -> list[Sample]:
    """Returns a group of `attempts` samples of random tokens for each of `members`; no advantage is zero.

    All prompts have `prompt` tokens. With `shared` those of a group are the same, otherwise all are different.
    """
    # Random tokens cost as much as real ones. A zero advantage would let a learner skip a sample.
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
                    logprobs=(),
                    advantage=1.0 - 2 * (attempt % 2),
                )
            )
    return made


def prompts(base: Base, count: int, length: int) -> list[str]:
    """Returns `count` different texts of exactly `length` tokens, cut out of the seed programs.

    Raises BenchmarkError if the seed programs are too short for that.
    """
    text = "\n\n".join(draft.program for draft in seeds())
    ids: list[int] = base.tokenizer(text).input_ids
    found: dict[str, None] = {}
    order = list(range(len(ids) - length))
    streams.python("bench", "prompts").shuffle(order)
    for start in order:
        # A piece of a text may be tokenized differently from the same place in the text. Only pieces that keep their
        # length are used, so that all contenders have as many tokens.
        piece = base.tokenizer.decode(ids[start : start + length])
        if list(base.tokenizer(piece).input_ids) == ids[start : start + length]:
            found[piece] = None
        if len(found) == count:
            return list(found)
    raise BenchmarkError(
        f"the seed programs hold only {len(found)} texts of {length} tokens: ask for fewer or shorter rows"
    )


def requests(texts: Sequence[str], members: Sequence[str], new_tokens: int) -> list[Request]:
    """Returns one request for each text; no row stops early."""
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
    """Samples as tensors, for the peers: the same tokens and the same weights as our learner has."""

    members: list[str]
    """The member of each row, R names."""
    ids: Tensor
    """Input tokens [R, T]."""
    place: Tensor
    """Positions in the flattened rows that predict the scored tokens [N]; every row has equally many."""
    target: Tensor
    """Scored tokens [N]."""
    weight: Tensor
    """Weights of the scored tokens in the loss, advantages included [N]."""

    def part(self, member: str) -> Batch:
        """Returns the rows of one member."""
        # weights stay as they are in the whole batch: the parts' gradients add up to those of one joint update
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
    """Returns `samples` as a batch; all must have prompts of one length and completions of one length."""
    weights = token_weights(samples, "token_mean")
    prompt = len(samples[0].prompt_ids)
    completion = len(samples[0].token_ids)
    # the last token is predicted but never an input, and position i predicts token i + 1
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
    """Returns the learner's policy-gradient loss; `backbone` is a transformers model without its head."""
    # All contenders use our chunked log-probabilities. With full logits the peers would be slower by far, and the ratio
    # would say nothing about adapters.
    hidden_RTH = backbone(input_ids=batch.ids, use_cache=False).last_hidden_state
    logp_N = TokenLogprobs.apply(hidden_RTH.flatten(0, 1)[batch.place], head_VH, batch.target, 1.0)
    return -(batch.weight * logp_N).sum()
