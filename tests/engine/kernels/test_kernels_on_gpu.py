"""The kernels of a GPU on one, in bf16, against float64 on the CPU: skipped where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import GpuKernels, TorchKernels, kernels_of
from redqueen.engine.kernels.torch_ops import HeadNorms
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
EPS = 1e-6
# bf16 has 8 bits. Sums of products of such numbers err by a few of its roundings.
TOLERANCE = 2e-2
CUDA = torch.device("cuda")


def drawn(*shape: int) -> Tensor:
    """Returns random numbers that bf16 represents, in float64."""
    return torch.randn(shape).bfloat16().double()


def close(found: Tensor, expected: Tensor) -> None:
    """Asserts that the tensors agree in norm."""
    assert (found.double().cpu() - expected).norm() <= TOLERANCE * expected.norm()


def compare(function: object, inputs: list[Tensor]) -> None:
    """Compares a function of kernels and inputs on both devices, and its gradients."""
    results: list[list[Tensor]] = []
    torch.manual_seed(1)
    slopes: list[Tensor] = []
    for kernels, device, dtype in ((TorchKernels(), "cpu", torch.float64), (GpuKernels(), "cuda", torch.bfloat16)):
        leaves = [x.detach().to(device, dtype, copy=True).requires_grad_() for x in inputs]
        outputs = list(function(kernels, *leaves))  # pyright: ignore[reportCallIssue]
        slopes = slopes or [drawn(*y.shape) for y in outputs]
        torch.autograd.backward(outputs, [slope.to(device, dtype) for slope in slopes])
        results.append([*(y.detach() for y in outputs), *(x.grad for x in leaves if x.grad is not None)])
    for expected, found in zip(*results, strict=True):
        close(found, expected)


def test_bf16_on_a_gpu_takes_its_kernels() -> None:
    assert isinstance(kernels_of(torch.zeros(1, device=CUDA, dtype=torch.bfloat16)), GpuKernels)
    assert isinstance(kernels_of(torch.zeros(1, device=CUDA)), TorchKernels)


@pytest.mark.parametrize("rows", [1, 300, 77])
def test_compiled_operations_are_those_of_float64(rows: int) -> None:
    weight, small = drawn(512), drawn(64)
    angle = torch.rand(rows, 32)

    def heads(kernels: TorchKernels, qkv: Tensor, norm: Tensor | None) -> tuple[Tensor, ...]:
        cos, sin = (half.to(qkv.device) for half in (angle.cos(), angle.sin()))
        norms = None if norm is None else HeadNorms(norm.to(qkv), norm.to(qkv), EPS)
        return kernels.heads(qkv, 2, norms, kernels.rotation(cos, sin, qkv.dtype))

    compare(lambda k, x, y: k.norm(x, y, weight.to(x), EPS), [drawn(rows, 512), drawn(rows, 512)])
    compare(lambda k, x: k.norm(1 * x, None, weight.to(x), EPS), [drawn(rows, 512)])
    compare(lambda k, x: heads(k, x, None), [drawn(rows, 8, 64)])
    compare(lambda k, x: heads(k, x, small), [drawn(rows, 8, 64)])
    compare(lambda k, x: (k.swiglu(x),), [drawn(rows, 512)])
    compare(lambda k, x: (k.take(x, torch.arange(3 * rows, device=x.device) % rows),), [drawn(rows, 512)])


@pytest.mark.parametrize("size", [64, 128])
def test_attention_over_sequences_is_that_of_float64(size: int) -> None:
    prefixes = [SharedPrefix(0, 50, (30, 1, 64)), SharedPrefix(145, 20, (7,)), SharedPrefix(172, 9)]
    q, k, v, dy = (drawn(181, heads, size) for heads in (14, 2, 2, 14))
    results: list[list[Tensor]] = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.bfloat16)):
        leaves = [x.detach().to(device, dtype, copy=True).requires_grad_() for x in (q, k, v)]
        y = SharedPrefixAttention(prefixes, torch.device(device))(0, *leaves)
        y.backward(dy.to(device, dtype))
        results.append([y.detach(), *(x.grad for x in leaves if x.grad is not None)])
    for expected, found in zip(*results, strict=True):
        close(found, expected)


def test_products_are_added_in_fp32_to_rows_that_are_not_contiguous() -> None:
    left, right = drawn(2, 16, 300), drawn(2, 300, 48)
    wide = torch.zeros(2, 16, 100, device=CUDA)
    GpuKernels().add_products_(
        wide[..., 30:78], left.to(CUDA, torch.bfloat16), right.to(CUDA, torch.bfloat16), [0.5, 2]
    )
    expected = torch.tensor([0.5, 2.0]).double()[:, None, None] * (left @ right)
    assert (wide[..., 30:78].double().cpu() - expected).norm() <= 1e-5 * expected.norm()
    assert not wide[..., :30].any()
    assert not wide[..., 78:].any()


def test_scores_are_those_of_float64() -> None:
    hidden, weight = drawn(100, 256), drawn(5000, 256) / 16
    target = torch.arange(100) * 7
    exact = hidden.clone().requires_grad_()
    expected = (exact @ weight.T / 0.7).log_softmax(-1).gather(1, target[:, None])[:, 0]
    expected.sum().backward()
    assert exact.grad is not None
    kernels = GpuKernels()
    there = weight.to(CUDA, torch.bfloat16)
    logp, slope = torch.empty(100, device=CUDA), torch.empty(100, 256, device=CUDA, dtype=torch.bfloat16)
    memory = kernels.score_memory(there, 128)
    kernels.score_(hidden.to(CUDA, torch.bfloat16), there, target.to(CUDA), 0.7, logp, slope, memory)
    close(logp, expected.detach())
    close(slope, exact.grad)
