"""The protocol that separates what is computed from where: in this process, in workers, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from redqueen.engine.learning.gradients import BatchSums, ForwardOptions, TokenStats, accumulate, read_stats, warm_up
from redqueen.engine.learning.packing import PromptGroup, fill_micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.model.base import Base
from redqueen.engine.sampling.continuous_batch import BatchLimits, ContinuousBatch, OnRow, RowGroup, TextModel
from redqueen.engine.sampling.device_batch import DeviceBatches
from redqueen.engine.tensor_memory import release_unused


class Executor(Protocol):
    """Samples rows and computes gradients with the weights that the members of one adapter bank have now.

    Implementations: `redqueen.engine.executor.InlineExecutor`, `redqueen.engine.workers.pool.WorkerPool` and
    `redqueen.extras.vllm.VllmExecutor`.
    """

    @property
    def streams(self) -> bool:
        """Whether `sample` takes the further groups that a row leads to. If not, it ignores what `on_row` returns."""
        ...

    @property
    def samples_apart(self) -> bool:
        """Whether other processes sample than those that learn, so that both can go on at once."""
        ...

    def sample(self, groups: Sequence[RowGroup], limits: BatchLimits, on_row: OnRow, max_further: int = 0) -> int:
        """Samples every row of `groups`; the limits hold in each process. Returns how many decode steps it took.

        `on_row` is called with each row when it is complete, in any order. What it returns leads to at most
        `max_further` further rows.
        """
        ...

    def accumulate(
        self,
        groups: Sequence[PromptGroup],
        budget: int,
        gradients: Gradients,
        options: ForwardOptions,
        on_batch: Callable[[int], None],
    ) -> list[dict[int, TokenStats]]:
        """Adds the gradients of all groups to `gradients`, in micro-batches of at most `budget` tokens.

        Returns the token statistics of each micro-batch, by slot. `on_batch` is called with the number of tokens of
        each micro-batch when it is done.
        """
        ...

    def close(self) -> None:
        """Releases what the executor holds. It may be called twice."""
        ...


# The executor of a single process: everything is computed where it is called.


class InlineExecutor:
    """Samples and computes gradients in this process, on the base's device."""

    streams = True
    """Further groups go into the running batch."""
    samples_apart = False

    def __init__(self, base: Base, bank: AdapterBank) -> None:
        self._base = base
        self._bank = bank
        self._batches = DeviceBatches(base.decoder, bank)
        # Before the first batch: what is loaded or compiled during a batch fragments the heap (see `warm_up`).
        warm_up(base.decoder)

    def sample(self, groups: Sequence[RowGroup], limits: BatchLimits, on_row: OnRow, max_further: int = 0) -> int:
        base = self._base
        model = TextModel(base.decoder, base.tokenizer.backend_tokenizer, base.end_ids)
        steps = 0
        # What training has freed lies in pieces where the cache must be whole, and the other way round.
        release_unused(base.device)
        while groups:
            batch = ContinuousBatch(model, self._bank, limits, groups, on_row, max_further, self._batches)
            steps += batch.run()
            groups = batch.left_over
            # They are among those that could still come: a batch of them needs no place for them twice.
            max_further -= sum(len(group.rows) for group in groups)
            # The next batch has a cache of its own: there must be room for one, not for two.
            del batch
            release_unused(base.device)
        return steps

    def accumulate(
        self,
        groups: Sequence[PromptGroup],
        budget: int,
        gradients: Gradients,
        options: ForwardOptions,
        on_batch: Callable[[int], None],
    ) -> list[dict[int, TokenStats]]:
        sums: list[BatchSums] = []
        for batch in fill_micro_batches(groups, budget):
            sums.append(accumulate(self._base.decoder, self._bank, gradients, batch, options))
            on_batch(sum(group.tokens for group in batch))
        # A GPU computes the last micro-batches while the host is here already, and is waited for once.
        return read_stats(sums)

    def close(self) -> None:
        """Does nothing: there is no process to end."""
