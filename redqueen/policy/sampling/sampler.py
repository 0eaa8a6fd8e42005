"""The embedded sampler: requests become groups that share a prompt, and groups become rows of a running batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redqueen.config import SamplingConfig
from redqueen.errors import AdapterError
from redqueen.policy.executor import Executor
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.base import Base
from redqueen.policy.sampling.continuous_batch import Group, Row
from redqueen.records import Completion, Prompt, Request

OnCompletion = Callable[[int, Completion], None]


class LocalSampler:
    """Samples from the members of `bank` with the weights that the learner updates, wherever `executor` computes."""

    def __init__(self, base: Base, bank: AdapterBank, config: SamplingConfig, executor: Executor) -> None:
        self.base = base
        self.bank = bank
        self.config = config
        self.executor = executor

    def sample(self, requests: Sequence[Request], on_completion: OnCompletion | None = None) -> list[Completion]:
        """Completions in the order of `requests`; `on_completion(index, completion)` is called as each is done.

        Raises KeyError for a member that the bank does not hold, AdapterError for a text that the base cannot hold.
        """
        results: dict[int, Completion] = {}
        groups = self._groups(requests)
        prompt_ids = {row.index: group.prompt_ids for group in groups for row in group.rows}

        def keep(row: Row) -> None:
            completion = self._completion(requests[row.index].prompt, prompt_ids[row.index], row)
            results[row.index] = completion
            if on_completion:
                on_completion(row.index, completion)

        self.executor.sample(groups, self.config, keep)
        return [results[i] for i in range(len(requests))]

    def _groups(self, requests: Sequence[Request]) -> list[Group]:
        """Requests by member and prompt, at most a batch's rows in each; the longest come first."""
        groups: dict[tuple[str, Prompt, int], Group] = {}
        count: dict[tuple[str, Prompt], int] = {}
        for index, request in enumerate(requests):
            same = (request.member, request.prompt)
            number = count[same] = count.get(same, -1) + 1
            name = (*same, number // self.config.batch_rows)
            if name not in groups:
                groups[name] = Group(self.bank.slots[request.member], encode(self.base.tokenizer, request.prompt), [])
            groups[name].rows.append(Row(index, request.seed, request.max_tokens, request.prompt.stop))
        return sorted(groups.values(), key=lambda g: (-g.rows[0].max_tokens, -len(g.prompt_ids)))

    def _completion(self, prompt: Prompt, prompt_ids: tuple[int, ...], row: Row) -> Completion:
        text = self.base.tokenizer.backend_tokenizer.decode(row.tokens, skip_special_tokens=True)
        cut = min((at for s in prompt.stop if (at := text.find(s)) >= 0), default=len(text))
        tokens, sampled, policy = tuple(row.tokens), tuple(row.sampled), tuple(row.policy)
        return Completion(
            prompt_ids=prompt_ids,
            token_ids=tokens,
            logprobs=sampled,
            policy_logprobs=policy,
            text=prompt.prefix + text[:cut],
            finished=row.finished,
        )


def encode(tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """Token ids of a prompt: raw text, or one user message through the model's chat template.

    Raises AdapterError if there are none: there is nothing to continue.
    """
    if not prompt.chat:
        ids = tuple(tokenizer(prompt.text + prompt.prefix).input_ids)
        if not ids:
            raise AdapterError("an empty prompt: this tokenizer adds no first token, so write at least one letter")
        return ids
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt.text}], tokenize=False, add_generation_prompt=True
    )
    return tuple(tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids)
