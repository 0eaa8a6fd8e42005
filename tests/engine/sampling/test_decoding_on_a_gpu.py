"""The kernels of decoding on a GPU in bf16, against float64: skipped where there is no GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.gpu.shapes import Shape, random_decoder, random_members
from redqueen.engine.kernels import low_rank
from redqueen.engine.kernels.cached_heads import cached_heads
from redqueen.engine.sampling.decode_step import TorchDecodeStep, WrittenApart
from redqueen.engine.sampling.kv_cache import KVCache
from redqueen.engine.sampling.recorded import Repeater, recorder_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GPU = torch.device("cuda")
SHAPE = Shape(layers=2, hidden=256, intermediate=384, heads=8, kv_heads=2, vocabulary=512, rank=16)
LENGTHS = (0, 1, 7, 31, 32, 38, 5, 20)
SLOTS = (3, 0, 2, 0, 0, 1, 3, 3)


def relative(got: Tensor, exact: Tensor) -> float:
    """Returns the size of the error as a share of the exact numbers' size."""
    return float((got.double().cpu() - exact.cpu()).norm() / exact.norm())


def filled_cache(rows: int) -> KVCache:
    cache = KVCache(random_decoder(SHAPE, GPU), rows, 40)
    cache.keys.normal_()
    cache.values.normal_()
    cache.length_R.copy_(torch.tensor(LENGTHS[:rows]))
    return cache


def test_attention_reads_each_rows_own_tokens() -> None:
    rows = len(LENGTHS)
    cache = filled_cache(rows)
    q = torch.randn(rows, 8, 32, device=GPU).bfloat16()
    k, v = torch.randn(2, rows, 2, 32, device=GPU).bfloat16()
    with torch.inference_mode():
        got = WrittenApart(cache, rows, 4, flash=True)(0, q, k, v)
    for row, length in enumerate(LENGTHS):
        keys = cache.keys[0, row, :, : length + 1].double()
        values = cache.values[0, row, :, : length + 1].double()
        assert torch.equal(cache.keys[0, row, :, length], k[row])
        scores = q[row].double().view(2, 4, 32) @ keys.mT / 32**0.5
        assert relative(got[row], (scores.softmax(-1) @ values).view(8, 32)) < 2e-2


@pytest.mark.parametrize("normed", [False, True])
def test_heads_and_the_cache_are_those_of_the_cpu(normed: bool) -> None:
    rows, queries, kv, size, room = len(LENGTHS), 28, 4, 128, 40
    qkv = torch.randn(rows, queries + 2 * kv, size).bfloat16()
    angle = torch.rand(rows, size // 2)
    cos, sin = (half.repeat(1, 2)[:, None].bfloat16() for half in (angle.cos(), angle.sin()))
    weights = torch.rand(2, size if normed else 0).bfloat16()
    found: list[list[Tensor]] = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.bfloat16)):
        inputs = [x.to(device, dtype) for x in (qkv, cos, sin, *weights)]
        keys, values = torch.zeros(2, rows, kv, room, size, device=device, dtype=dtype)
        at_R = torch.tensor(LENGTHS, device=device)
        block_R = torch.arange(rows, device=device)
        found.append([cached_heads(*inputs, 1e-6, block_R, at_R, keys, values), keys, values])
    for exact, got in zip(*found, strict=True):
        assert relative(got, exact) < 2e-2


@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize(("rank", "widths"), [(32, (200, 64)), (4, (192, 64)), (128, (192, 64)), (512, (192, 64))])
def test_low_rank_products_are_those_of_float64(rows: int, rank: int, widths: tuple[int, int]) -> None:
    members, fan_in = 4, 300
    slots = [row * 7 % 3 for row in range(rows)]
    x = torch.randn(rows, fan_in, device=GPU).bfloat16()
    a = torch.randn(members, 2 * rank, fan_in, device=GPU).bfloat16()
    b = torch.randn(members * rank * sum(widths), device=GPU).bfloat16()
    blocks = low_rank.column_blocks(members, rank, [slice(0, widths[0]), slice(widths[0], sum(widths))]).to(GPU)
    table = low_rank.tile_rows(slots, low_rank.most_tiles(rows, members)).to(GPU)
    slot_T, row_TM = table[:, 0].contiguous(), table[:, 1:].contiguous()
    y = torch.zeros(rows, sum(widths), device=GPU).bfloat16()
    inner = low_rank.inner(x, a, slot_T, row_TM, rank)
    low_rank.add(y, inner, b, slot_T, row_TM, blocks, rank, low_rank.are_aligned(blocks))
    exact: list[Tensor] = []
    for row, slot in enumerate(slots):
        start = 0
        inner_K = x[row].double() @ a[slot].double().T
        columns: list[Tensor] = []
        for part, width in enumerate(widths):
            b_RO = b[start + slot * rank * width :][: rank * width].view(rank, width).double()
            columns.append(inner_K[part * rank : (part + 1) * rank] @ b_RO)
            start += members * rank * width
        exact.append(torch.cat(columns))
    assert relative(y, torch.stack(exact)) < 2e-2


def steps(*, record: bool) -> list[Tensor]:
    """Returns the hidden states of six steps, the later ones repeated from a recording if `record` is true."""
    decoder = random_decoder(SHAPE, GPU)
    step = TorchDecodeStep(decoder, random_members(decoder, SHAPE, 4), filled_cache(len(LENGTHS)))
    token_R = torch.zeros(len(LENGTHS), dtype=torch.long, device=GPU)
    hidden_RH = torch.zeros(len(LENGTHS), SHAPE.hidden, device=GPU, dtype=torch.bfloat16)

    def work() -> None:
        hidden_RH.copy_(step(token_R))

    recorder = recorder_of(GPU) if record and step.recordable else None
    repeat = Repeater(recorder) if recorder else None
    states: list[Tensor] = []
    with torch.inference_mode():
        for turn in range(6):
            # Members change between repetitions, as in a batch that is refilled.
            step.assign_rows(SLOTS if turn % 2 else SLOTS[::-1])
            token_R.fill_(7 * turn)
            if repeat:
                repeat("step", work)
            else:
                work()
            states.append(hidden_RH.clone())
    assert step.cache.length_R.tolist() == [min(length + 6, 39) for length in LENGTHS]
    return states


def test_a_recorded_step_repeats_what_a_step_computes() -> None:
    for eager, repeated in zip(steps(record=False), steps(record=True), strict=True):
        assert relative(repeated, eager.double()) < 2e-2
