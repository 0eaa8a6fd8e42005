"""The bank: all members' factors as stacked tensors, the single source of truth for their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from redqueen.adapters.factors import Adapter, Factors
from redqueen.errors import AdapterError
from redqueen.policy.lora.decoding_products import Padded
from redqueen.policy.lora.sites import Rows, Site, Stacked, Take, TrainingKernel, Views
from redqueen.policy.lora.training_products import Grouped, Loop, group_rows, neighbours


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one layer's factors lie in a member's vector [P]: inside the two blocks of its site."""

    a: slice
    b: slice
    shape: tuple[int, int]  # inputs, rank
    a_rows: slice
    b_columns: slice

    def views(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """A [in, rank] and B [rank, out], as views of `vector`."""
        fan_in, rank = self.shape
        return vector[self.a].view(-1, fan_in)[self.a_rows].T, vector[self.b].view(rank, -1)[:, self.b_columns]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Of all members, in fp32: `flat` [slots, P], which lies as the bank's masters do, and its views by site."""

    flat: Tensor
    sites: Mapping[str, Views]

    def clear(self, slots: Iterable[int]) -> None:
        """Zeros in these slots."""
        for run in neighbours(slots):
            self.flat[run].zero_()


class AdapterBank:
    """Slots for members' factors at a base's sites.

    A member is one row of `masters` [slots, P]: fp32, all its factors in a fixed order. Members may have any rank up to
    the bank's: spare components are zero, and stay zero, for their gradients are.
    `take` makes the tensors (default: zeros on the base's device), always in the same order.
    """

    def __init__(
        self,
        sites: Iterable[Site],
        slots: int,
        rank: int,
        alpha: float,
        targets: Sequence[str],
        master: torch.dtype = torch.float32,
        take: Take | None = None,
    ) -> None:
        self.rank, self.alpha, self.targets = rank, alpha, tuple(targets)
        self.slots: dict[str, int] = {}
        self.free = list(range(slots))
        self.ranks = [rank] * slots
        self.scales = [alpha / rank] * slots
        kept = [(site, tuple(p for p in site.parts if p.name.rpartition(".")[2] in self.targets)) for site in sites]
        kept = [(site, parts) for site, parts in kept if parts]
        missing = set(self.targets) - {p.name.rpartition(".")[2] for _, parts in kept for p in parts}
        if missing:
            raise AdapterError(f"the model has no module named {', '.join(sorted(missing))} (model.targets)")
        total = sum(rank * (len(p) * site.weight.shape[1] + sum(q.end - q.start for q in p)) for site, p in kept)
        device = kept[0][0].weight.device
        take = take or (lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=device))
        self.masters = take((slots, total), master)
        self.places: dict[str, _Place] = {}
        self.stacked: dict[str, Stacked] = {}
        start = 0
        for site, parts in kept:
            stacked = self.stacked[site.name] = Stacked(site, parts, self.masters, rank, start, take)
            a, b, first = slice(start, stacked.middle), slice(stacked.middle, stacked.end), 0
            for block, part, width in zip(stacked.blocks, parts, stacked.widths, strict=True):
                columns = slice(first, first := first + width)
                self.places[part.name] = _Place(a, b, (stacked.fan_in, rank), block.inner, columns)
            start = stacked.end

    def add(self, member: str, adapter: Adapter) -> int:
        """Gives `member` a free slot with `adapter`'s weights; returns the slot. Raises AdapterError."""
        if member in self.slots:
            raise AdapterError(f"member '{member}' is in the bank already")
        if not self.free:
            raise AdapterError(f"no free slot for member '{member}': the bank holds {len(self.slots)}")
        self._check(adapter)
        self.slots[member] = self.free.pop(0)
        self.write(member, adapter)
        return self.slots[member]

    def retire(self, member: str) -> None:
        """Frees the slot of `member`."""
        self.free.insert(0, self.slots.pop(member))

    def write(self, member: str, adapter: Adapter) -> None:
        """Overwrites `member`'s weights. Raises AdapterError on another shape."""
        rank = self._check(adapter)
        slot = self.slots[member]
        self.ranks[slot], self.scales[slot] = rank, self.alpha / rank
        self.masters[slot].copy_(self.pack(adapter))
        self.refresh(member)

    def read(self, member: str) -> dict[str, Factors]:
        """A copy of `member`'s fp32 factors, on CPU."""
        return self.unpack(member, self.masters[self.slots[member]])

    def unpack(self, member: str, vector: Tensor) -> dict[str, Factors]:
        """A vector of `member`'s parameters (its weights, or a moment of its optimizer) by part, copied to the CPU."""
        rank = self.ranks[self.slots[member]]
        made: dict[str, Factors] = {}
        for name, place in self.places.items():
            a, b = place.views(vector.detach())
            made[name] = Factors(_copy(a[:, :rank]), _copy(b[:rank]))
        return made

    def pack(self, adapter: Adapter) -> Tensor:
        """The vector [P] that `unpack` takes apart into `adapter`; zero where a lower rank leaves room."""
        vector = torch.zeros_like(self.masters[0])
        for name, factors in adapter.items():
            a, b = self.places[name].views(vector)
            a[:, : factors.a.shape[1]].copy_(factors.a)
            b[: factors.b.shape[0]].copy_(factors.b)
        return vector

    def refresh(self, *members: str) -> None:
        """Call after writing to these members' masters: brings the copies that products use up to date."""
        for slots in neighbours(self.slots[member] for member in members):
            scale_S = torch.tensor(self.scales[slots], dtype=self.masters.dtype, device=self.masters.device)
            for stacked in self.stacked.values():
                stacked.refresh(slots, scale_S[:, None, None])

    def gradients(self, take: Take | None = None) -> Gradients:
        """Zeros, made by `take` (default: on the masters' device)."""
        flat = take(tuple(self.masters.shape), self.masters.dtype) if take else torch.zeros_like(self.masters)
        return Gradients(flat, {name: stacked.views(flat) for name, stacked in self.stacked.items()})

    def rows(
        self, slots: Sequence[int], lengths: Sequence[int] | None = None, gradients: Gradients | None = None
    ) -> Rows:
        """For a batch whose item i, of `lengths[i]` rows, belongs to `slots[i]`; sorted by slot.

        A backward pass adds to `gradients`; without them the rows are for a forward pass only.
        """
        groups = group_rows(slots, lengths)
        device = self.masters.device
        able = device.type == "cuda" and hasattr(F, "grouped_mm")
        grouped = able and all(stacked.aligned for stacked in self.stacked.values())
        kernel: TrainingKernel = Grouped(groups, device) if grouped else Loop(groups)
        count = groups[-1][2] if groups else 0
        return Rows(self.stacked, self.scales, kernel, count, gradients.sites if gradients else {})

    def decoding(self, slots: Sequence[int]) -> Rows:
        """For a batch of one row a sequence, of which row i belongs to `slots[i]`, in any order; forward only."""
        return Rows(self.stacked, self.scales, Padded(slots, self.masters.device), len(slots), {})

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """(in, out) of each adapted layer."""
        return {
            name: (place.shape[0], place.b_columns.stop - place.b_columns.start) for name, place in self.places.items()
        }

    def _check(self, adapter: Adapter) -> int:
        """The adapter's rank."""
        if adapter.keys() != self.places.keys():
            odd = sorted(adapter.keys() ^ self.places.keys())
            raise AdapterError(f"adapter and base differ in {len(odd)} sites, e.g. {odd[0]}")
        rank = next(iter(adapter.values())).a.shape[1]
        for name, (fan_in, fan_out) in self.shapes().items():
            a, b = adapter[name].a.shape, adapter[name].b.shape
            if a != (fan_in, rank) or b != (rank, fan_out) or rank > self.rank:
                raise AdapterError(
                    f"{name}: adapter has factors {tuple(a)} and {tuple(b)}, "
                    f"the bank holds ({fan_in}, r) and (r, {fan_out}) with one r up to {self.rank}"
                )
        return rank


def _copy(t: Tensor) -> Tensor:
    return t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
