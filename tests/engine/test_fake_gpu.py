"""What a GPU computes at the shape of a 7B model, on tensors of the GPU that hold nothing.

Every operand's device and shape is checked, and a number that only the device knows cannot be asked for. Under a CUDA
build of torch these are CUDA tensors; no GPU is needed. Other builds have no such tensors, and take a device that torch
knows by name only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu.shapes import SEVEN_B, random_decoder, random_members
from benchmarks.gpu.workload import Draw, student_batch
from redqueen.engine.kernels import dispatch
from redqueen.engine.learning.packing import build_micro_batch
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefixAttention
from redqueen.engine.model.decoder import Decoder
from redqueen.engine.model.forward import TokenLogprobs
from redqueen.engine.sampling import recorded
from redqueen.engine.sampling.device_batch import DeviceBatch
from redqueen.engine.sampling.tokens import Row, RowGroup
from redqueen.records import SamplingParams

CUDA_BUILD = torch.version.cuda is not None
NAME = "cuda" if CUDA_BUILD else "pretend"
ROWS = 64


class NoDevice(backend_registration._DummyBackendModule):
    """What torch knows of a device that has a name only: it is not there, so that nothing else chooses it."""

    def is_available(self) -> bool:
        return False


@cache
def register() -> None:
    """Makes torch know the name of the device. It can be given only once in a process."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=NoDevice())


class OnDevice(TorchDispatchMode):
    """Over a `FakeTensorMode`: tensors of the device are fake, and those of the host are real."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace != "prim":
            # In inference mode, operations arrive here before they are split into those that are launched.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        target = kwargs.get("device")
        if target is None or torch.device(target).type != self.device.type:
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if func is torch.ops.aten._to_copy.default:
            # Fake tensors would really copy a single number.
            return torch.empty(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype, device=self.device)
        return func(*args, **kwargs)


def placed(value: Any, device: torch.device) -> Any:
    """Returns a record of meta tensors with tensors of the device."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    if isinstance(value, tuple):
        return tuple(placed(item, device) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: placed(getattr(value, field.name), device) for field in fields(value)})
    return value


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device. What a machine without a GPU cannot do is left out: compiling, recording and pinned memory."""
    if not CUDA_BUILD:
        register()
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    monkeypatch.setattr(dispatch, "can_compile", lambda: False)
    monkeypatch.setattr(dispatch, "_GPU", dispatch.GpuKernels())
    monkeypatch.setattr(recorded, "recorder_of", lambda _: None)
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (9, 0))
    device = torch.device(NAME, 0)
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(OnDevice(device))
        yield device


@pytest.fixture
def seven_b(fake_gpu: torch.device) -> tuple[Decoder, AdapterBank]:
    """A layer of the base, with eight members."""
    decoder = placed(random_decoder(SEVEN_B.with_layers(1), torch.device("meta")), fake_gpu)
    return decoder, random_members(decoder, SEVEN_B, 8)


def test_a_batch_is_sampled_on_the_device(fake_gpu: torch.device, seven_b: tuple[Decoder, AdapterBank]) -> None:
    slots = [row % 4 for row in range(ROWS)]
    params = SamplingParams(max_tokens=64)
    groups = [RowGroup(row % 4, tuple(range(100)), [Row(row, ("fake", row), params, ())]) for row in range(ROWS)]
    admitted = [(group, [row]) for row, group in enumerate(groups)]
    with torch.inference_mode():
        batch = DeviceBatch(*seven_b, ROWS, 200, 64, 4)
        batch.admit(admitted)
        batch.prefill(sorted(admitted, key=lambda each: each[0].slot)[:16])
        for params in (SamplingParams(max_tokens=64), SamplingParams(max_tokens=64, top_p=0.9, top_k=50)):
            batch.assign(slots, [params] * ROWS)
            batch.sample(ROWS)
            batch.step(ROWS)
        batch.move([3, 4], [0, 1], 50)
        batch.free([2])
        with pytest.raises(Exception, match=r"on the same device|two different devices"):
            batch.hidden_RH + torch.ones(batch.hidden_RH.shape)
    assert batch.hidden_RH.device == fake_gpu
    assert batch.hidden_RH.shape == (ROWS, SEVEN_B.hidden)


def test_a_micro_batch_is_trained_on_the_device(fake_gpu: torch.device, seven_b: tuple[Decoder, AdapterBank]) -> None:
    decoder, bank = seven_b
    groups = student_batch(Draw(SEVEN_B.vocabulary), 8192)
    batch = build_micro_batch(groups, fake_gpu)
    adapters = bank.rows([g.slot for g in groups], [g.tokens for g in groups], bank.gradients())
    attention = SharedPrefixAttention(batch.prefixes, fake_gpu)
    # Threads of the autograd engine do not know the modes.
    with torch.autograd.set_multithreading_enabled(False):
        hidden_NH = decoder.hidden(batch.ids_N, batch.position_N, attention, adapters)
        logp_N = TokenLogprobs.apply(hidden_NH, decoder.head.weight, batch.ids_N, 1.0)
        assert logp_N.device == fake_gpu
        # For CUDA tensors the engine asks a driver for its streams.
        if not CUDA_BUILD or torch.cuda.is_available():
            logp_N.sum().backward()
