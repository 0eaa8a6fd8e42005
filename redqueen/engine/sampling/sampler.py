"""The sampler turns requests into groups of rows that share a prompt, and sampled rows into completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redqueen.base.request_stream import Follow, FollowUp, in_rounds
from redqueen.engine.executor import Executor
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.meter import Meter
from redqueen.engine.model.base import Base
from redqueen.engine.model.source import decode, encode
from redqueen.engine.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.engine.sampling.tokens import Row
from redqueen.records import Completion, OnCompletion, Prompt, Request
from redqueen.tasks.programs.tagged import answer_end


class LocalSampler:
    """Samples from the members of `bank` with the weights that the learner updates, wherever `executor` computes."""

    def __init__(
        self,
        base: Base,
        bank: AdapterBank,
        limits: BatchLimits,
        executor: Executor,
        versions: Mapping[str, int],
        meter: Meter,
    ) -> None:
        """The limits hold in each process. `versions` is read when a completion is made. `meter` counts the work."""
        self.base = base
        self.bank = bank
        self.limits = limits
        self.executor = executor
        self.versions = versions
        self.meter = meter

    def sample(self, requests: Sequence[Request], on_completion: OnCompletion | None = None) -> list[Completion]:
        """Returns completions in the order of `requests`, and calls `on_completion(index, completion)` as each ends.

        Raises KeyError if the bank does not hold a member, PromptError if a prompt is empty or too long.
        """
        return self._sample(requests, on_completion or (lambda index, completion: None), 0)

    def stream(self, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
        """Samples requests and what they lead to, together if the executor can, else one after the other."""
        if self.executor.streams:
            return self._sample(requests, follow, max_further)
        return in_rounds(self, requests, follow)

    def _sample(self, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
        """Samples requests and the further ones, at most `max_further`, that completions lead to."""
        all_requests: list[Request] = []
        prompt_ids: dict[int, tuple[int, ...]] = {}
        completions: dict[int, Completion] = {}

        def groups_of(new: Sequence[Request]) -> list[RowGroup]:
            groups = self._groups(new, len(all_requests))
            all_requests.extend(new)
            for group in groups:
                work.prompt_tokens += len(group.prompt_ids)
                for row in group.rows:
                    prompt_ids[row.index] = group.prompt_ids
            return groups

        # Completions are handed over as they end, so that verification overlaps with the sampling of the others.
        def on_row(row: Row) -> FollowUp[list[RowGroup]] | None:
            completion = self._completion(all_requests[row.index], prompt_ids[row.index], row)
            completions[row.index] = completion
            further = follow(row.index, completion)
            return None if further is None else further.made_into(groups_of)

        with self.meter.sampling() as work:
            work.decode_steps = self.executor.sample(groups_of(requests), self.limits, on_row, max_further)
            work.sampled_tokens = sum(len(completion.token_ids) for completion in completions.values())
        return [completions[i] for i in range(len(all_requests))]

    def _groups(self, requests: Sequence[Request], first: int) -> list[RowGroup]:
        """Groups requests by member and prompt, at most a batch's rows in each; the longest come first.

        The requests are numbered from `first` on.
        """
        groups: dict[tuple[str, Prompt, int], RowGroup] = {}
        counts: dict[tuple[str, Prompt], int] = {}
        for index, request in enumerate(requests, first):
            # A group enters the batch as a whole, so a prompt with more requests than rows is split.
            same_prompt = (request.member, request.prompt)
            number = counts.get(same_prompt, 0)
            counts[same_prompt] = number + 1
            key = (*same_prompt, number // self.limits.rows)
            if key not in groups:
                slot = self.bank.slots[request.member]
                groups[key] = RowGroup(slot, encode(self.base.tokenizer, request.prompt), [])
            prompt = request.prompt
            row = Row(index, request.seed, request.sampling, prompt.stop, prompt.max_lines, prompt.tagged)
            groups[key].rows.append(row)

        # Rows that may become the longest start first: if they started last, they would end alone.
        return sorted(groups.values(), key=lambda g: (-g.max_tokens, -len(g.prompt_ids)))

    def _completion(self, request: Request, prompt_ids: tuple[int, ...], row: Row) -> Completion:
        assert row.finish_reason is not None, "only complete rows are handed over"
        prompt = request.prompt
        text = decode(self.base.tokenizer, row.token_ids)
        # The token that completes a stop string may hold characters before and after it.
        if prompt.tagged:
            end = answer_end(text)
            stops = [] if end is None else [end]
        else:
            stops = [text.find(stop) for stop in prompt.stop if stop in text]
        if prompt.max_lines:
            stops.append(len("\n".join(text.split("\n")[: prompt.max_lines])))
        return Completion(
            member=request.member,
            version=self.versions[request.member],
            prompt_ids=prompt_ids,
            token_ids=tuple(row.token_ids),
            logprobs=tuple(row.logprobs),
            text=prompt.prefix + text[: min(stops, default=len(text))],
            finish_reason=row.finish_reason,
        )
