"""A device that computes on the CPU and behaves like a GPU: it refuses mixed operands and counts the host's waits.

A run on it shows on any machine that no tensor is on the wrong device, and where the host would wait for a GPU.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

NAME = "pretend"
"""Its name."""
_PACKAGE = str(Path(__file__).resolve().parents[2] / "redqueen")
# The size of their result depends on numbers that only the device knows.
_SIZED_BY_DATA = frozenset(("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"))
# A GPU takes indices from the host: it waits for their copy.
_INDEXING = ("index", "index_put_")


class DeviceError(RuntimeError):
    """Operands on different devices, which a GPU refuses."""


class PretendTensor(Tensor):
    """A tensor of the device. Its numbers are in `held`, a tensor of the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls: type[PretendTensor], held: Tensor) -> PretendTensor:
        make: Any = Tensor._make_wrapper_subclass  # pyright: ignore[reportPrivateUsage]
        # torch makes no views of a subclass's tensors in inference mode.
        with torch.inference_mode(False):
            tensor = make(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=torch.device(NAME, 0),
            )
        tensor.held = held
        return tensor

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"PretendTensor({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        raise DeviceError(f"{func}: the device exists only in a block of `pretend_gpu`")


class PretendGpu(TorchDispatchMode):
    """Makes the device exist in a `with` block. Use it through `pretend_gpu`."""

    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device(NAME, 0)
        self.waits: Counter[str] = Counter()
        """How often the host waited, by the line of redqueen that made it wait, and what for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # In inference mode, operations arrive here before they are split into those that are launched.
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        operands = list(_tensors([*args, *kwargs.values()]))
        ours = [tensor for tensor in operands if isinstance(tensor, PretendTensor)]
        target = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
        if not ours and target != NAME:
            return func(*args, **kwargs)
        name = func._schema.name.split("::")[1]
        if name not in ("_to_copy", "copy_"):
            self._check(name, operands)
        if why := _wait(name, args, kwargs, target):
            self.waits[f"{_line()}: {why}"] += 1
        return self._compute(func, args, kwargs, target)

    def _check(self, name: str, operands: list[Tensor]) -> None:
        """Raises DeviceError if an operand is on the host. Single numbers may be."""
        for tensor in operands:
            if not isinstance(tensor, PretendTensor) and tensor.dim() and name not in _INDEXING:
                raise DeviceError(f"{name}: a tensor of {tuple(tensor.shape)} is on the host")

    def _compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: str | None) -> Any:
        """Computes on the CPU. The result is the device's, unless it is a copy on the host."""
        held_kwargs = {key: _mapped(_held, value) for key, value in kwargs.items()}
        if target is not None:
            held_kwargs["device"] = torch.device("cpu")
        out = func(*(_mapped(_held, value) for value in args), **held_kwargs)
        to_host = func is torch.ops.aten.copy_.default and not isinstance(args[0], PretendTensor)
        if to_host or target == "cpu":
            return args[0] if to_host else out
        return return_and_correct_aliasing(func, args, kwargs, _mapped(_wrapped, out))


class _HiddenCopies(TorchFunctionMode):
    """Makes visible what torch copies between host and device inside of C++."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and torch.device(kwargs.get("device") or "cpu").type == NAME:
            device = kwargs.pop("device")
            return torch.tensor(*args, **kwargs).to(device)
        if func is Tensor.tolist and isinstance(args[0], PretendTensor):
            return args[0].cpu().tolist()
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], PretendTensor):
            tensor, index, *value = args
            whole = isinstance(index, tuple)
            parts = [_listed(part, tensor.device) for part in (index if whole else (index,))]
            args = (tensor, tuple(parts) if whole else parts[0], *value)
        return func(*args, **kwargs)


@contextmanager
def pretend_gpu() -> Iterator[PretendGpu]:
    """Makes the device exist in a `with` block."""
    register()
    gpu = PretendGpu()
    # Backward passes of a device run in threads of its own, of which torch knows only those that were there at first.
    with _HiddenCopies(), gpu, torch.autograd.set_multithreading_enabled(False):
        yield gpu


class _Module(backend_registration._DummyBackendModule):  # pyright: ignore[reportPrivateUsage]
    """What torch knows of the device. It says that it is not there, so that nothing outside of a block chooses it."""

    def is_available(self) -> bool:
        return False


@cache
def register() -> None:
    """Makes torch know the device's name."""
    # The name of a device can be given only once in a process.
    backend_registration._setup_privateuseone_for_python_backend(  # pyright: ignore[reportPrivateUsage]
        NAME, backend_module=_Module()
    )


_Value = TypeVar("_Value")


def moved(value: _Value, device: torch.device) -> _Value:
    """Returns the same record of tensors, such as a decoder, on that device."""
    here: Any = value
    if isinstance(here, Tensor):
        return cast(_Value, here.to(device))
    if isinstance(here, tuple):
        return cast(_Value, tuple(moved(item, device) for item in cast("tuple[Any, ...]", here)))
    if is_dataclass(here) and not isinstance(here, type):
        parts = {field.name: moved(getattr(here, field.name), device) for field in fields(here)}
        return cast(_Value, replace(here, **parts))
    return value


def _wait(name: str, args: Any, kwargs: dict[str, Any], target: str | None) -> str:
    """Returns what the host waits for in an operation; empty if it does not wait."""
    if name == "_local_scalar_dense":
        return "a number"
    if name in _SIZED_BY_DATA or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        return f"the size of {name}"
    if name in _INDEXING:
        indices = list(_tensors(args[1]))
        if any(index.dtype == torch.bool for index in indices):
            return "the size of a mask"
        return "" if all(isinstance(index, PretendTensor) for index in indices) else "a copy of indices"
    if name == "_to_copy" and target is not None and not kwargs.get("non_blocking"):
        crossing = isinstance(args[0], PretendTensor) != (target == NAME)
        return f"a copy {'to' if target == 'cpu' else 'from'} the host" if crossing else ""
    if name == "copy_" and not (args[2] if len(args) > 2 else kwargs.get("non_blocking")):
        to, source = (isinstance(tensor, PretendTensor) for tensor in args[:2])
        return f"a copy {'to' if source else 'from'} the host" if to != source and args[1].dim() else ""
    return ""


def _line() -> str:
    """Returns the innermost line of redqueen that is running."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "elsewhere"


def _listed(index: Any, device: torch.device) -> Any:
    """Returns an index, as a tensor of the device if it is a list."""
    return torch.tensor(index).to(device) if isinstance(index, list) else index


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, PretendTensor) else leaf


def _wrapped(leaf: Any) -> Any:
    return PretendTensor(leaf) if isinstance(leaf, Tensor) else leaf


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Returns `value` with every leaf of its lists and tuples replaced."""
    if isinstance(value, list | tuple):
        parts = cast("list[Any] | tuple[Any, ...]", value)
        return type(parts)(_mapped(function, part) for part in parts)
    return function(value)


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yields the tensors in lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in cast("list[Any] | tuple[Any, ...]", value):
            yield from _tensors(part)
