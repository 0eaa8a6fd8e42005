"""The state of a batch's rows on the device, and what is computed for all of them at once.

Shape suffixes: R rows, N tokens, V vocabulary, H hidden size, T tokens of a row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch

from redqueen.engine.kernels import dispatch
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.model.forward import Forward
from redqueen.engine.sampling import recorded
from redqueen.engine.sampling.decode_step import open_decoding
from redqueen.engine.sampling.kv_cache import PrefillEntry
from redqueen.engine.sampling.recorded import Repeater, Work, bucket_of
from redqueen.engine.sampling.tokens import RowGroup, SamplingTensors, sample_tokens, uniforms
from redqueen.engine.tensor_memory import HostCopy, to_device
from redqueen.records import SamplingParams

# A kept batch has room for a multiple of so many tokens a row.
_ROOM = 128

_Shape = tuple[int, int, int, int, int]
"""The arguments of a `DeviceBatch` after the bank: rows, room, tokens, steps, tokens of the cache."""


Placed = tuple[RowGroup, list[int]]
"""A group, and the rows of the batch that are its rows."""


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """What the rows sampled in a few steps."""

    copy: HostCopy

    def wait(self) -> tuple[list[list[int]], list[list[float]]]:
        """Returns each row's tokens and their log-probabilities, in nats, as soon as the device has computed them."""
        token_RS, logprob_RS = self.copy.wait().permute(1, 2, 0)
        return token_RS.tolist(), logprob_RS.contiguous().view(torch.float32).tolist()


class DeviceBatch:
    """Rows that are decoded together. All memory is allocated once, so that a GPU can repeat recorded work.

    Row r is row r of every tensor. A free row is computed with the others and stays at length 0.
    """

    def __init__(
        self,
        decoder: Forward,
        bank: AdapterBank,
        rows: int,
        room: int,
        tokens: int,
        steps: int,
        cache_tokens: int = 0,
    ) -> None:
        """The batch holds `rows` rows of at most `room` tokens, of which `tokens` are sampled, `steps` at a time.

        `cache_tokens` is how many tokens all rows have together, where keys and values are in pages; 0: any number.
        """
        self.shape: _Shape = (rows, room, tokens, steps, cache_tokens)
        self.decoder = decoder
        self.bank = bank
        self.capacity = rows
        self.steps = steps
        device = bank.masters.device
        self.device = device

        decoding = open_decoding(decoder, bank, rows, room, cache_tokens)
        self.cache = decoding.cache
        self.pages = decoding.pages
        self.decode = decoding.step
        self.compute = decoding.prefill
        self.cache.limit_R.zero_()
        self.params = SamplingTensors(torch.ones(4, rows, device=device), truncates=False, has_greedy=False)
        self.work_RV = torch.empty(rows, decoder.vocabulary, device=device)
        self.hidden_RH = torch.zeros(rows, decoder.hidden_size, dtype=decoder.dtype, device=device)
        self.token_R = torch.zeros(rows, dtype=torch.long, device=device)
        self.uniform_RT = torch.zeros(rows, tokens, device=device)
        self.count_R = torch.zeros(rows, dtype=torch.long, device=device)
        # Tokens and the bits of their log-probabilities, so that one copy brings both to the host.
        self.sampled_2R = torch.zeros(2, rows, dtype=torch.int32, device=device)
        self.sampled_S2R = torch.zeros(steps, 2, rows, dtype=torch.int32, device=device)

        recorder = recorded.recorder_of(device) if self.decode.recordable else None
        self.repeat: Callable[[Hashable, Work], None] = Repeater(recorder) if recorder else _just_do

    def width(self, rows: int) -> int:
        """Returns how many rows are computed for the first `rows` rows: on a GPU a bucket of them."""
        return min(bucket_of(rows), self.capacity) if dispatch.on_gpu(self.device) else rows

    def admit(self, placed: Sequence[Placed]) -> None:
        """Gives the groups' rows their places. A row that was put back has its tokens at the end of its prompt."""
        rows = list(chain.from_iterable(group.rows for group, _ in placed))
        # All of a row's random numbers are drawn now, from a stream that only its seed names. Its text therefore does
        # not depend on the other rows, on its place in the batch or on the process that samples it.
        drawn = np.zeros((len(rows), self.uniform_RT.shape[1]), np.float32)
        for row_T, row in zip(drawn, rows, strict=True):
            count = row.sampling.max_tokens
            row_T[:count] = uniforms(count, *row.seed)
        places: list[int] = []
        limits: list[int] = []
        for group, own in placed:
            length = len(group.prompt_ids)
            most = [length + row.sampling.max_tokens - len(row.token_ids) for row in group.rows]
            self.cache.begin(own, length, most)
            places += own
            # A row's last token is sampled and not computed, so the cache never holds it.
            limits += [reached - 1 for reached in most]
        sampled = [len(row.token_ids) for row in rows]
        place_R, limit_R, count_R = to_device(torch.tensor([places, limits, sampled]), self.device)
        self.uniform_RT[place_R] = to_device(torch.from_numpy(drawn), self.device)
        self.cache.limit_R[place_R] = limit_R
        self.count_R[place_R] = count_R

    def prefill(self, placed: Sequence[Placed]) -> None:
        """Computes prompts, sorted by slot, into the cache and the hidden states of the rows that continue them."""
        entries: list[PrefillEntry] = []
        prompt_ids: list[int] = []
        for group, own in placed:
            entries.append(PrefillEntry(SharedPrefix(len(prompt_ids), len(group.prompt_ids)), own))
            prompt_ids += group.prompt_ids
        position_N = torch.cat([torch.arange(entry.prefix.prompt) for entry in entries])
        ids_N, position_N = to_device(torch.stack([torch.tensor(prompt_ids), position_N]), self.device)
        hidden_NH = self.compute(ids_N, position_N, entries, [group.slot for group, _ in placed])

        # A row goes on from the hidden state of its prompt's last token.
        places: list[int] = []
        last: list[int] = []
        for entry in entries:
            places += entry.rows
            last += [entry.prefix.end - 1] * len(entry.rows)
        place_R, last_R = to_device(torch.tensor([places, last]), self.device)
        self.hidden_RH[place_R] = hidden_NH[last_R]

    def free(self, places: Sequence[int]) -> None:
        self.cache.end(places)
        self.count_R[to_device(torch.tensor(places), self.device)] = 0

    def move(self, sources: Sequence[int], targets: Sequence[int], tokens: int) -> None:
        """Puts rows of at most `tokens` tokens to other places."""
        self.cache.move(sources, targets, tokens)
        source_M, target_M = to_device(torch.tensor([sources, targets]), self.device)
        for tensor in (self.hidden_RH, self.token_R, self.uniform_RT, self.count_R):
            tensor[target_M] = tensor[source_M]

    def assign(self, slots: Sequence[int], params: Sequence[SamplingParams]) -> None:
        """Sets the member and the sampling parameters of each row, until the next call."""
        # Rows that only fill a bucket need a member as well; what they sample is not read.
        spare = self.width(len(slots)) - len(slots)
        self.decode.assign_rows([*slots, *[slots[0]] * spare])
        of_rows = SamplingTensors.of(params)
        self.params.values_4R[:, : len(params)] = to_device(of_rows.values_4R, self.device)
        self.params = replace(of_rows, values_4R=self.params.values_4R)

    def sample(self, rows: int) -> None:
        width = self.width(rows)
        self.repeat(("sample", width, self.params.truncates, self.params.has_greedy), lambda: self._sample(width))

    def step(self, rows: int) -> None:
        """Computes the hidden state after the newest token of each row. Raises RuntimeError if it has no room there."""
        if not self.cache.reserve(rows, 1):
            raise RuntimeError("no page is free for a row's next token")
        self.cache.count(rows)
        width = self.width(rows)
        self.repeat(("step", width), lambda: self._step(width))

    def reserve(self, rows: int) -> bool:
        """Returns whether the first rows have room for `steps` further tokens, which is then theirs."""
        return self.cache.reserve(rows, self.steps)

    def sample_steps(self, rows: int) -> SampledSteps:
        """Samples `steps` tokens of each row. The host need not wait for them."""
        for step in range(self.steps):
            if step:
                self.step(rows)
            self.sample(rows)
            self.sampled_S2R[step] = self.sampled_2R
        return SampledSteps(HostCopy(self.sampled_S2R))

    def _sample(self, rows: int) -> None:
        logits_RV = self.decoder.logits(self.hidden_RH[:rows])
        count_R = self.count_R[:rows]
        uniform_R = self.uniform_RT[:rows].gather(1, count_R[:, None])[:, 0]
        params = replace(self.params, values_4R=self.params.values_4R[:, :rows])
        sampled = sample_tokens(logits_RV, uniform_R, params, self.work_RV[:rows])
        self.token_R[:rows] = sampled.token_R
        # A row may be sampled beyond its end before the host notices that it has ended.
        count_R.add_(1).clamp_(max=self.uniform_RT.shape[1] - 1)
        self.sampled_2R[0, :rows] = sampled.token_R
        self.sampled_2R[1, :rows] = sampled.logprob_R.view(torch.int32)

    def _step(self, rows: int) -> None:
        self.hidden_RH[:rows] = self.decode(self.token_R[:rows])


class DeviceBatches:
    """Opens batches, and keeps small ones on a GPU: what was recorded for one serves all later ones of its shape.

    A decoding step is done twice before it is repeated, for each number of rows. Where a model is small, this takes
    longer than all repetitions.
    """

    def __init__(self, decoder: Forward, bank: AdapterBank, budget: int | None = None) -> None:
        """`budget` is how many bytes of kept batches there may be (default: `kept_bytes` of the bank's device)."""
        self._decoder = decoder
        self._bank = bank
        self._budget = kept_bytes(bank.masters.device) if budget is None else budget
        # The oldest is first.
        self._kept: dict[_Shape, DeviceBatch] = {}

    def open(self, rows: int, room: int, tokens: int, steps: int, cache_tokens: int = 0) -> DeviceBatch:
        """Returns an empty batch of at least this shape; the arguments are those of a `DeviceBatch`."""
        shape = _rounded(rows, room, tokens, steps, cache_tokens)
        if self._bytes(shape) > self._budget:
            return DeviceBatch(self._decoder, self._bank, rows, room, tokens, steps, cache_tokens)
        return self._kept.pop(shape, None) or DeviceBatch(self._decoder, self._bank, *shape)

    def keep(self, batch: DeviceBatch) -> None:
        """Takes a batch back whose rows have all ended, for the next one of its shape. The oldest ones go."""
        if self._bytes(_rounded(*batch.shape)) > self._budget:
            return
        self._kept[batch.shape] = batch
        while sum(map(self._bytes, self._kept)) > self._budget:
            del self._kept[next(iter(self._kept))]

    def _bytes(self, shape: _Shape) -> int:
        """Returns the bytes of a batch's keys, values and logits."""
        decoder = self._decoder
        if not isinstance(decoder, Decoder):
            return sys.maxsize
        rows, room, *_ = shape
        width = 2 * len(decoder.layers) * decoder.kv_heads * decoder.head_size * decoder.dtype.itemsize
        return rows * (room * width + decoder.vocabulary * (torch.float32.itemsize + decoder.dtype.itemsize))


def _rounded(rows: int, room: int, tokens: int, steps: int, cache_tokens: int) -> _Shape:
    """Returns the shape of a kept batch that has room for one of this shape."""
    # It is the same whichever batch was the first to need it. The shape decides how products round, and a resumed run
    # must round as the one that was stopped.
    return bucket_of(rows), -(-room // _ROOM) * _ROOM, -(-tokens // _ROOM) * _ROOM, steps, cache_tokens


def kept_bytes(device: torch.device) -> int:
    """Returns how many bytes of batches are kept on a device: none where nothing is recorded."""
    if recorded.recorder_of(device) is None:
        return 0
    # A plan leaves at least 5 % of a GPU free (`redqueen.engine.memory.fit`).
    return torch.cuda.get_device_properties(device).total_memory // 64


def _just_do(key: Hashable, work: Work) -> None:
    del key
    work()
