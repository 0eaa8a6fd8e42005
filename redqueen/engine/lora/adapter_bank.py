"""The adapter bank: all members' factors as stacked tensors, the single source of truth for their weights.

Shape suffixes: M members, P one member's parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.config import AUTO_TARGETS
from redqueen.engine.adapters import Adapter, Factors, check_targets
from redqueen.engine.lora.products import (
    AdaptedSite,
    DecodingProducts,
    SlicedMatmul,
    contiguous_runs,
    decoding_products,
    group_rows,
)
from redqueen.engine.lora.sites import (
    Allocate,
    Projection,
    RowAdapters,
    SiteGradients,
    StackedFactors,
)
from redqueen.engine.tensor_memory import to_device
from redqueen.errors import AdapterError


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one layer's factors lie in a member's vector [P]."""

    site: StackedFactors
    index: int
    """The layer's number among the site's."""

    @property
    def shape(self) -> tuple[int, int]:
        """(in, out) of the layer."""
        return self.site.fan_in, self.site.widths[self.index]

    def views(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Returns A [in, rank] and B [rank, out] as views of `vector`."""
        a, b = self.site.views(vector[None])
        return a[0, self.site.projections[self.index].inner].T, b[self.index][0]


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of all members, in fp32."""

    flat: Tensor
    """[S, P], laid out as the bank's masters."""
    sites: Mapping[str, SiteGradients]
    """Views of `flat` by site."""

    def clear(self, slots: Iterable[int]) -> None:
        """Writes zeros in these slots, with one call for each run of consecutive slots."""
        for run in contiguous_runs(slots):
            self.flat[run].zero_()


class AdapterBank:
    """Slots for members' factors at a base's sites.

    A member is one row of `masters` [S, P]: all its factors in fp32, in a fixed order. Members may have any rank up to
    the bank's: unused components are zero and stay zero, because their gradients are zero.
    """

    def __init__(
        self,
        sites: Iterable[AdaptedSite],
        slots: int,
        rank: int,
        alpha: float,
        targets: Sequence[str],
        master: torch.dtype = torch.float32,
        allocate: Allocate | None = None,
    ) -> None:
        """`allocate` makes the tensors, always in the same order (default: zeros on the base's device).

        Targets `auto` are all layers of the sites. Raises AdapterError if the base has no layer of a name in `targets`.
        """
        self.rank = rank
        self.alpha = alpha
        self.targets = tuple(targets)
        self.slots: dict[str, int] = {}
        self.free = list(range(slots))
        self.ranks = [rank] * slots
        self.scales = [alpha / rank] * slots
        # How often a slot's weights were written. What was computed or copied at another count is stale.
        self.writes = [0] * slots

        sites = tuple(sites)
        present = dict.fromkeys(_layer_type(projection) for site in sites for projection in site.projections)
        if self.targets == AUTO_TARGETS:
            self.targets = tuple(present)
        check_targets(self.targets, present)
        adapted = _adapted(sites, self.targets)
        device = adapted[0][0].device
        allocate = allocate or (lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=device))
        # All of a member's weights lie in one row, so that the optimizer sees one vector per member. They are fp32,
        # because bf16 weights would round small updates away.
        parameters = 0
        for site, projections in adapted:
            parameters += rank * sum(site.fan_in + projection.width for projection in projections)
        self.masters = allocate((slots, parameters), master)

        self.places: dict[str, _Place] = {}
        self.stacked: dict[str, StackedFactors] = {}
        start = 0
        for site, projections in adapted:
            stacked = StackedFactors(site.fan_in, site.dtype, projections, self.masters, rank, start, allocate)
            self.stacked[site.name] = stacked
            for index, projection in enumerate(projections):
                self.places[projection.name] = _Place(stacked, index)
            start = stacked.end

    def add(self, member: str, adapter: Adapter, slot: int | None = None) -> int:
        """Gives `member` a free slot with `adapter`'s weights, by default the first; returns the slot.

        Raises AdapterError if the member is in the bank, the slot is not free, or the adapter does not fit the base.
        """
        if member in self.slots:
            raise AdapterError(f"member '{member}' is in the bank already")
        if not self.free:
            raise AdapterError(f"no free slot for member '{member}': the bank holds {len(self.slots)}")
        # The check comes before the slot is taken, so that a refused adapter leaves the bank as it was.
        self._check(adapter)
        if slot is None:
            slot = self.free[0]
        if slot not in self.free:
            raise AdapterError(f"no free slot {slot} for member '{member}'")
        self.free.remove(slot)
        self.slots[member] = slot
        self.write(member, adapter)
        return slot

    def retire(self, member: str) -> None:
        self.free.insert(0, self.slots.pop(member))

    def write(self, member: str, adapter: Adapter) -> None:
        """Overwrites `member`'s weights. Raises AdapterError if the adapter does not fit the base."""
        rank = self._check(adapter)
        slot = self.slots[member]
        self.ranks[slot] = rank
        self.scales[slot] = self.alpha / rank
        # The whole row is overwritten. A slot's former member may have had a higher rank, and its weights would
        # otherwise remain in the components that the new member lacks.
        self.masters[slot].copy_(self.pack(adapter))
        self.refresh(member)

    def read(self, member: str) -> dict[str, Factors]:
        """Returns a copy of `member`'s fp32 factors, on the CPU."""
        return self.unpack(member, self.masters[self.slots[member]])

    def unpack(self, member: str, vector: Tensor) -> dict[str, Factors]:
        """Splits a vector [P] of `member` (its weights, or a moment of its optimizer) by layer, copied to the CPU."""
        rank = self.ranks[self.slots[member]]
        # The vector leaves a GPU as a whole: one copy, and not two for each of hundreds of layers.
        vector = vector.detach().cpu()
        by_layer: dict[str, Factors] = {}
        for name, place in self.places.items():
            a, b = place.views(vector)
            by_layer[name] = Factors(_copy(a[:, :rank]), _copy(b[:rank]))
        return by_layer

    def pack(self, adapter: Adapter) -> Tensor:
        """Returns an adapter as a vector [P], with zeros in the components that it lacks. Inverts `unpack`."""
        # The vector is filled on the CPU, where adapters are, and goes to a GPU in one copy.
        vector = torch.zeros_like(self.masters[0], device="cpu")
        for name, factors in adapter.items():
            a, b = self.places[name].views(vector)
            a[:, : factors.a.shape[1]].copy_(factors.a)
            b[: factors.b.shape[0]].copy_(factors.b)
        return vector.to(self.masters.device)

    def refresh(self, *members: str) -> None:
        """Updates the copies that products read. Call it after every write to these members' masters."""
        for member in members:
            self.writes[self.slots[member]] += 1
        for slots in contiguous_runs(self.slots[member] for member in members):
            scale_M = to_device(torch.tensor(self.scales[slots], dtype=self.masters.dtype), self.masters.device)
            for stacked in self.stacked.values():
                stacked.refresh(slots, scale_M[:, None, None])

    def gradients(self, allocate: Allocate | None = None) -> Gradients:
        """Returns zeros for all members, made by `allocate` (default: on the masters' device)."""
        allocate = allocate or (lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=self.masters.device))
        flat = allocate(tuple(self.masters.shape), self.masters.dtype)
        return Gradients(flat, {name: SiteGradients(*stacked.views(flat)) for name, stacked in self.stacked.items()})

    def rows(
        self, slots: Sequence[int], lengths: Sequence[int] | None = None, gradients: Gradients | None = None
    ) -> RowAdapters:
        """Returns the adapters of a batch that is sorted by slot: item i has `lengths[i]` rows, of slot `slots[i]`.

        A backward pass adds to `gradients`; without them the result is for a forward pass only.
        Raises ValueError if the batch is not sorted by slot.
        """
        # Rows are sorted by slot so that each member's rows are one slice: its products then need no gather, and no
        # device has to tell the host where a member's rows end.
        groups = group_rows(slots, lengths)
        count = groups[-1][2] if groups else 0
        return RowAdapters(self.stacked, self.scales, SlicedMatmul(groups), count, gradients.sites if gradients else {})

    def decoding_products(self, rows: int) -> DecodingProducts:
        """Returns the low-rank products of decoding steps of at most `rows` rows."""
        return decoding_products(self.stacked.values(), len(self.masters), rows, self.masters.device)

    def decoding(self, products: DecodingProducts, rows: int) -> RowAdapters:
        """Returns the adapters of a decoding step of `rows` rows, forward only; `products` knows their members."""
        return RowAdapters(self.stacked, self.scales, products, rows, {})

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """Returns (in, out) of each adapted layer, by name."""
        return {name: place.shape for name, place in self.places.items()}

    def _check(self, adapter: Adapter) -> int:
        """Returns the adapter's rank. Raises AdapterError if it does not fit the base."""
        if adapter.keys() != self.places.keys():
            differing = sorted(adapter.keys() ^ self.places.keys())
            raise AdapterError(f"adapter and base differ in {len(differing)} sites, e.g. {differing[0]}")
        rank = next(iter(adapter.values())).a.shape[1]
        for name, (fan_in, fan_out) in self.shapes().items():
            a, b = adapter[name].a.shape, adapter[name].b.shape
            if a != (fan_in, rank) or b != (rank, fan_out) or rank > self.rank:
                raise AdapterError(
                    f"{name}: adapter has factors {tuple(a)} and {tuple(b)}, "
                    f"the bank holds ({fan_in}, r) and (r, {fan_out}) with one r up to {self.rank}"
                )
        return rank


def _adapted(sites: Iterable[AdaptedSite], targets: Sequence[str]) -> list[tuple[AdaptedSite, tuple[Projection, ...]]]:
    """Returns the sites that have layers named in `targets`, each with these layers."""
    adapted: list[tuple[AdaptedSite, tuple[Projection, ...]]] = []
    for site in sites:
        projections = tuple(p for p in site.projections if _layer_type(p) in targets)
        if projections:
            adapted.append((site, projections))
    return adapted


def _layer_type(projection: Projection) -> str:
    """Returns the last part of a layer's name: `q_proj` for `model.layers.0.self_attn.q_proj`."""
    return projection.name.rpartition(".")[2]


def _copy(tensor: Tensor) -> Tensor:
    """Returns a contiguous copy, which later updates of the bank do not change."""
    return tensor.clone(memory_format=torch.contiguous_format)
