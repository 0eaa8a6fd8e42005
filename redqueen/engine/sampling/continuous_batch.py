"""Continuous batching: rows of different members are decoded together, and a finished row makes room for a waiting one.

What is on the device is in `redqueen.engine.sampling.device_batch`; here the host decides which rows are there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from redqueen.base.request_stream import FollowUp
from redqueen.engine.kernels import dispatch
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.forward import Forward
from redqueen.engine.sampling.device_batch import DeviceBatches, Placed, SampledSteps
from redqueen.engine.sampling.tokens import Row, RowGroup, extend
from redqueen.errors import AdapterError, PromptError
from redqueen.records import SamplingParams

# The batch is compacted when it would then compute less than this share of its rows. A free row costs as much as any
# other in each step, but compacting copies whole rows of the cache, so a few free rows are left alone until requests
# fill them.
_COMPACT_BELOW = 0.875
# So many polls after a row has ended, what it leads to is taken into the batch. The place must not depend on how fast a
# program was judged: the rows of a batch decide how its products round. Judging takes less than 16 polls, which are 64
# tokens on a GPU; where it takes longer, the batch waits.
_POLLS_TO_FURTHER = 16
# Free rows are sampled with the others; their tokens are never read.
_FREE_ROW = SamplingParams(max_tokens=1)


@dataclass(frozen=True, slots=True)
class _Pace:
    """How the host keeps up with the device."""

    steps: int
    """How many tokens of each row are sampled before the host looks at them."""
    ahead: int
    """How many such looks the device may be ahead of the host."""


# A CPU gains nothing from working ahead. While the host looks at tokens of a GPU, the GPU samples the next ones, so it
# never waits. The price are tokens behind the ends of rows: with four at a time at most seven in a row, six on average.
_CPU = _Pace(steps=1, ahead=0)
_GPU = _Pace(steps=4, ahead=1)


@dataclass(frozen=True, slots=True)
class TextModel:
    """The parts that turn rows into text and are the same for all members."""

    decoder: Forward
    tokenizer: Any
    """A tokenizer of the `tokenizers` library."""
    end_ids: frozenset[int]


OnRow = Callable[[Row], FollowUp[Sequence[RowGroup]] | None]
"""Is called with a complete row. Returns the groups that it leads to, or None."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may become."""

    rows: int
    """How many rows are decoded at once, at most."""
    prefill_tokens: int
    """How many tokens of prompts are computed in one pass, at most. A longer prompt is computed by itself."""
    cache_tokens: int = 0
    """How many tokens all rows have together, at most, where keys and values are in pages; 0: any number."""


class ContinuousBatch:
    """The rows that are decoded together. Row r of the batch is row r on the device."""

    def __init__(
        self,
        model: TextModel,
        bank: AdapterBank,
        limits: BatchLimits,
        groups: Sequence[RowGroup],
        on_row: OnRow,
        max_further: int = 0,
        batches: DeviceBatches | None = None,
    ) -> None:
        """`on_row` is called with each row when it is complete; what it returns leads to at most `max_further` rows.

        `batches` opens what is on the device (default: a batch of its own).
        Raises PromptError if a row can become longer than the base's window.
        """
        window = model.decoder.window
        room = max((len(group.prompt_ids) + group.max_tokens for group in groups), default=1)
        if window and room > window:
            raise PromptError(f"{room} tokens are more than this base's window of {window}")

        self.model = model
        self.on_row = on_row
        self.queue = deque(groups)
        self.prefill_tokens = limits.prefill_tokens
        self.capacity = min(limits.rows, sum(len(group.rows) for group in groups) + max_further)
        self.pace = _GPU if dispatch.on_gpu(bank.masters.device) else _CPU
        self.room = room
        self.longest = max((group.max_tokens for group in groups), default=1)
        self.batches = batches or DeviceBatches(model.decoder, bank, 0)
        self.device = self.batches.open(self.capacity, room, self.longest, self.pace.steps, limits.cache_tokens)

        # The state of each row on the host.
        self.rows: list[Row | None] = []
        self.slots: list[int] = []
        self.prompts: list[tuple[int, ...]] = []
        self.place_of: dict[int, int] = {}
        # What the device has sampled or is sampling, with the rows that were there then.
        self.sampled: deque[tuple[SampledSteps, list[Row | None]]] = deque()
        # How often the device has sampled, and what ended rows lead to, with the look at which it is taken.
        self.polls = 0
        self.waiting: deque[tuple[int, FollowUp[Sequence[RowGroup]]]] = deque()
        self.left_over: list[RowGroup] = []
        """Further groups that this batch has no room for: another batch is needed."""

    @torch.inference_mode()
    def run(self) -> int:
        """Decodes until every row is complete. Returns the number of decode steps."""
        self._admit()
        while self.rows:
            self._make_room()
            self.sampled.append((self.device.sample_steps(len(self.rows)), list(self.rows)))
            self.polls += 1
            if len(self.sampled) > self.pace.ahead:
                self._collect(*self.sampled.popleft())
            self._compact()
            self._take_further()
            if self.rows:
                self.device.step(len(self.rows))
            self._admit()
        self.batches.keep(self.device)
        return self.polls * self.pace.steps

    def _take_further(self) -> None:
        """Puts into the queue what rows lead to that ended long enough ago, or if nothing else is left to do."""
        idle = not self.rows and not self.queue
        while self.waiting and (idle or self.waiting[0][0] <= self.polls):
            for group in self.waiting.popleft()[1].result():
                length = len(group.prompt_ids) + group.max_tokens
                fits = length <= self.room and group.max_tokens <= self.longest and len(group.rows) <= self.capacity
                (self.queue if fits else self.left_over).append(group)

    def _admit(self) -> None:
        """Fills free rows with the groups that fit, longest first, and computes their prompts."""
        free = [r for r, row in enumerate(self.rows) if row is None] + list(range(len(self.rows), self.capacity))

        # The queue's order is kept even if a later group would fit: its longest completions decide when the whole
        # batch ends, so they must not be overtaken by short ones.
        admitted: list[Placed] = []
        pages = self._free_pages()
        while self.queue and free and (group := self._take(len(free), pages, begins=not admitted)):
            admitted.append((group, free[: len(group.rows)]))
            del free[: len(group.rows)]
            pages -= self._pages_of(group)
        if not admitted:
            return

        # Places behind the old end of the batch; the loop below fills all of them.
        new_rows = max(max(places) for _, places in admitted) + 1 - len(self.rows)
        self.rows += [None] * new_rows
        self.slots += [admitted[0][0].slot] * new_rows
        self.prompts += [()] * new_rows

        for group, places in admitted:
            for r, row in zip(places, group.rows, strict=True):
                self.rows[r] = row
                self.slots[r] = group.slot
                # Of a row that was put back, the prompt ends in its own tokens.
                self.prompts[r] = group.prompt_ids[: len(group.prompt_ids) - len(row.token_ids)]
                self.place_of[row.index] = r
        self.device.admit(admitted)

        # One pass computes prompts of all members; the bank wants its rows sorted by slot.
        for chunk in self._passes(sorted(admitted, key=lambda placed: placed[0].slot)):
            self.device.prefill(chunk)
        self._rows_changed()

    def _free_pages(self) -> float:
        """Returns how many pages new rows may take."""
        pages = self.device.pages
        if pages is None:
            return math.inf
        # The rows that are there will need more pages before long.
        return pages.free - pages.spare(len(self.place_of))

    def _pages_of(self, group: RowGroup) -> int:
        pages = self.device.pages
        return 0 if pages is None else pages.needed(len(group.prompt_ids), len(group.rows))

    def _take(self, places: int, pages: float, *, begins: bool) -> RowGroup | None:
        """Returns the next group if there are so many places and pages for it.

        An empty batch that `begins` takes as many of the group's rows as there are pages for: nothing else would free
        any.
        """
        group = self.queue[0]
        if len(group.rows) <= places and self._pages_of(group) <= pages:
            return self.queue.popleft()
        shared = self._pages_of(group) - len(group.rows)
        fitting = min(places, int(pages) - shared) if begins and not self.place_of else 0
        if fitting < 1:
            return None
        self.queue[0] = RowGroup(group.slot, group.prompt_ids, group.rows[fitting:])
        return RowGroup(group.slot, group.prompt_ids, group.rows[:fitting])

    def _make_room(self) -> None:
        """Sees to it that every row has room for the next steps. Where pages run out, rows are put back."""
        # First the host catches up with the device, because rows may have ended. Then rows go that have the fewest
        # tokens, which are the cheapest to compute again. They keep their tokens and their random numbers, so their
        # texts stay what they are.
        while not self.device.reserve(len(self.rows)):
            if self.sampled:
                self._collect(*self.sampled.popleft())
                continue
            self._put_back(min(self.place_of.values(), key=self._known_tokens))

    def _put_back(self, place: int) -> None:
        """Ends a row for now: it begins again, with the tokens that it has, as soon as there is room."""
        row = self.rows[place]
        assert row is not None, "only live rows are put back"
        self.queue.appendleft(RowGroup(self.slots[place], (*self.prompts[place], *row.token_ids), [row]))
        del self.place_of[row.index]
        self.rows[place] = None
        self.device.free([place])

    def _known_tokens(self, place: int) -> tuple[int, int]:
        """Returns the tokens of the row at this place, and the place, so that no two are equal."""
        row = self.rows[place]
        return len(self.prompts[place]) + (len(row.token_ids) if row else 0), place

    def _passes(self, admitted: list[Placed]) -> Iterator[list[Placed]]:
        """Yields the prompts in parts of at most `prefill_tokens` tokens."""
        # A pass holds a block's activations for all of its tokens. A batch's prompts at once would take more memory
        # than everything else. A prompt is not split: its attention would have to read the cache as well, and the
        # longest prompt alone takes little.
        chunk: list[Placed] = []
        tokens = 0
        for placed in admitted:
            length = len(placed[0].prompt_ids)
            if chunk and tokens + length > self.prefill_tokens:
                yield chunk
                chunk = []
                tokens = 0
            chunk.append(placed)
            tokens += length
        if chunk:
            yield chunk

    def _rows_changed(self) -> None:
        """Tells the device which member each row belongs to, and how it is sampled."""
        self.device.assign(self.slots, [row.sampling if row else _FREE_ROW for row in self.rows])

    def _collect(self, sampled: SampledSteps, rows: Sequence[Row | None]) -> None:
        """Gives `rows` the tokens that they sampled, hands over those that are complete and frees their places."""
        freed: list[int] = []
        for row, tokens, logprobs in zip(rows, *sampled.wait(), strict=False):
            # A row that had ended already was sampled in vain.
            if row is None or row.finish_reason:
                continue
            place = self.place_of[row.index]
            # Adapter weights that overflowed make the logits NaN, and sampling from NaN returns some token without an
            # error. The text would go into the archive and the gradient; NaN differs from itself.
            if any(value != value for value in logprobs):
                raise AdapterError(
                    f"slot {self.slots[place]}: not a number where a probability should be; its weights?"
                )
            extend(row, tokens, logprobs, self.model.end_ids, self.model.tokenizer)
            if row.finish_reason:
                further = self.on_row(row)
                if further is not None:
                    self.waiting.append((self.polls + _POLLS_TO_FURTHER, further))
                del self.place_of[row.index]
                self.rows[place] = None
                freed.append(place)
        if freed:
            self.device.free(freed)

    def _compact(self) -> None:
        """Moves rows from the end into free places if there are many, and drops the free places behind them."""
        live = [r for r, row in enumerate(self.rows) if row is not None]
        if live and self.device.width(len(live)) >= _COMPACT_BELOW * self.device.width(len(self.rows)):
            return

        # The last rows fill the gaps, so only as many rows move as there are gaps in front of them.
        targets = [r for r in range(len(live)) if self.rows[r] is None]
        sources = live[len(live) - len(targets) :]
        if targets:
            self.device.move(sources, targets, max(map(self._most_tokens, sources)))
            for target, source in zip(targets, sources, strict=True):
                row = self.rows[source]
                assert row is not None, "only live rows are moved"
                self.rows[target] = row
                self.slots[target] = self.slots[source]
                self.prompts[target] = self.prompts[source]
                self.place_of[row.index] = target

        # What is left behind the moved rows is free: the batch ends before it.
        for per_row in (self.rows, self.slots, self.prompts):
            del per_row[len(live) :]
        if live:
            self._rows_changed()

    def _most_tokens(self, place: int) -> int:
        """Returns how many tokens the row at this place can have on the device by now."""
        tokens, _ = self._known_tokens(place)
        return tokens + self.pace.steps * (self.pace.ahead + 1)
