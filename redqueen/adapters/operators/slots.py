"""How an operator goes over its parents' slots: checked, in parallel, each slot with random numbers of its own.

A slot is what one module of one layer holds: a site, or one slice of a stacked site (a [n, in, r], b [n, r, out]).
Slots are independent of each other, so they are shared out among as many threads as torch may use, and each is
computed by one thread: the child is the same for any number of threads, and tall thin products are not cut into
pieces too small to gain from it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.adapters.factors import Adapter, Factors

Operator = Callable[[Sequence[Adapter], torch.Generator], Adapter]
"""(parents, fitter first; CPU generator) -> child. An operator's own parameters are keywords with defaults."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a pair of factors lives: the site's name and, in a stacked site, the index along its first axis."""

    site: str
    index: int | None = None

    def of(self, adapter: Adapter) -> Factors:
        f = adapter[self.site]
        return f if self.index is None else Factors(f.a[self.index], f.b[self.index])


def slots_of(adapter: Adapter) -> list[Slot]:
    """Every slot, in the order of the sites' names."""
    return [
        slot
        for site in sorted(adapter)
        for slot in (
            [Slot(site)] if adapter[site].a.ndim == 2 else [Slot(site, i) for i in range(adapter[site].a.shape[0])]
        )
    ]


Make = Callable[[Slot, list[Factors], torch.Generator], Factors]
"""(slot, the parents' factors there, the slot's generator) -> the child's factors there, in new storage."""


def by_slot(parents: Sequence[Adapter], generator: torch.Generator, make: Make) -> Adapter:
    """The child made slot by slot; `parents` are checked. Its mapping keeps the first parent's order.

    One number is drawn from `generator`; with a slot's place in the order of names it seeds the slot's generator.
    What `make` returns is rounded to fp32, then to the first parent's dtype, and put on its device.

    Raises:
        ValueError: a value is NaN or infinite: a diverged parent must not breed.
    """
    slots = slots_of(parents[0])
    seed = integer(2**32, generator)

    def one(place: int) -> Factors:
        slot = slots[place]
        own = [_finite(slot, slot.of(parent)) for parent in parents]
        # the engine reads 32 bits; an odd stride gives each slot another seed
        own_generator = torch.Generator().manual_seed((seed + 0x9E3779B9 * place) % 2**32)
        made, like = make(slot, own, own_generator), own[0]
        return Factors(_as(made.a, like.a), _as(made.b, like.b))

    with _single_threaded_workers() as run:
        made = dict(zip(slots, run(one, range(len(slots))), strict=True))
    return {site: _joined(site, factors, made) for site, factors in parents[0].items()}


def first_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """The fittest parent alone, checked.

    Raises:
        ValueError: there is no parent, or `checked` refuses it.
    """
    if not parents:
        raise ValueError("an operator needs a parent")
    return checked(parents[:1])


def two_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """The two parents of a crossover, checked.

    Raises:
        ValueError: there are not exactly two, or `checked` refuses them.
    """
    if len(parents) != 2:
        raise ValueError(f"a crossover needs two parents, not {len(parents)}")
    return checked(parents)


def checked(parents: Sequence[Adapter]) -> list[Adapter]:
    """The parents, if every one has the first one's sites, shapes and dtypes.

    Raises:
        ValueError: they differ, or a site's factors are not a [.., in, r] and b [.., r, out] with at most one axis
            before these.
    """
    first = parents[0]
    for parent in parents:
        if parent.keys() != first.keys():
            raise ValueError(f"parents differ in sites: {sorted(parent.keys() ^ first.keys())}")
        for site, f in parent.items():
            if not (f.a.ndim == f.b.ndim in (2, 3) and f.a.shape[:-2] == f.b.shape[:-2]):
                raise ValueError(f"{site}: a {tuple(f.a.shape)} and b {tuple(f.b.shape)} are no update")
            if f.a.shape[-1] != f.b.shape[-2] or not f.a.shape[-1]:
                raise ValueError(f"{site}: a {tuple(f.a.shape)} and b {tuple(f.b.shape)} are no update")
            if _form(f) != _form(first[site]):
                raise ValueError(f"{site}: parents differ in rank, shape or dtype")
    return list(parents)


def share(name: str, value: float) -> float:
    """`value`, if it is in [0, 1). Raises ValueError."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, not {value}")
    return value


def strength(name: str, value: float) -> float:
    """`value`, if it is finite and not negative. Raises ValueError."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be finite and at least 0, not {value}")
    return value


# Explicit dtypes: loading a model may have changed torch's default, and the draws must not depend on it.


def normals(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Standard normal fp32 numbers."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def uniforms(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers from [0, 1), fp32."""
    return torch.rand(tuple(shape), generator=generator, dtype=torch.float32)


def uniform(generator: torch.Generator) -> float:
    """One number from [0, 1)."""
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def integer(bound: int, generator: torch.Generator) -> int:
    """One of 0 .. bound - 1."""
    return int(torch.randint(bound, (), generator=generator))


def _form(f: Factors) -> tuple[torch.Size, torch.Size, torch.dtype, torch.dtype]:
    return f.a.shape, f.b.shape, f.a.dtype, f.b.dtype


def _finite(slot: Slot, factors: Factors) -> Factors:
    """The factors on the CPU without history, in their dtype; refused if a value is not finite."""
    own = Factors(factors.a.detach().cpu(), factors.b.detach().cpu())
    for t in (own.a, own.b):
        # a finite sum needs finite terms and is read once; only an overflow needs the second look
        if not t.sum(dtype=torch.float32).isfinite() and not t.isfinite().all():
            raise ValueError(f"{slot.site}: a parent's factors are not finite")
    return own


def _as(t: Tensor, like: Tensor) -> Tensor:
    return t.to(torch.promote_types(torch.float32, like.dtype)).to(like.device, like.dtype)


def _joined(site: str, like: Factors, made: dict[Slot, Factors]) -> Factors:
    if like.a.ndim == 2:
        return _on(made[Slot(site)], like)
    if not like.a.shape[0]:
        return Factors(like.a.detach().clone(), like.b.detach().clone())
    slices = [made[Slot(site, i)] for i in range(like.a.shape[0])]
    return _on(Factors(torch.stack([f.a for f in slices]), torch.stack([f.b for f in slices])), like)


def _on(made: Factors, like: Factors) -> Factors:
    return Factors(made.a.to(like.a.device), made.b.to(like.b.device))


@contextmanager
def _single_threaded_workers() -> Iterator[Callable[[Callable[[int], Factors], Sequence[int]], Iterator[Factors]]]:
    """A parallel `map` whose workers give torch one thread each; the caller's setting is as before afterwards."""
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield pool.map
        finally:
            # also the number that later threads start from, which the workers have changed
            torch.set_num_threads(threads)
