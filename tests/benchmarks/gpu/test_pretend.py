"""The device that pretends to be a GPU."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from benchmarks.gpu.pretend import DeviceError, pretend_gpu
from benchmarks.gpu.waits import count_waits


def test_it_computes_and_differentiates_as_the_cpu_does() -> None:
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    with pretend_gpu() as gpu:
        there = x.to(gpu.device).requires_grad_()
        (there @ weight.to(gpu.device).T)[1:].square_().sum().backward()
        assert there.grad is not None
        assert there.device.type == "pretend"
        found = there.grad.cpu()
    here = x.clone().requires_grad_()
    (here @ weight.T)[1:].square().sum().backward()
    assert torch.equal(found, here.grad)  # pyright: ignore[reportArgumentType]


def test_nothing_chooses_it_by_itself() -> None:
    with pretend_gpu():
        pass
    chosen = torch.accelerator.current_accelerator(check_available=True)
    assert chosen is None or chosen.type != "pretend"
    # What recomputes its activations asks for the device of this machine once, and keeps the answer.
    x = torch.ones(3, requires_grad=True)
    checkpoint(torch.sin, x, use_reentrant=False).sum().backward()  # pyright: ignore
    assert torch.allclose(x.grad, torch.ones(3).cos())  # pyright: ignore


def test_it_refuses_operands_of_the_host_but_takes_single_numbers() -> None:
    with pretend_gpu() as gpu:
        there = torch.ones(3, device=gpu.device)
        assert (there * torch.tensor(2.0)).tolist() == [2, 2, 2]
        with pytest.raises(DeviceError, match=r"mul: a tensor of \(3,\) is on the host"):
            there * torch.ones(3)


def test_it_counts_what_makes_the_host_wait() -> None:
    with pretend_gpu() as gpu:
        there = torch.arange(4, device=gpu.device)
        there.add_(1)[there > 2] = 0
        torch.zeros(3).to(gpu.device, non_blocking=True)
        torch.tensor([1, 2], device=gpu.device)
        assert there[[0, 1]].tolist() == [1, 2]
        assert int(there.sum()) == 3
    assert sum(gpu.waits.values()) == 5
    assert {why.partition(": ")[2] for why in gpu.waits} == {
        "the size of a mask",
        "a copy from the host",
        "a copy to the host",
        "a number",
    }


def test_a_run_has_nothing_on_the_wrong_device_and_waits_seldom() -> None:
    waits = count_waits()
    # Ten times four tokens of 16 rows, and what is copied when rows are admitted; the update has two micro-batches.
    assert sum(waits.sampling.values()) <= 14, waits.sampling
    assert sum(waits.update.values()) <= 3, waits.update
