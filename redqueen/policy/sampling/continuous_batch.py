"""Continuous batching: rows of different members are decoded together, and a finished row makes room for a waiting one.

Shape suffixes: R rows of the batch, N tokens, V vocabulary, H hidden size, T tokens of a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from redqueen import streams
from redqueen.errors import AdapterError, PromptError
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.attention import SharedPrefix
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.sampling.decode_step import decode_step
from redqueen.policy.sampling.kv_cache import KVCache, Prefill, PrefillEntry
from redqueen.policy.sampling.tokens import SampledTokens, SamplingTensors, sample_tokens
from redqueen.records import FinishReason, SamplingParams

# The batch is compacted when more than this share of its rows is free. A free row costs as much as any other in each
# step, but compacting copies whole rows of the cache, so a few free rows are left alone until requests fill them.
_COMPACT_ABOVE = 0.125
# How many tokens are sampled before the host reads them. Reading waits until a GPU has finished all its work, and the
# GPU then idles until the host has prepared the next step. Eight tokens at once spread that wait; a row that ends
# earlier wastes at most seven of them. A CPU gains nothing from waiting.
_STRIDE = {"cpu": 1, "cuda": 8}
# Free rows are sampled with the others; their tokens are never read.
_FREE_ROW = SamplingParams(max_tokens=1)


@dataclass(frozen=True, slots=True)
class TextModel:
    """The parts that turn rows into text and are the same for all members."""

    decoder: Decoder
    """The base's decoder."""
    tokenizer: Any
    """A tokenizer of the `tokenizers` library."""
    end_ids: frozenset[int]
    """Tokens that end a completion."""


@dataclass(slots=True)
class Row:
    """One completion while it is sampled."""

    index: int
    """The row's place among the requests."""
    seed: tuple[str | int, ...]
    """The name of the row's random stream."""
    sampling: SamplingParams
    """How the row's tokens are sampled, and how many at most."""
    stop: tuple[str, ...]
    """Strings that end the row."""
    max_lines: int = 0
    """The row also ends at the end of this many lines; 0: no limit."""
    token_ids: list[int] = field(default_factory=list[int])
    """The tokens sampled so far."""
    logprobs: list[float] = field(default_factory=list[float])
    """The log-probabilities of these tokens, in nats."""
    finish_reason: FinishReason | None = None
    """Why the row ended; None until it ends."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that continue one prompt of one member, so that the prompt is computed once for all of them."""

    slot: int
    """The member's slot in the adapter bank."""
    prompt_ids: tuple[int, ...]
    """The prompt's tokens."""
    rows: list[Row]
    """The completions of the prompt."""

    @property
    def max_tokens(self) -> int:
        """The largest token limit among the rows."""
        return max(row.sampling.max_tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may become."""

    rows: int
    """How many rows are decoded at once, at most."""
    prefill_tokens: int
    """How many tokens of prompts are computed in one pass, at most. A longer prompt is computed by itself."""


class ContinuousBatch:
    """The rows that are decoded together. Row r of the batch is row r of the KV cache."""

    def __init__(
        self,
        model: TextModel,
        bank: AdapterBank,
        limits: BatchLimits,
        groups: Sequence[RowGroup],
        on_row: Callable[[Row], None],
    ) -> None:
        """`on_row` is called with each row when it is complete.

        Raises PromptError if a row can become longer than the base's sliding window.
        """
        window = model.decoder.window
        longest = max((len(group.prompt_ids) + group.max_tokens for group in groups), default=0)
        if window and longest > window:
            raise PromptError(f"{longest} tokens are more than this base's sliding window of {window}")

        self.model = model
        self.bank = bank
        self.on_row = on_row
        self.decoder = model.decoder
        self.queue = deque(groups)
        self.device = bank.masters.device
        self.stride = _STRIDE[self.device.type]

        # A row may be sampled up to one stride beyond its end before the host notices that it has ended. What is
        # sampled there is dropped, so it may lie beyond the base's window.
        tokens = max((group.max_tokens for group in groups), default=0) + self.stride
        self.prefill_tokens = limits.prefill_tokens
        self.capacity = min(limits.rows, sum(len(group.rows) for group in groups))

        # The state of each row on the host. `lengths` counts a row's tokens in the cache, as `cache.length_R` does on
        # the device; the host keeps its own copy so that it need not wait for the device to learn the longest.
        self.rows: list[Row | None] = []
        self.slots: list[int] = []
        self.lengths: list[int] = []

        # The state of each row on the device, allocated once.
        capacity = self.capacity
        self.cache = KVCache(self.decoder, capacity)
        self.step = decode_step(self.decoder, bank, self.cache)
        self.params = SamplingTensors.of([], self.device)
        self.work_RV = torch.empty(capacity, len(self.decoder.embed_VH), device=self.device)
        self.hidden_RH = self.decoder.embed_VH.new_zeros(capacity, self.decoder.embed_VH.shape[1])
        self.token_R = torch.zeros(capacity, dtype=torch.long, device=self.device)
        self.uniform_RT = torch.zeros(capacity, tokens, device=self.device)
        self.count_R = torch.zeros(capacity, dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def run(self) -> None:
        """Decodes until every row is complete."""
        self._admit()
        while self.rows:
            sampled = [self._sample()]
            for _ in range(self.stride - 1):
                self._step()
                sampled.append(self._sample())
            self._collect(sampled)
            self._compact()
            if self.rows:
                self._step()
            self._admit()

    def _admit(self) -> None:
        """Fills free rows with the groups that fit, longest first, and computes their prompts."""
        free = [r for r, row in enumerate(self.rows) if row is None] + list(range(len(self.rows), self.capacity))

        # The queue's order is kept even if a later group would fit: its longest completions decide when the whole
        # batch ends, so they must not be overtaken by short ones.
        admitted: list[tuple[RowGroup, list[int]]] = []
        while self.queue and len(self.queue[0].rows) <= len(free):
            group = self.queue.popleft()
            admitted.append((group, free[: len(group.rows)]))
            del free[: len(group.rows)]
        if not admitted:
            return

        # Places behind the old end of the batch; the loop below fills all of them.
        new_rows = max(max(places) for _, places in admitted) + 1 - len(self.rows)
        self.rows += [None] * new_rows
        self.slots += [admitted[0][0].slot] * new_rows
        self.lengths += [0] * new_rows

        # All of a row's random numbers are drawn now, from a stream that only its seed names. Its text therefore does
        # not depend on the other rows, on its place in the batch or on the process that samples it.
        for group, places in admitted:
            for r, row in zip(places, group.rows, strict=True):
                self.rows[r] = row
                self.slots[r] = group.slot
                self.lengths[r] = len(group.prompt_ids)
                uniforms = streams.uniforms(row.sampling.max_tokens, *row.seed)
                self.uniform_RT[r, : len(uniforms)] = torch.from_numpy(uniforms)
                self.count_R[r] = 0

        # One pass computes prompts of all members; the bank wants its rows sorted by slot.
        for part in self._passes(sorted(admitted, key=lambda pair: pair[0].slot)):
            self._prefill(part)
        self._rows_changed()

    def _passes(self, admitted: list[tuple[RowGroup, list[int]]]) -> Iterator[list[tuple[RowGroup, list[int]]]]:
        """Yields the groups in parts, whose prompts have at most `prefill_tokens` tokens together."""
        # A pass holds a block's activations for all of its tokens. A batch's prompts at once would take more memory
        # than everything else. A prompt is not split: its attention would have to read the cache as well, and the
        # longest prompt alone takes little.
        part: list[tuple[RowGroup, list[int]]] = []
        tokens = 0
        for group, places in admitted:
            prompt = len(group.prompt_ids)
            if part and tokens + prompt > self.prefill_tokens:
                yield part
                part = []
                tokens = 0
            part.append((group, places))
            tokens += prompt
        if part:
            yield part

    def _prefill(self, admitted: list[tuple[RowGroup, list[int]]]) -> None:
        """Computes the prompts, each once, into the cache and the hidden states of the rows that continue it."""
        entries: list[PrefillEntry] = []
        start = 0
        for group, places in admitted:
            entries.append(PrefillEntry(SharedPrefix(start, len(group.prompt_ids)), places))
            start += len(group.prompt_ids)
        device = self.device
        prompt_ids: list[int] = []
        for group, _ in admitted:
            prompt_ids += group.prompt_ids
        ids_N = torch.tensor(prompt_ids, device=device)
        position_N = torch.cat([torch.arange(entry.prefix.prompt, device=device) for entry in entries])
        slots = [group.slot for group, _ in admitted]
        adapters = self.bank.rows(slots, [entry.prefix.prompt for entry in entries])
        hidden_NH = self.decoder.hidden(ids_N, position_N, Prefill(self.cache, entries), adapters)
        for entry in entries:
            self.hidden_RH[entry.rows] = hidden_NH[entry.prefix.end - 1]

    def _rows_changed(self) -> None:
        """Tells the decode step which member each row belongs to, and builds the rows' sampling parameters."""
        self.step.assign_rows(self.slots)
        self.params = SamplingTensors.of([row.sampling if row else _FREE_ROW for row in self.rows], self.device)

    def _sample(self) -> SampledTokens:
        """Samples each row's next token."""
        rows = len(self.rows)
        logits_RV = self.decoder.head(self.hidden_RH[:rows])
        uniform_R = self.uniform_RT[:rows].gather(1, self.count_R[:rows, None])[:, 0]
        sampled = sample_tokens(logits_RV, uniform_R, self.params, self.work_RV[:rows])
        self.token_R[:rows] = sampled.token_R
        self.count_R[:rows] += 1
        return sampled

    def _step(self) -> None:
        """Computes the hidden state after every row's newest token."""
        rows = len(self.rows)
        self.hidden_RH[:rows] = self.step(self.token_R[:rows], max(self.lengths))
        self.lengths = [length + 1 for length in self.lengths]

    def _collect(self, sampled: list[SampledTokens]) -> None:
        """Gives the rows their tokens, hands over those that are complete and frees their places."""
        tokens: list[list[int]] = torch.stack([s.token_R for s in sampled], 1).tolist()
        logprobs: list[list[float]] = torch.stack([s.logprob_R for s in sampled], 1).tolist()
        free: list[int] = []
        for r, row in enumerate(self.rows):
            if row is not None:
                # Adapter weights that overflowed make the logits NaN, and sampling from NaN returns some token without
                # an error. The text would go into the archive and the gradient; NaN differs from itself.
                if any(value != value for value in logprobs[r]):
                    raise AdapterError(
                        f"slot {self.slots[r]}: not a number where a probability should be; its weights?"
                    )
                extend(self.model, row, tokens[r], logprobs[r])
                if row.finish_reason:
                    self.on_row(row)
                    self.rows[r] = None
            if self.rows[r] is None:
                free.append(r)
                self.lengths[r] = 0
        if free:
            # A free row still takes part in each step, because leaving it out would mean copying the rows behind it.
            # Resetting its length makes it overwrite position 0 only, and never grow the cache.
            self.cache.length_R[free] = 0
            self.count_R[free] = 0

    def _compact(self) -> None:
        """Moves rows from the end into free places if there are many, and drops the free places behind them."""
        live = [r for r, row in enumerate(self.rows) if row is not None]
        if len(self.rows) - len(live) <= _COMPACT_ABOVE * len(self.rows):
            return

        # The last rows fill the gaps, so only as many rows move as there are gaps in front of them.
        targets = [r for r in range(len(live)) if self.rows[r] is None]
        sources = live[len(live) - len(targets) :]
        if targets:
            self.cache.move(sources, targets)
            for tensor in (self.hidden_RH, self.token_R, self.uniform_RT, self.count_R):
                tensor[targets] = tensor[sources]
            for target, source in zip(targets, sources, strict=True):
                self.rows[target] = self.rows[source]
                self.slots[target] = self.slots[source]
                self.lengths[target] = self.lengths[source]

        # What is left behind the moved rows is free: the batch ends before it.
        for per_row in (self.rows, self.slots, self.lengths):
            del per_row[len(live) :]
        if live:
            self._rows_changed()


def extend(model: TextModel, row: Row, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
    """Appends tokens until the row ends; what was sampled after its end is dropped."""
    for token, logprob in zip(tokens, logprobs, strict=True):
        row.token_ids.append(token)
        row.logprobs.append(logprob)
        if token in model.end_ids or _stopped(model.tokenizer, row):
            row.finish_reason = "stop"
            return
        if len(row.token_ids) >= row.sampling.max_tokens:
            row.finish_reason = "length"
            return


def _stopped(tokenizer: Any, row: Row) -> bool:
    """Whether the newest token completes a stop string or the last line."""
    if not row.stop and not row.max_lines:
        return False
    # Decoding the whole text after each token would take quadratic time, so only a tail is decoded. One token is
    # at least one byte, so this tail holds every stop string that the newest token can complete.
    longest = max((len(stop.encode()) for stop in row.stop), default=0)
    tail = tokenizer.decode(row.token_ids[-(longest + 1) :], skip_special_tokens=False)
    if any(stop in tail for stop in row.stop):
        return True
    # The number of lines can have changed only where a line ends.
    if not row.max_lines or "\n" not in tail:
        return False
    return tokenizer.decode(row.token_ids, skip_special_tokens=False).count("\n") >= row.max_lines
