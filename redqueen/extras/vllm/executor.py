"""Samples with vLLM, and leaves gradients to another executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from redqueen.base import streams
from redqueen.config import SamplingConfig
from redqueen.engine.executor import Executor
from redqueen.engine.learning.gradients import ForwardOptions, TokenStats
from redqueen.engine.learning.packing import PromptGroup
from redqueen.engine.lora.adapter_bank import AdapterBank, Gradients
from redqueen.engine.model.base import Base
from redqueen.engine.sampling.completion import Row, extend
from redqueen.engine.sampling.continuous_batch import BatchLimits, OnRow, RowGroup, TextModel
from redqueen.errors import AdapterError, PromptError, WorkerError
from redqueen.extras.vllm.adapter_versions import AdapterVersions
from redqueen.extras.vllm.engine import Engine, Piece

# Seeds of torch's generators have 64 bits, and vLLM sends them as signed numbers.
_SEEDS = 2**63


def open_executor(
    base: Base, bank: AdapterBank, capacity: int, rank: int, sampling: SamplingConfig, learning: Executor
) -> VllmExecutor:
    """Returns an executor that samples with vLLM. If vLLM does not start, `learning` is closed."""
    try:
        # One more than there are members: a new version is loaded before the old one is unloaded.
        engine = Engine(base, capacity + 1, rank, sampling)
    except BaseException:
        learning.close()
        raise
    return VllmExecutor(base, bank, engine, learning)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of one call, by the names of their requests."""

    rows: dict[str, tuple[Row, int]]
    """Rows that are being sampled, and their slots."""
    waiting: dict[str, RowGroup]
    """Groups of which only the first row was added, by its request."""


class VllmExecutor:
    """Samples with the weights that the bank has at the time of the call; `learning` computes gradients.

    vLLM draws tokens with generators of its own, so texts differ from the embedded sampler's except at temperature 0.
    """

    streams = False
    samples_apart = True
    """Further groups wait until all others have ended."""

    def __init__(self, base: Base, bank: AdapterBank, engine: Engine, learning: Executor) -> None:
        self.bank = bank
        self.engine = engine
        self.learning = learning
        self.versions = AdapterVersions(bank, engine, base.name, base.model.dtype)
        self._model = TextModel(base.decoder, base.tokenizer.backend_tokenizer, base.end_ids)
        self._numbers = count()

    def sample(self, groups: Sequence[RowGroup], limits: BatchLimits, on_row: OnRow, max_further: int = 0) -> int:
        """Samples every row. The engine was started with its limits, so `limits` are not used.

        Returns the number of vLLM's steps, in which it also computes prompts.
        """
        del max_further
        for group in groups:
            longest = len(group.prompt_ids) + group.max_tokens
            if longest > self.engine.longest:
                raise PromptError(f"{longest} tokens are more than the {self.engine.longest} of this base")
        self.versions.update(group.slot for group in groups)

        batch = _Batch({}, {})
        steps = 0
        try:
            for group in groups:
                leader = self._add(batch, group, group.rows[0])
                batch.waiting[leader] = group
            while batch.rows:
                self._step(batch, on_row)
                steps += 1
        except WorkerError:
            # There is no engine that could be told to stop.
            raise
        except BaseException:
            self.engine.abort(batch.rows)
            raise
        return steps

    def _add(self, batch: _Batch, group: RowGroup, row: Row) -> str:
        """Adds a row's request to the engine and to `batch`; returns its name."""
        request = str(next(self._numbers))
        seed = streams.key(*row.seed) % _SEEDS
        self.engine.add(request, group.prompt_ids, row.sampling, seed, self.versions.loaded[group.slot].handle)
        batch.rows[request] = (row, group.slot)
        return request

    def _step(self, batch: _Batch, on_row: OnRow) -> None:
        """Waits for tokens, and hands over the rows that they end."""
        surplus: list[str] = []
        for piece in self.engine.step():
            # The first row's token says that the prompt is in the cache, where the others find it. Had all come at
            # once, each would have computed the prompt.
            group = batch.waiting.pop(piece.request, None)
            if group is not None:
                for row in group.rows[1:]:
                    self._add(batch, group, row)
            # An ended request may be sampled once more before the engine hears that it has ended.
            if piece.request not in batch.rows:
                continue
            row, slot = batch.rows[piece.request]
            self._extend(row, slot, piece)
            if row.finish_reason:
                del batch.rows[piece.request]
                if not piece.ended:
                    surplus.append(piece.request)
                on_row(row)
        self.engine.abort(surplus)

    def _extend(self, row: Row, slot: int, piece: Piece) -> None:
        """Appends new tokens to a row. Raises AdapterError for weights that overflow."""
        if any(value != value for value in piece.logprobs):
            name = self.versions.loaded[slot].name
            raise AdapterError(f"{name}: not a number where a probability should be; its weights?")
        # vLLM knows end tokens and lengths. Strings and lines that end a row are looked for here, by the same rule as
        # in the embedded sampler.
        extend(row, piece.token_ids, piece.logprobs, self._model.end_ids, self._model.tokenizer)
        if piece.ended and not row.finish_reason:
            raise WorkerError(f"vLLM ended a request before its text had ended: {piece.ended}")

    def accumulate(
        self,
        groups: Sequence[PromptGroup],
        budget: int,
        gradients: Gradients,
        options: ForwardOptions,
        on_batch: Callable[[int], None],
    ) -> list[dict[int, TokenStats]]:
        return self.learning.accumulate(groups, budget, gradients, options, on_batch)

    def close(self) -> None:
        self.engine.close()
        self.learning.close()
