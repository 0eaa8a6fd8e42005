"""Counts the kernels that a computation launches, with their bytes and FLOPs; the tensors need not hold anything.

On meta tensors the true shape of a 7B model costs nothing, so budgets for launches can be checked on any machine. What
is counted is a lower bound: some operations launch more than one kernel.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.dispatch import GpuKernels

# These describe the same memory anew, or only allocate: no kernel runs.
_NO_KERNEL = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "chunk",
        "unsqueeze",
        "squeeze",
        "expand",
        "alias",
        "detach",
        "as_strided",
        "unbind",
        "narrow",
        "unflatten",
        "lift_fresh",
        "_reshape_alias",
        "diagonal",
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "set_",
        "resize_",
    ]
)
# These read as much as they return, however large what they choose from is.
_CHOOSING = frozenset(("index", "index_select", "embedding", "gather"))
# These write as much as they are given, however large what they write to is.
_PLACING = frozenset(("index_put_", "index_copy_", "scatter_", "index_add_"))
# These write what they read of their first input, some of it to a cache that they are given as well.
_AS_THE_FIRST = frozenset(("cached_heads",))


@dataclass(frozen=True, slots=True)
class Device:
    """What a GPU can do at most."""

    bandwidth: float
    """Bytes a second that a copy reads and writes together."""
    peak: float
    """FLOPs a second of a large product in bf16."""
    launch: float = 2.5e-6
    """Seconds that the smallest kernel takes."""


H200 = Device(bandwidth=4.3e12, peak=790e12)
"""Numbers measured on an H200."""


@dataclass(slots=True)
class Cost:
    """What kernels of one name, or all kernels, cost."""

    launches: int = 0
    bytes: int = 0
    """Bytes read and written, if every tensor crosses the memory bus once."""
    flops: int = 0
    """FLOPs of products."""
    seconds: float = 0.0
    """Modelled, not measured: for each kernel the largest of its time for bytes, for FLOPs and for a launch."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.launches + other.launches,
            self.bytes + other.bytes,
            self.flops + other.flops,
            self.seconds + other.seconds,
        )


class KernelCounter(TorchDispatchMode):
    """Counts the kernels that are launched in a `with` block."""

    def __init__(self, device: Device | None = None) -> None:
        super().__init__()
        self.device = device or H200
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        """Costs by the name of the operation."""
        self.live = 0
        """Bytes that the block allocated and that are in use."""
        self.peak = 0
        """The most that `live` has been."""
        self._allocated: set[int] = set()
        self._silent = False

    @property
    def total(self) -> Cost:
        """The sum over all operations."""
        return sum(self.costs.values(), Cost())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # In inference mode, operations such as `linear` arrive here before they are split into those that are launched.
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        out = func(*args, **kwargs)
        results = _tensors(out)
        inputs = _tensors((args, kwargs))
        if not self._silent:
            self._track(inputs, results)
        name = func._schema.name.split("::")[1]
        if not self._silent and name not in _NO_KERNEL and not _copies_to_itself(name, inputs):
            self.add(name, _bytes_moved(name, inputs, results), _flops(func, args, out))
        return out

    def add(self, name: str, moved: int, flops: int = 0) -> None:
        """Counts one kernel."""
        seconds = max(moved / self.device.bandwidth, flops / self.device.peak, self.device.launch)
        self.costs[name] += Cost(1, moved, flops, seconds)

    def fused(self, function: Callable[..., Any], /, **_: Any) -> Any:
        """Returns a function that computes the same and counts as one kernel."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            outermost = not self._silent
            self._silent = True
            try:
                out = function(*args, **kwargs)
            finally:
                self._silent = not outermost
            if outermost:
                # What it needs in between stays in the registers of a kernel.
                self._track(_tensors((args, kwargs)), _tensors(out))
                tensors = set(_tensors((args, kwargs, out)))
                self.add(f"compiled {function.__name__}", sum(map(size, tensors)))
            return out

        return call

    def _track(self, inputs: list[Tensor], results: list[Tensor]) -> None:
        """Notes the memory of results that is new."""
        known = set(map(_memory, inputs))
        for tensor in results:
            key = _memory(tensor)
            if key in known or key in self._allocated:
                continue
            storage = tensor.untyped_storage()
            self._allocated.add(key)
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._free, key, storage.nbytes())

    def _free(self, key: int, size: int) -> None:
        self._allocated.discard(key)
        self.live -= size


@contextmanager
def counting(device: Device | None = None) -> Iterator[KernelCounter]:
    """Counts the kernels of a `with` block. A function that is compiled on a GPU counts as one kernel.

    That holds for the operations of `redqueen.engine.kernels`, and for what `torch.compile` returns inside the block.
    """
    # A compiled function reads its inputs once and writes its results once. Compiling it only to count that would take
    # seconds, and needs a device to compile for.
    counter = KernelCounter(device)
    before = torch.compile, dispatch._GPU  # pyright: ignore[reportPrivateUsage]
    torch.compile = counter.fused  # pyright: ignore[reportAttributeAccessIssue]
    dispatch._GPU = GpuKernels(counter.fused)  # pyright: ignore[reportPrivateUsage]
    try:
        with counter:
            yield counter
    finally:
        torch.compile, dispatch._GPU = before  # pyright: ignore[reportPrivateUsage]


def size(tensor: Tensor) -> int:
    """Returns the bytes of the tensor's elements, each counted once if an expanded axis repeats it."""
    if tensor.numel() == 0:
        return 0
    elements = 1
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= length if stride else 1
    return elements * tensor.element_size()


def _tensors(values: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _flops(func: Any, args: tuple[Any, ...], out: Any) -> int:
    """Returns the FLOPs of a product. Those of attention are left out: the lengths of its sequences are not known."""
    packet = func._overloadpacket
    if packet not in flop_registry or "attention" in func._schema.name:
        return 0
    # The formulas know the shapes only, and not the overloads with a dtype of the result.
    return flop_registry[packet](*(arg for arg in args if isinstance(arg, Tensor)), out_val=out)


def _bytes_moved(name: str, inputs: list[Tensor], results: list[Tensor]) -> int:
    """Returns the bytes that a kernel reads and writes, if it reads every input once."""
    if name in _CHOOSING:
        return 2 * sum(map(size, results))
    if name in _PLACING:
        return 2 * size(inputs[-1])
    if name in _AS_THE_FIRST:
        return 2 * size(inputs[0])
    if name in ("copy_", "_to_copy"):
        return size(inputs[-1]) + size(results[0])
    if name in ("zero_", "fill_"):
        return size(inputs[0])
    # A tensor that is changed in place is an input and a result: it is read and written.
    return sum(map(size, set(inputs))) + sum(map(size, results))


def _copies_to_itself(name: str, inputs: list[Tensor]) -> bool:
    """Whether the operation writes a view back onto itself, as `y[part] += z` does. torch then launches nothing."""
    if name != "copy_" or len(inputs) != 2:
        return False
    target, source = inputs
    return _memory(target) == _memory(source) and (target.storage_offset(), target.shape, target.stride()) == (
        source.storage_offset(),
        source.shape,
        source.stride(),
    )


def _memory(tensor: Tensor) -> int:
    """Returns a number that tensors over the same memory share, as long as one of them lives."""
    # A meta tensor's memory has no address.
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
