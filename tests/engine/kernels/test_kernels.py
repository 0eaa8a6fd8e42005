"""Compares both kernels with transformers' modules (forward and backward), finite differences and each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from benchmarks.gpu import stand_ins
from redqueen.engine.kernels import Kernels, Rotation, dispatch
from redqueen.engine.kernels.dispatch import GpuKernels, TorchKernels, compiled_on_gpu, kernels_of
from redqueen.engine.kernels.numba_kernels import NumbaKernels
from redqueen.engine.kernels.torch_ops import HeadNorms
from redqueen.errors import ModelError

EPS = 1e-5
DTYPES = [(torch.float32, 1e-5), (torch.bfloat16, 0.02)]
Function = Callable[..., Tensor | tuple[Tensor, ...]]


stand_ins.on_cpu()
TORCH, NUMBA, GPU = TorchKernels(), NumbaKernels(), GpuKernels()
both_kernels = pytest.mark.parametrize("kernels", [NUMBA, TORCH], ids=["numba", "torch"])


def angles(tokens: int, half: int = 4) -> Rotation:
    """Returns cos and sin [tokens, half] of random angles."""
    angle = 6.3 * torch.rand(tokens, half, generator=torch.Generator().manual_seed(2))
    return angle.cos(), angle.sin()


def heads_of(
    kernels: Kernels, qkv: Tensor, kv_heads: int, norm_q: Tensor | None = None, norm_k: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    rotation = kernels.rotation(*angles(len(qkv)), qkv.dtype)
    norms = None if norm_q is None or norm_k is None else HeadNorms(norm_q, norm_k, EPS)
    return kernels.heads(qkv, kv_heads, norms, rotation)


def results(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Returns the function's results, and the gradients of its inputs for random gradients of its results.

    Also checks that neither inputs nor gradients are written to, and that the results are the same without autograd.
    """
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = function(*leaves)
    outputs = [output] if isinstance(output, Tensor) else list(output)
    generator = torch.Generator().manual_seed(1)
    slopes = [torch.randn(y.shape, generator=generator).to(y.dtype) for y in outputs]
    kept = [slope.clone() for slope in slopes]
    torch.autograd.backward(outputs, slopes)
    assert all(torch.equal(x, y) for x, y in zip([*leaves, *slopes], [*inputs, *kept], strict=True)), "written to"
    with torch.no_grad():
        again = function(*inputs)
        assert all(map(torch.equal, [again] if isinstance(again, Tensor) else again, outputs))
    grads = [leaf.grad for leaf in leaves]
    return [*(y.detach() for y in outputs), *(grad for grad in grads if grad is not None)]


def agree(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float) -> None:
    """Asserts that all pairs agree, to `tolerance` of the largest number of each."""
    for tensor, reference in zip(found, expected, strict=True):
        assert tensor.dtype == reference.dtype
        assert tensor.shape == reference.shape
        error = (tensor.double() - reference.double()).abs().max()
        assert error <= tolerance * max(1.0, reference.abs().max().item())


@both_kernels
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("module", [LlamaRMSNorm, Qwen3RMSNorm])
def test_norms_are_those_of_transformers(
    module: type[torch.nn.Module], dtype: torch.dtype, tolerance: float, rows: int, kernels: Kernels
) -> None:
    torch.manual_seed(0)
    norm = module(12, eps=EPS).to(dtype).requires_grad_(False)
    norm.weight.normal_()
    x, y = (3 * torch.randn(2, rows, 12)).to(dtype)
    agree(
        results(lambda x: kernels.norm(x, None, norm.weight, EPS), [x]),
        results(lambda x: (1 * x, norm(x)), [x]),
        tolerance,
    )
    agree(
        results(lambda x, y: kernels.norm(x, y, norm.weight, EPS), [x, y]),
        results(lambda x, y: (x + y, norm(x + y)), [x, y]),
        tolerance,
    )


@both_kernels
def test_rows_of_zeros_and_of_large_numbers_stay_finite(kernels: Kernels) -> None:
    x = torch.tensor([[0.0] * 4, [3e4] * 4], dtype=torch.bfloat16)
    for found in results(lambda x: kernels.norm(x, None, torch.ones(4, dtype=x.dtype), EPS), [x]):
        assert found.isfinite().all()


@both_kernels
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "tokens"), [(3, 1, 5), (4, 2, 1), (2, 2, 5)])
def test_heads_are_those_of_transformers(
    heads: int, kv_heads: int, tokens: int, normed: bool, dtype: torch.dtype, tolerance: float, kernels: Kernels
) -> None:
    torch.manual_seed(0)
    cos, sin = (half.repeat(1, 2).to(dtype)[None] for half in angles(tokens))
    norms = [Qwen3RMSNorm(8, eps=EPS).to(dtype).requires_grad_(False) for _ in range(2)]
    for norm in norms:
        norm.weight.normal_()

    def theirs(qkv: Tensor) -> tuple[Tensor, ...]:
        q, k, v = qkv.split([heads, kv_heads, kv_heads], 1)
        if normed:
            q, k = norms[0](q), norms[1](k)
        # [batch, heads, tokens, D]
        turned = apply_rotary_pos_emb(q.transpose(0, 1)[None], k.transpose(0, 1)[None], cos, sin)
        return *(x[0].transpose(0, 1) for x in turned), v

    weights = [norm.weight if normed else None for norm in norms]
    qkv = torch.randn(tokens, heads + 2 * kv_heads, 8).to(dtype)
    found = results(lambda x: heads_of(kernels, x, kv_heads, *weights), [qkv])
    agree(found, results(theirs, [qkv]), tolerance)


@both_kernels
def test_a_rotation_keeps_lengths_and_the_backward_pass_turns_back(kernels: Kernels) -> None:
    x = torch.randn(5, 3, 8, requires_grad=True)
    parts = heads_of(kernels, x, 1)
    for i, part in enumerate(parts):
        torch.testing.assert_close(part.norm(dim=-1), x[:, i : i + 1].norm(dim=-1))
    torch.autograd.backward(parts, [part.detach() for part in parts])
    torch.testing.assert_close(x.grad, x.detach())


@both_kernels
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_activation_is_that_of_transformers(dtype: torch.dtype, tolerance: float, kernels: Kernels) -> None:
    torch.manual_seed(0)
    mlp = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=6, hidden_act="silu"))

    def theirs(both: Tensor) -> Tensor:
        gate, up = both.chunk(2, -1)
        return mlp.act_fn(gate) * up

    both = 4 * torch.randn(5, 12).to(dtype)
    agree(results(kernels.swiglu, [both]), results(theirs, [both]), tolerance)


def test_the_gradients_are_derivatives() -> None:
    torch.manual_seed(0)
    qkv, both = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4, 8), (3, 10)))
    assert torch.autograd.gradcheck(lambda x: heads_of(TORCH, x, 1), (qkv,))
    assert torch.autograd.gradcheck(TORCH.swiglu, (both,))
    # The norm computes in float32 for every input dtype, so the finite differences have to be wide.
    weight = torch.randn(10, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: TORCH.norm(x, None, weight, EPS)[1], (both,), eps=1e-3, atol=2e-3, rtol=1e-3
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["norm", "swiglu"])
def test_strides_and_expanded_gradients_change_nothing(name: str, dtype: torch.dtype) -> None:
    weight, wide = torch.randn(8).to(dtype), torch.randn(5, 2, 8).to(dtype)
    leaves = [x.detach().requires_grad_() for x in (wide[:, 1], wide[:, 1].contiguous())]
    for leaf in leaves:
        (NUMBA.norm(leaf, None, weight, EPS)[1] if name == "norm" else NUMBA.swiglu(leaf)).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


# The rows of three sequences, of which the second is shorter.
ROWS = torch.tensor([[0, 1, 2], [5, 6, -1], [3, 4, 7]])


@both_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_gathered_is_scattered_back(kernels: Kernels, dtype: torch.dtype) -> None:
    x = torch.randn(8, 4, 6).to(dtype)
    gathered = kernels.gather(x, ROWS, 2)
    assert gathered.shape == (2, 3, 2, 3, 6)
    assert torch.equal(gathered[1, 0, 0, 2], x[2, 2])
    assert not gathered[:, 1, :, 2].any(), "there is no such row"
    out = torch.zeros_like(x)
    kernels.scatter_(gathered, ROWS, out)
    assert torch.equal(out, x)
    kernels.scatter_(gathered, ROWS, out, add=True)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_both_softmaxes_are_those_of_exact_scores(dtype: torch.dtype, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 18, 5), (6, 6, 3))  # K x B, M / B x G x C, P and K x M, G x C, C
    scores = [4 * torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    slopes = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]

    def weights_and_gradients(kernels: Kernels, dtype: torch.dtype) -> list[Tensor]:
        weights = [score.to(dtype, copy=True) for score in scores]
        gradients = [slope.to(dtype, copy=True) for slope in slopes]
        kernels.softmax_(*weights, 0.5)
        kernels.softmax_backward_(*gradients, *weights, 0.5)
        return [*weights, *gradients]

    exact = weights_and_gradients(TORCH, torch.float64)
    total = exact[0].flatten(0, 1).sum(1) + exact[1].flatten(0, 1).sum(1)
    torch.testing.assert_close(total, torch.ones_like(total))
    for kernels in (NUMBA, TORCH):
        agree([x.double() for x in weights_and_gradients(kernels, dtype)], exact, tolerance)


@both_kernels
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_shares_of_tokens_are_a_softmax(kernels: Kernels, dtype: torch.dtype, tolerance: float) -> None:
    logits = 3 * torch.randn(4, 11, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = (logits.double() / 0.7).log_softmax(-1)
    target = torch.tensor([3, 0, 10, 5])
    logp = torch.empty(4)
    scratch = kernels.scratch(logits.new_empty(6, 11))  # for a larger chunk
    total = kernels.token_shares_(logits, target, 0.7, logp, scratch)
    found = [logp.double(), logits.double() / total.double()[:, None]]
    expected = [exact.gather(1, target[:, None])[:, 0], exact.exp()]
    agree(found, expected, tolerance)


@pytest.mark.parametrize("kernels", [NUMBA, TORCH, GPU], ids=["numba", "torch", "gpu"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_scores_are_log_probabilities_and_their_slopes(kernels: Kernels, dtype: torch.dtype, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(rows, 6, generator=generator).to(dtype) for rows in (4, 11))
    target = torch.tensor([3, 0, 10, 5])
    exact = hidden.double().requires_grad_()
    expected = (exact @ weight.double().T / 0.7).log_softmax(-1).gather(1, target[:, None])[:, 0]
    expected.sum().backward()
    assert exact.grad is not None
    logp, slope = torch.empty(4), torch.empty_like(hidden)
    memory = kernels.score_memory(weight, 7)  # for a larger chunk
    kernels.score_(hidden, weight, target, 0.7, logp, slope, memory)
    agree([logp.double(), slope.double()], [expected.detach(), exact.grad], tolerance)


@pytest.mark.parametrize("kernels", [NUMBA, TORCH, GPU], ids=["numba", "torch", "gpu"])
def test_rows_that_are_taken_often_get_the_sum_of_their_gradients(kernels: Kernels) -> None:
    x, index = torch.randn(3, 2), torch.tensor([2, 0, 2, 2])
    agree(results(lambda x: kernels.take(x, index), [x]), results(lambda x: x[index], [x]), 1e-6)


@pytest.mark.parametrize("kernels", [NUMBA, TORCH, GPU], ids=["numba", "torch", "gpu"])
@pytest.mark.parametrize("members", [1, 3])
def test_products_are_added_with_their_scales(kernels: Kernels, members: int) -> None:
    left, right = torch.randn(members, 2, 5), torch.randn(members, 5, 4)
    wide = torch.randn(members, 2, 6)
    expected = wide.double()
    scales = [0.5, 2.0, 3.0][:members]
    expected[..., 1:5] += torch.tensor(scales).double()[:, None, None] * (left.double() @ right.double())
    kernels.add_products_(wide[..., 1:5], left, right, scales)
    agree([wide.double()], [expected], 1e-5)


def test_one_line_says_that_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dispatch, "can_compile", lambda: True)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/a/folder")
    dispatch._announce.cache_clear()
    for function in (torch.exp, torch.neg):
        compiled_on_gpu(function, "eager", "cpu")(torch.zeros(2))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "redqueen"]
    assert line.startswith("compiling kernels for the GPU")
    assert line.endswith("they are kept in /a/folder")
    dispatch._announce.cache_clear()


@pytest.mark.slow
def test_one_compilation_of_the_gpus_operations_serves_any_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "can_compile", lambda: True)
    compilations: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Sequence[Tensor]) -> Callable[..., object]:
        compilations.append(graph)
        return graph.forward

    def wrap(function: Any) -> Any:
        return compiled_on_gpu(function, backend, "cpu")

    kernels = GpuKernels(wrap)
    weight, weight_q, weight_k = torch.randn(6), torch.randn(8), torch.randn(8)
    for rows in (5, 2, 7):
        x, y = torch.randn(2, rows, 6)
        qkv = torch.randn(rows, 5, 8)
        for function, inputs in (
            (lambda k, x, y: k.norm(x, y, weight, EPS), [x, y]),
            (lambda k, x: heads_of(k, x, 1), [qkv]),
            (lambda k, x: heads_of(k, x, 1, weight_q, weight_k), [qkv]),
            (lambda k, x: k.swiglu(x), [x]),
            (lambda k, x: k.take(x, torch.arange(len(x) + 1) % len(x)), [x]),
        ):
            found = [results(partial(function, each), inputs) for each in (kernels, TORCH)]
            agree(*found, 1e-6)
        logits, target = torch.randn(rows, 9), torch.arange(rows)
        found = [each.ops.token_shares(logits, target, 0.7, torch.float32) for each in (kernels, TORCH)]
        agree(*found, 1e-6)
    # Norm, head norms or none, SwiGLU and their backward passes; sums of rows; shares of tokens.
    assert len(compilations) == 10


def test_the_dtype_and_the_environment_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDQUEEN_KERNELS", raising=False)
    kinds = ((torch.bfloat16, NumbaKernels), (torch.float32, NumbaKernels), (torch.float64, TorchKernels))
    for dtype, kind in kinds:
        assert isinstance(kernels_of(torch.zeros(1, dtype=dtype)), kind)
    for choice, kind in (("auto", NumbaKernels), ("", NumbaKernels), ("torch", TorchKernels)):
        monkeypatch.setenv("REDQUEEN_KERNELS", choice)
        assert isinstance(kernels_of(torch.zeros(1)), kind)
    monkeypatch.setenv("REDQUEEN_KERNELS", "numba")
    with pytest.raises(ModelError, match="REDQUEEN_KERNELS is 'numba': use auto or torch"):
        kernels_of(torch.zeros(1))
