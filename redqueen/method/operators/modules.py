"""Runs an operator over its parents' modules: checked, in parallel, each module with its own random numbers.

A module is one projection of one layer, which is a site of an adapter. Modules are independent of each other, so they
are shared out among as many threads as torch may use, and each is computed by one thread: the child is the same for any
number of threads, and tall thin products are not cut into pieces too small to gain from it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from redqueen.engine.adapters import Adapter, Factors

Operator = Callable[[Sequence[Adapter], torch.Generator], Adapter]
"""(parents, fitter first; CPU generator) -> child. An operator's own parameters are keywords with defaults."""


Make = Callable[[str, list[Factors], torch.Generator], Factors]
"""(site, the parents' factors there, the module's generator) -> the child's factors there, in new storage."""


def by_module(parents: Sequence[Adapter], generator: torch.Generator, make: Make) -> Adapter:
    """Returns the child of `parents`, as `checked` returns them. Its sites are in the first parent's order.

    One number is drawn from `generator`. With a module's place in the order of names it seeds the module's generator.
    What `make` returns is rounded to fp32, then to the first parent's dtype, and put on its device.

    Raises ValueError if a value is NaN or infinite: a diverged parent must not have children.
    """
    # Places go by name, because the order of a mapping is an accident: an adapter from a file may have another.
    # One draw for each child leaves the generator in the same state whatever the modules draw.
    sites = sorted(parents[0])
    seed = integer(2**32, generator)

    def child_of(place: int) -> Factors:
        site = sites[place]
        terms = [_finite(site, parent[site]) for parent in parents]
        # The engine reads 32 bits; an odd stride gives each module another seed.
        module_generator = torch.Generator().manual_seed((seed + 0x9E3779B9 * place) % 2**32)
        child = make(site, terms, module_generator)
        like = parents[0][site]
        return Factors(_as(child.a, like.a), _as(child.b, like.b))

    with _single_threaded_workers() as run:
        by_site = dict(zip(sites, run(child_of, range(len(sites))), strict=True))
    return {site: by_site[site] for site in parents[0]}


def first_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """Returns the fittest parent alone, checked. Raises ValueError if `checked` refuses it."""
    return checked(parents[:1])


def two_of(parents: Sequence[Adapter]) -> list[Adapter]:
    """Returns the two parents of a crossover, checked.

    Raises ValueError if there are not exactly two, or `checked` refuses them.
    """
    if len(parents) != 2:
        raise ValueError(f"a crossover needs two parents, not {len(parents)}")
    return checked(parents)


def checked(parents: Sequence[Adapter]) -> list[Adapter]:
    """Returns the parents, if every one has the first one's sites, shapes and dtypes.

    Raises ValueError if there is no parent, if their sites or shapes differ, or if a factor is no matrix:
    `a` is [in, r] and `b` is [r, out].
    """
    if not parents:
        raise ValueError("an operator needs a parent")
    first = parents[0]
    for parent in parents:
        if parent.keys() != first.keys():
            raise ValueError(f"parents differ in sites: {sorted(parent.keys() ^ first.keys())}")
        for site, f in parent.items():
            if f.a.ndim != 2 or f.b.ndim != 2 or f.a.shape[1] != f.b.shape[0] or not f.a.shape[1]:
                raise ValueError(f"{site}: a {tuple(f.a.shape)} and b {tuple(f.b.shape)} are no update")
            if _form(f) != _form(first[site]):
                raise ValueError(f"{site}: parents differ in rank, shape or dtype")
    return list(parents)


def share(name: str, value: float) -> float:
    """Returns `value`. Raises ValueError, which names the parameter, if it is not in [0, 1)."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, not {value}")
    return value


def strength(name: str, value: float) -> float:
    """Returns `value`. Raises ValueError, which names the parameter, if it is negative or not finite."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be finite and at least 0, not {value}")
    return value


# The draws below name their dtype. Loading a model may change torch's default, and draws must not depend on it.


def normals(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Returns standard normal fp32 numbers."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def uniforms(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Returns numbers from [0, 1), fp32."""
    return torch.rand(tuple(shape), generator=generator, dtype=torch.float32)


def uniform(generator: torch.Generator) -> float:
    """Returns one number from [0, 1)."""
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def integer(bound: int, generator: torch.Generator) -> int:
    """Returns one of 0 .. bound - 1."""
    return int(torch.randint(bound, (), generator=generator))


def _form(f: Factors) -> tuple[torch.Size, torch.Size, torch.dtype, torch.dtype]:
    return f.a.shape, f.b.shape, f.a.dtype, f.b.dtype


def _finite(site: str, factors: Factors) -> Factors:
    """Returns the factors on the CPU without history, in their dtype. Raises ValueError if a value is not finite."""
    values = Factors(factors.a.detach().cpu(), factors.b.detach().cpu())
    for t in (values.a, values.b):
        # A finite sum has finite terms, and a sum reads them only once. A sum that overflows needs the second look.
        if not t.sum(dtype=torch.float32).isfinite() and not t.isfinite().all():
            raise ValueError(f"{site}: a parent's factors are not finite")
    return values


def _as(t: Tensor, like: Tensor) -> Tensor:
    # Rounding goes through fp32 even from fp64 to bf16, so that every path to a child rounds the same way.
    return t.to(torch.promote_types(torch.float32, like.dtype)).to(like.device, like.dtype)


@contextmanager
def _single_threaded_workers() -> Iterator[Callable[[Callable[[int], Factors], Sequence[int]], Iterator[Factors]]]:
    """Yields a parallel `map` whose workers give torch one thread each, then restores the caller's setting."""
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield pool.map
        finally:
            # The workers have changed this number for the whole process, and later threads start from it too.
            torch.set_num_threads(threads)
