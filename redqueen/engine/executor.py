"""The protocol that separates what is computed from where: here, in worker processes, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from redqueen.engine.learning.gradients import ForwardOptions, TokenStats
from redqueen.engine.learning.packing import PromptGroup
from redqueen.engine.lora.adapter_bank import Gradients
from redqueen.engine.sampling.continuous_batch import BatchLimits, OnRow, RowGroup


class Executor(Protocol):
    """Samples rows and computes gradients with the weights that the members of one adapter bank have now.

    Implementations: `redqueen.engine.workers.inline.InlineExecutor`, `redqueen.engine.workers.pool.WorkerPool` and
    `redqueen.extras.vllm.executor.VllmExecutor`.
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
