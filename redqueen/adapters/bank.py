"""The bank: all members' factors as stacked tensors, the single source of truth for their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from redqueen import streams
from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.linear import MultiAdapterLinear, Routing
from redqueen.errors import UserError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


class AdapterError(UserError):
    """An adapter, or a base model, that cannot be used here."""


class AdapterBank:
    """Multi-adapter layers in a frozen base, and the slot of each member.

    A slot's `version` grows whenever other weights are written into it and is never reused.
    """

    def __init__(self, model: nn.Module, slots: int, rank: int, alpha: float, targets: Iterable[str]) -> None:
        family = str(getattr(getattr(model, "config", None), "model_type", "unknown"))
        if family not in FAMILIES:
            raise AdapterError(f"model family '{family}' is not supported: choose one of {', '.join(FAMILIES)}")
        self.rank, self.alpha, self.targets = rank, alpha, tuple(targets)
        self.scale = alpha / rank
        self.routing = Routing()
        self.slots: dict[str, int] = {}
        self.free = list(range(slots))
        self.versions = [0] * slots
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        self.sites: dict[str, MultiAdapterLinear] = {}
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in self.targets:
                site = MultiAdapterLinear(module, slots, rank, self.scale, self.routing)
                model.set_submodule(name, site)
                self.sites[name] = site
        missing = set(self.targets) - {name.rpartition(".")[2] for name in self.sites}
        if missing:
            raise AdapterError(f"the model has no module named {', '.join(sorted(missing))} (model.targets)")

    def add(self, member: str, adapter: Adapter) -> int:
        """Gives `member` a free slot with `adapter`'s weights; returns the slot."""
        if member in self.slots:
            raise AdapterError(f"member '{member}' is in the bank already")
        if not self.free:
            raise AdapterError(f"no free slot for member '{member}': the bank holds {len(self.slots)}")
        self._check(adapter)
        slot = self.free.pop(0)
        self.slots[member] = slot
        self.write(member, adapter)
        return slot

    def retire(self, member: str) -> None:
        """Frees the slot of `member`."""
        self.free.insert(0, self.slots.pop(member))

    def write(self, member: str, adapter: Adapter) -> None:
        """Overwrites `member`'s weights and bumps its slot's version. Raises AdapterError on another shape."""
        self._check(adapter)
        slot = self.slots[member]
        with torch.no_grad():
            for name, site in self.sites.items():
                site.a[slot].copy_(adapter[name].a)
                site.b[slot].copy_(adapter[name].b)
                site.refresh(slot)
        self.versions[slot] += 1

    def _check(self, adapter: Adapter) -> None:
        if adapter.keys() != self.sites.keys():
            odd = sorted(adapter.keys() ^ self.sites.keys())
            raise AdapterError(f"adapter and base differ in {len(odd)} sites, e.g. {odd[0]}")
        for name, site in self.sites.items():
            factors = adapter[name]
            if factors.a.shape != site.a.shape[1:] or factors.b.shape != site.b.shape[1:]:
                raise AdapterError(
                    f"{name}: adapter has factors {tuple(factors.a.shape)} and {tuple(factors.b.shape)}, "
                    f"the bank holds {tuple(site.a.shape[1:])} and {tuple(site.b.shape[1:])}"
                )

    def read(self, member: str) -> dict[str, Factors]:
        """A copy of `member`'s fp32 factors, on CPU."""
        slot = self.slots[member]
        return {name: Factors(_copy(site.a[slot]), _copy(site.b[slot])) for name, site in self.sites.items()}

    def masters(self, member: str) -> list[Tensor]:
        """Views of `member`'s fp32 weights, in a fixed order: writing to them moves the member."""
        slot = self.slots[member]
        return [view for site in self.sites.values() for view in (site.a.detach()[slot], site.b.detach()[slot])]

    def gradients(self, member: str) -> list[Tensor]:
        """Views of `member`'s gradients, in the order of `masters`; zeros where no backward pass went."""
        slot = self.slots[member]
        return [
            torch.zeros_like(p[slot]) if p.grad is None else p.grad[slot]
            for site in self.sites.values()
            for p in (site.a, site.b)
        ]

    def refresh(self, member: str) -> None:
        """Call after writing to `masters`."""
        for site in self.sites.values():
            site.refresh(self.slots[member])

    def zero_grad(self) -> None:
        for site in self.sites.values():
            site.a.grad = site.b.grad = None

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """(in, out) of each site."""
        return {name: (site.base.in_features, site.base.out_features) for name, site in self.sites.items()}

    def order(self, members: Sequence[str]) -> list[int]:
        """Indices of `members` sorted by slot (stable): the order in which rows must enter the model."""
        return sorted(range(len(members)), key=lambda i: self.slots[members[i]])


def generator(*purpose: str | int) -> torch.Generator:
    """A CPU generator for this purpose (see `redqueen.streams`), so that noise is the same on every device."""
    return torch.Generator().manual_seed(streams.key(*purpose) % 2**63)


def fresh(shapes: Mapping[str, tuple[int, int]], rank: int, generator: torch.Generator) -> dict[str, Factors]:
    """A new adapter: A as PEFT draws it (Kaiming-uniform with a = sqrt 5), B zero, so ΔW = 0."""
    adapter: dict[str, Factors] = {}
    for name, (fan_in, fan_out) in shapes.items():
        a = (torch.rand(fan_in, rank, generator=generator) * 2 - 1) / fan_in**0.5
        adapter[name] = Factors(a, torch.zeros(rank, fan_out))
    return adapter


def perturb(adapter: Adapter, share: float, generator: torch.Generator) -> dict[str, Factors]:
    """`adapter` plus Gaussian noise of `share` times each tensor's own standard deviation."""

    def noisy(t: Tensor) -> Tensor:
        return t + share * t.std(correction=0) * torch.randn(t.shape, generator=generator)

    return {name: Factors(noisy(f.a), noisy(f.b)) for name, f in adapter.items()}


def _copy(t: Tensor) -> Tensor:
    return t.detach().to("cpu", copy=True)
