"""Records work as the list of torch's operations that it does, as a CUDA graph does with kernels.

A repetition does these operations on the very same tensors. So what the host decided or read while it recorded is
fixed, and so is where every tensor lies: work that depends on either is not repeated rightly.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from redqueen.engine.sampling.recorded import Work


class OperationRecorder:
    """See `redqueen.engine.sampling.recorded.Recorder`."""

    def __init__(self) -> None:
        self.recordings = 0
        self.repetitions = 0

    def run(self, work: Work) -> None:
        work()

    def record(self, work: Work) -> Work:
        self.recordings += 1
        log = _Log()
        with log:
            work()
        done = [True]

        def repeat() -> None:
            self.repetitions += 1
            # Unlike a graph, the recording has done the work already.
            if done:
                done.pop()
                return
            for operation in log.operations:
                _do_again(*operation)

        return repeat


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class _Log(TorchDispatchMode):
    """Writes down every operation with its arguments and its results."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        assert "local_scalar_dense" not in str(func), "a number is read by the host"
        self.operations.append((func, args, kwargs or {}, _tensors(out)))
        return out


def _do_again(func: Any, args: Any, kwargs: Any, results: list[Tensor]) -> None:
    """Does an operation and writes its results to the tensors that it returned when it was recorded."""
    memory = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
    for result, new in zip(results, _tensors(func(*args, **kwargs)), strict=True):
        # A view, and what is changed in place, lies in the memory of an argument.
        if result.untyped_storage().data_ptr() not in memory:
            result.copy_(new)
