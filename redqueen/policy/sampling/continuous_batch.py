"""The running batch of the sampler: rows of different members, whose places others take when they are finished.

Shape suffixes: R rows of the batch, N tokens, V vocabulary, H hidden size, T tokens of a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from redqueen import streams
from redqueen.config import SamplingConfig
from redqueen.errors import AdapterError
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.attention import SharedPrefix
from redqueen.policy.model.decoder import Decoder
from redqueen.policy.sampling.decode_step import stepper
from redqueen.policy.sampling.kv_cache import Cache, Fill, Prefill
from redqueen.policy.sampling.tokens import Drawn, draw

# dead rows are closed up when they are more than this share of the batch
_HOLES = 0.125
# how many tokens are drawn before the host looks at them: on a GPU looking means waiting
_STRIDE = {"cpu": 1, "cuda": 8}


@dataclass(frozen=True, slots=True)
class Writer:
    """What writing needs beside the members' weights. `tokenizer` is one of the `tokenizers` library."""

    decoder: Decoder
    tokenizer: Any
    end_ids: frozenset[int]


@dataclass(slots=True)
class Row:
    """One completion in the making; `index` is its place among the requests."""

    index: int
    seed: tuple[str | int, ...]
    max_tokens: int
    stop: tuple[str, ...]
    tokens: list[int] = field(default_factory=list[int])
    sampled: list[float] = field(default_factory=list[float])
    policy: list[float] = field(default_factory=list[float])
    finished: bool = False

    @property
    def done(self) -> bool:
        return self.finished or len(self.tokens) >= self.max_tokens


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that continue one prompt of one member."""

    slot: int
    prompt_ids: tuple[int, ...]
    rows: list[Row]


class Batch:
    """The rows that are being written. Row r of the batch is row r of the cache."""

    def __init__(
        self,
        writer: Writer,
        bank: AdapterBank,
        config: SamplingConfig,
        groups: Sequence[Group],
        keep: Callable[[Row], None],
    ) -> None:
        """`keep` is called with each row when it is done."""
        self.writer, self.bank, self.config, self.keep = writer, bank, config, keep
        self.decoder, self.queue = writer.decoder, deque(groups)
        self.device = device = bank.masters.device
        self.stride = _STRIDE[device.type]
        capacity = min(config.batch_rows, sum(len(g.rows) for g in groups))
        tokens = max((r.max_tokens for g in groups for r in g.rows), default=0) + self.stride
        room = max((len(g.prompt_ids) for g in groups), default=0) + tokens
        if self.decoder.window and room > self.decoder.window:
            raise AdapterError(f"{room} tokens are more than this base's sliding window of {self.decoder.window}")
        self.capacity = capacity
        self.rows: list[Row | None] = []
        self.slots: list[int] = []
        self.lengths: list[int] = []  # tokens in the cache, as the host knows without asking the device
        self.cache = Cache(self.decoder, capacity)
        self.step = stepper(self.decoder, bank, self.cache)
        self.work_RV = torch.empty(capacity, len(self.decoder.embed_VH), device=device)
        self.hidden_RH = self.decoder.embed_VH.new_zeros(capacity, self.decoder.embed_VH.shape[1])
        self.token_R = torch.zeros(capacity, dtype=torch.long, device=device)
        self.uniform_RT = torch.zeros(capacity, tokens, device=device)
        self.count_R = torch.zeros(capacity, dtype=torch.long, device=device)

    @torch.inference_mode()
    def run(self) -> None:
        """Until every row is written."""
        self._admit()
        while self.rows:
            drawn = [self._draw()]
            for _ in range(self.stride - 1):
                self._step()
                drawn.append(self._draw())
            self._look(drawn)
            self._close_up()
            if self.rows:
                self._step()
            self._admit()

    def _admit(self) -> None:
        """Fills free rows with the groups that fit, longest first, and computes their prompts in one pass."""
        free = [r for r, row in enumerate(self.rows) if row is None] + list(range(len(self.rows), self.capacity))
        taken: list[tuple[Group, list[int]]] = []
        while self.queue and len(self.queue[0].rows) <= len(free):
            group = self.queue.popleft()
            taken.append((group, free[: len(group.rows)]))
            del free[: len(group.rows)]
        if not taken:
            return
        grown = max(max(places) for _, places in taken) + 1 - len(self.rows)
        self.rows += [None] * grown
        self.slots += [taken[0][0].slot] * grown
        self.lengths += [0] * grown
        for group, places in taken:
            for r, row in zip(places, group.rows, strict=True):
                self.rows[r], self.slots[r], self.lengths[r] = row, group.slot, len(group.prompt_ids)
                uniforms = streams.uniforms(row.max_tokens, *row.seed)
                self.uniform_RT[r, : len(uniforms)] = torch.from_numpy(uniforms)
                self.count_R[r] = 0
        self._prefill(sorted(taken, key=lambda pair: pair[0].slot))
        self.step.members(self.slots)

    def _prefill(self, taken: list[tuple[Group, list[int]]]) -> None:
        fills: list[Fill] = []
        start = 0
        for group, places in taken:
            fills.append(Fill(SharedPrefix(start, len(group.prompt_ids)), places))
            start += len(group.prompt_ids)
        device = self.device
        ids_N = torch.tensor([t for group, _ in taken for t in group.prompt_ids], device=device)
        position_N = torch.cat([torch.arange(fill.prefix.prompt, device=device) for fill in fills])
        adapters = self.bank.rows([group.slot for group, _ in taken], [fill.prefix.prompt for fill in fills])
        hidden_NH = self.decoder.hidden(ids_N, position_N, Prefill(self.cache, fills), adapters)
        for fill in fills:
            self.hidden_RH[fill.rows] = hidden_NH[fill.prefix.end - 1]

    def _draw(self) -> Drawn:
        rows, config = len(self.rows), self.config
        logits_RV = self.decoder.head(self.hidden_RH[:rows])
        uniform_R = self.uniform_RT[:rows].gather(1, self.count_R[:rows, None])[:, 0]
        work_RV = self.work_RV[:rows]
        drawn = draw(logits_RV, uniform_R, config.temperature, config.top_p, config.top_k, work_RV)
        self.token_R[:rows] = drawn.token_R
        self.count_R[:rows] += 1
        return drawn

    def _step(self) -> None:
        """Puts every row's newest token through the decoder."""
        rows = len(self.rows)
        self.hidden_RH[:rows] = self.step(self.token_R[:rows], max(self.lengths))
        self.lengths = [length + 1 for length in self.lengths]

    def _look(self, drawn: list[Drawn]) -> None:
        """Gives the rows their tokens, hands over those that are done and frees their places."""
        columns = [
            torch.stack(list(values), 1)
            for values in zip(*((d.token_R, d.sampled_R, d.policy_R) for d in drawn), strict=True)
        ]
        tokens, sampled, policy = (column.tolist() for column in columns)
        dead: list[int] = []
        for r, row in enumerate(self.rows):
            if row is not None:
                if any(value != value for value in sampled[r]):
                    raise AdapterError(
                        f"slot {self.slots[r]}: not a number where a probability should be; its weights?"
                    )
                self._extend(row, tokens[r], sampled[r], policy[r])
                if row.done:
                    self.keep(row)
                    self.rows[r] = None
            if self.rows[r] is None:
                dead.append(r)
                self.lengths[r] = 0
        if dead:
            # a free row is stepped with the others until it is used again: at the start of its place
            self.cache.length_R[dead] = 0
            self.count_R[dead] = 0

    def _extend(self, row: Row, tokens: list[int], sampled: list[float], policy: list[float]) -> None:
        for values in zip(tokens, sampled, policy, strict=True):
            if row.done:
                return
            for own, value in zip((row.tokens, row.sampled, row.policy), values, strict=True):
                own.append(value)  # type: ignore[arg-type]
            row.finished = values[0] in self.writer.end_ids or self._stopped(row)

    def _stopped(self, row: Row) -> bool:
        if not row.stop:
            return False
        # one token is at least one byte: the tail holds every stop string that this token can complete
        last = row.tokens[-(max(len(s.encode()) for s in row.stop) + 1) :]
        tail = self.writer.tokenizer.decode(last, skip_special_tokens=False)
        return any(s in tail for s in row.stop)

    def _close_up(self) -> None:
        """Moves rows from the end into holes, when there are many, or at the end of the batch anyway."""
        live = [r for r, row in enumerate(self.rows) if row is not None]
        if len(self.rows) - len(live) > _HOLES * len(self.rows):
            holes = [r for r in range(len(live)) if self.rows[r] is None]
            movers = live[len(live) - len(holes) :]
            if holes:
                self.cache.move(movers, holes)
                for tensor in (self.hidden_RH, self.token_R, self.uniform_RT, self.count_R):
                    tensor[holes] = tensor[movers]
                for hole, mover in zip(holes, movers, strict=True):
                    self.rows[hole], self.slots[hole] = self.rows[mover], self.slots[mover]
                    self.lengths[hole] = self.lengths[mover]
            for own in (self.rows, self.slots, self.lengths):
                del own[len(live) :]
            if live:
                self.step.members(self.slots)
