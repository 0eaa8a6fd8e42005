"""Triton kernels, interpreted on a CPU and compiled for GPUs that need not be there. Run by `make test-triton`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from redqueen.base.optional import is_installed
from redqueen.engine.kernels import cached_heads, low_rank
from redqueen.engine.kernels.low_rank import Tiles

# A process either interprets or compiles: triton looks at the variable when a kernel is defined.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(not is_installed("triton"), reason="needs triton: make test-triton")
interpreted = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
compiled = pytest.mark.skipif(INTERPRETED, reason="needs triton's compiler")


def kernels() -> Any:
    return low_rank._triton()


# One row, a member with more rows than a tile, members without rows, rows in no order, tiles without rows.
SLOTS = [[3], [0] * 21, [2, 0, 2, 3, 0, 0, 3, 3, 3, 2] * 4]


@interpreted
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize(
    ("fan_in", "rank", "widths"),
    [(160, 32, (64, 32, 32)), (300, 3, (5, 200)), (64, 16, (130,)), (96, 200, (48, 16))],
)
@pytest.mark.parametrize("gap", [7, 16])
def test_the_kernels_compute_what_torch_computes(
    slots: Sequence[int], fan_in: int, rank: int, widths: Sequence[int], gap: int
) -> None:
    members, rows = 4, len(slots) + 3
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, fan_in, generator=g)
    a = torch.randn(members, rank * len(widths), fan_in, generator=g) / fan_in**0.5
    b = torch.randn(members * rank * sum(widths), generator=g) / rank**0.5
    # A gap of y between the projections that no factors change.
    outs: list[slice] = []
    for width in widths:
        start = outs[-1].stop + gap if outs else 0
        outs.append(slice(start, start + width))
    blocks = low_rank.column_blocks(members, rank, outs)
    table = low_rank.tile_rows(slots, low_rank.most_tiles(rows, members))
    tiles = Tiles(table[:, 0].contiguous(), table[:, 1:].contiguous())

    y = torch.randn(rows, outs[-1].stop + 2, generator=g)
    expected = y.clone()
    torch_inner = low_rank.inner(x, a, tiles.slot_T, tiles.row_TM, rank)
    aligned = low_rank.are_aligned(blocks)
    assert aligned == (gap == 16 and all(width % 16 == 0 for width in widths))
    low_rank.add(expected, torch_inner, b, tiles.slot_T, tiles.row_TM, blocks, rank, aligned)
    inner = torch.full_like(torch_inner, float("nan"))
    kernels().inner(x, a, tiles, rank, inner)
    kernels().add(y, inner, b, tiles, blocks, rank, aligned=aligned)
    torch.testing.assert_close(inner.sum(0)[: len(slots)], torch_inner.sum(0)[: len(slots)], atol=2e-5, rtol=0)
    # Rows without a member stay as they were.
    torch.testing.assert_close(y, expected, atol=5e-5, rtol=0)


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("queries", "kv", "size", "normed"), [(28, 4, 128, False), (6, 2, 24, True), (5, 5, 64, True)])
def test_heads_and_the_cache_are_those_of_torch(
    queries: int, kv: int, size: int, normed: bool, dtype: torch.dtype
) -> None:
    places = (0, 6, 3)
    # A row writes to a block of its own, which need not be the one of its number.
    blocks = (2, 0, 1)
    rows = len(places)
    g = torch.Generator().manual_seed(0)
    wide = torch.randn(rows, (queries + 2 * kv) * size + 16, generator=g).to(dtype)
    # Rows need not be contiguous.
    qkv = wide[:, 8:-8].unflatten(1, (-1, size))
    angle = torch.rand(rows, size // 2, generator=g)
    cos, sin = (half.repeat(1, 2)[:, None].to(dtype) for half in (angle.cos(), angle.sin()))
    weights = torch.rand(2, size if normed else 0, generator=g).to(dtype)
    found, expected = (torch.full((2, rows, kv, 7, size), 9.0, dtype=dtype) for _ in range(2))
    torch_q = cached_heads.cached_heads(
        qkv, cos, sin, *weights, 1e-6, torch.tensor(blocks), torch.tensor(places), *expected
    )
    q = torch.full_like(torch_q, float("nan"))
    cached_heads._triton().cached_heads(
        qkv, cos, sin, *weights, 1e-6, torch.tensor(blocks), torch.tensor(places), *found, q
    )
    # Triton's interpreter cuts bf16 off where a GPU rounds, so each of the kernel's three roundings errs by up to one
    # unit of the last place; torch's err by half of one.
    tolerance = 4 * torch.finfo(dtype).eps * float(torch_q.abs().max())
    torch.testing.assert_close(q, torch_q, atol=tolerance, rtol=0)
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


SIGNATURE = {
    **dict.fromkeys(("rows", "fan_in", "width", "rank", "stride"), "i32"),
    **dict.fromkeys(("x", "a", "b", "y"), "*bf16"),
    **dict.fromkeys(("inner", "out"), "*fp32"),
    **dict.fromkeys(("slot_T", "row_TM"), "*i32"),
    "blocks_C5": "*i64",
}
# A100; RTX 3090; H100; RTX 5090.
CAPABILITIES = (80, 86, 90, 120)


def binary_of(kernel: Any, constants: dict[str, Any], capability: int, rank: int) -> Any:
    """Compiles a kernel as a launch would, for a model whose sizes are multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    known = [name for name in SIGNATURE if name in kernel.arg_names and name != "rows"]
    if rank % 16:
        known = [name for name in known if name not in ("rank", "width")]
    source = ASTSource(
        fn=kernel,
        signature={name: SIGNATURE.get(name, "constexpr") for name in kernel.arg_names},
        constexprs=constants,
        attrs={(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in known},
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32))


@compiled
@pytest.mark.parametrize("rank", [4, 16, 32, 128, 200, 512, 1024])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_rank_compiles_for_gpus_that_people_own_and_uses_their_tensor_cores(capability: int, rank: int) -> None:
    triton_low_rank = kernels()
    for kernel, constants in (
        (triton_low_rank.inner_kernel, triton_low_rank.inner_constants(rank, 4)),
        (triton_low_rank.add_kernel, triton_low_rank.add_constants(rank, 4, aligned=True)),
    ):
        binary = binary_of(kernel, constants, capability, rank)
        assert len(binary.asm["cubin"]) > 0
        ptx = binary.asm["ptx"]
        assert any(word in ptx for word in ("mma.sync", "wgmma", "tcgen05.mma"))
        # Every GPU from Ampere on gives a program so much shared memory.
        assert binary.metadata.shared <= 99 * 1024
        # Factors and rows are read in words, not number by number.
        assert ptx.count("ld.global.b16") == 0


@compiled
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_kernel_of_heads_compiles_for_gpus(capability: int, normed: bool) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = cached_heads._triton().cached_heads_kernel
    numbers = {"eps": "fp32", "stride": "i32", "turn": "i32", "places": "i32", "block_R": "*i64", "at_R": "*i64"}
    constants = {"QUERIES": 28, "KV": 4, "SIZE": 128, "HALF": 64, "BLOCK": 8, "NORMS": normed}
    signature = dict.fromkeys(kernel.arg_names, "*bf16") | numbers | dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    binary = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert len(binary.asm["cubin"]) > 0
    assert binary.metadata.shared <= 99 * 1024
