"""The part `smoke`: what the machine is, and each kernel alone against plain products. An error is a line, no end.

On a CPU, with `--tiny`, the same checks run with its stand-ins. Shape suffixes as in `redqueen.engine.kernels`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.clock import device_for
from benchmarks.gpu.environment import say_environment
from benchmarks.gpu.output import say
from benchmarks.gpu.shapes import Shape, random_decoder
from benchmarks.timing import BenchmarkError
from redqueen.engine.kernels import low_rank
from redqueen.engine.kernels.cached_heads import cached_heads
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.forward import TokenLogprobs
from redqueen.engine.sampling.decode_step import WrittenApart, reads_by_flash
from redqueen.engine.sampling.kv_cache import PAGE, KVCache, Pages, pages_suit
from redqueen.engine.sampling.recorded import Repeater, recorder_of
from redqueen.engine.sampling.tokens import SamplingTensors, sample_tokens
from redqueen.engine.tensor_memory import HostCopy, to_device
from redqueen.records import SamplingParams

Check = Callable[[torch.device], float]
"""Returns the largest relative error of a kernel on a device."""

RANKS = (16, 32, 8, 128, 512, 1024)
# Those of the recipes come first.
# What bf16 loses in a few hundred sums is far below.
_LIMIT = 2e-2
_BF16 = torch.bfloat16


def part(*, tiny: bool) -> None:
    """What the machine is, and each kernel alone."""
    device = device_for(tiny=tiny)
    say_environment(device)
    run_smoke(device, tiny=tiny)


def run_smoke(device: torch.device, *, tiny: bool) -> None:
    """Makes all checks. Raises BenchmarkError, after the last one, if any of them failed."""
    failed: list[str] = []
    for name, check in _checks(tiny=tiny):
        start = time.perf_counter()
        try:
            error = check(device)
            outcome = f"{error:.1e} in {time.perf_counter() - start:.1f} s"
            good = error < _LIMIT
        # Whatever it is, the other kernels are worth knowing about.
        except Exception as why:  # noqa: BLE001
            traceback.print_exc()
            outcome = f"{type(why).__name__}: {(str(why).strip().splitlines() or [''])[0]}"
            good = False
        say(f"{'ok' if good else 'FAILED'} {name}", outcome)
        if not good:
            failed.append(name)
    if failed:
        raise BenchmarkError(f"{len(failed)} checks failed: {', '.join(failed)}")


def relative(got: Tensor, exact: Tensor) -> float:
    """Returns the size of the error as a share of the exact numbers' size."""
    exact = exact.double().cpu()
    return float((got.double().cpu() - exact).norm() / exact.norm())


def errors_of_attention(heads: int, kv_heads: int, size: int, device: torch.device) -> list[float]:
    """Returns the relative errors of y, dq, dk and dv of a GPU's attention, against plain products in fp32."""
    prefixes = [SharedPrefix(0, 40, (30, 7, 19)), SharedPrefix(96, 33, (50,)), SharedPrefix(179, 21, (9, 9))]
    rows = prefixes[-1].end
    inputs = [torch.randn(rows, count, size, device=device, dtype=_BF16) for count in (heads, kv_heads, kv_heads)]
    dy = torch.randn_like(inputs[0])
    found: list[list[Tensor]] = []
    for dtype in (torch.float32, _BF16):
        leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
        y = SharedPrefixAttention(prefixes, device)(0, *leaves)
        y.backward(dy.to(dtype))
        found.append([y.detach()])
        for leaf in leaves:
            assert leaf.grad is not None
            found[-1].append(leaf.grad)
    return [relative(got, exact) for exact, got in zip(*found, strict=True)]


def _checks(*, tiny: bool) -> Iterator[tuple[str, Check]]:
    size = 16 if tiny else 128
    yield "copies between host and device", _copies
    yield "attention of training, forward and backward", lambda device: max(errors_of_attention(8, 2, size, device))
    for rank in RANKS[:2] if tiny else RANKS:
        yield f"low-rank products of decoding, rank {rank}", partial(_low_rank, rank)
    yield "heads and the KV cache, without norms", partial(_heads, size, normed=False)
    yield "heads and the KV cache, with norms", partial(_heads, size, normed=True)
    yield "attention over pages of the KV cache", partial(_pages, size)
    yield "norms", _norm
    yield "SwiGLU", _swiglu
    yield "products that are added in fp32", _added_products
    vocabularies = (500, 512) if tiny else (151936, 152064)
    for vocabulary in vocabularies:
        yield f"log-probabilities, {vocabulary} tokens", partial(_logprobs, vocabulary)
        yield f"sampled tokens, {vocabulary} tokens", partial(_sampled, vocabulary)
    yield "AdamW", _adamw
    yield "a graph that is repeated", _graph


def _copies(device: torch.device) -> float:
    here = torch.randn(1000)
    return relative(HostCopy(2 * to_device(here, device)).wait(), 2 * here)


def _low_rank(rank: int, device: torch.device) -> float:
    members = 4
    rows = 70
    fan_in = 512
    columns = [slice(0, 256), slice(256, 384)]
    slots = [row * 7 % 3 for row in range(rows)]
    x = torch.randn(rows, fan_in).to(_BF16)
    a = (torch.randn(members, 2 * rank, fan_in) / fan_in**0.5).to(_BF16)
    b = (torch.randn(members * rank * 384) / rank**0.5).to(_BF16)
    table = low_rank.tile_rows(slots, low_rank.most_tiles(rows, members))
    blocks = low_rank.column_blocks(members, rank, columns)
    found: list[Tensor] = []
    for where, dtype in ((torch.device("cpu"), torch.float64), (device, _BF16)):
        slot_T, row_TM = (part.contiguous().to(where) for part in (table[:, 0], table[:, 1:]))
        y = torch.zeros(rows, 384, device=where, dtype=dtype)
        inner = low_rank.inner(x.to(where, dtype), a.to(where, dtype), slot_T, row_TM, rank)
        low_rank.add(
            *(y, inner, b.to(where, dtype), slot_T, row_TM, blocks.to(where)), rank, low_rank.are_aligned(blocks)
        )
        found.append(y)
    return relative(found[1], found[0])


def _heads(size: int, device: torch.device, *, normed: bool) -> float:
    rows = 8
    queries = 28
    kv = 4
    room = 40
    qkv = torch.randn(rows, queries + 2 * kv, size).to(_BF16)
    angle = torch.rand(rows, size // 2)
    cos, sin = (half.repeat(1, 2)[:, None].to(_BF16) for half in (angle.cos(), angle.sin()))
    weights = torch.rand(2, size if normed else 0).to(_BF16)
    found: list[tuple[Tensor, ...]] = []
    for where, dtype in ((torch.device("cpu"), torch.float64), (device, _BF16)):
        inputs = [x.to(where, dtype) for x in (qkv, cos, sin, *weights)]
        keys, values = torch.zeros(2, rows, kv, room, size, device=where, dtype=dtype)
        at_R = torch.arange(0, 5 * rows, 5, device=where)
        block_R = torch.arange(rows, device=where)
        found.append((cached_heads(*inputs, 1e-6, block_R, at_R, keys, values), keys, values))
    return max(relative(got, exact) for exact, got in zip(*found, strict=True))


def _pages(size: int, device: torch.device) -> float:
    """A step's attention over pages in mixed order; where this torch's flash attention takes none, over rows."""
    rows = 8
    group, kv = 4, 2
    cache, block_RC = _filled_cache(rows, group, kv, size, device)
    q, k, v = (torch.randn(rows, heads, size).to(_BF16) for heads in (group * kv, kv, kv))
    with torch.inference_mode():
        attention = WrittenApart(cache, rows, group, flash=reads_by_flash(cache))
        got = attention(0, q.to(device), k.to(device), v.to(device))
    # The keys and values of each row one after the other: [R, K, T, D].
    keys, values = (
        blocks[0].cpu().double()[block_RC].transpose(1, 2).flatten(2, 3) for blocks in (cache.keys, cache.values)
    )
    scores = q.double().view(rows, kv, group, size) @ keys.mT / size**0.5
    late_RT = torch.arange(cache.room) > cache.length_R.cpu()[:, None]
    exact = scores.masked_fill(late_RT[:, None, None], float("-inf")).softmax(-1) @ values
    return relative(got.view(exact.shape), exact)


def _filled_cache(rows: int, group: int, kv: int, size: int, device: torch.device) -> tuple[KVCache, Tensor]:
    """Returns a cache of random tokens, in pages where that is possible, and the blocks of each row."""
    heads = group * kv
    room = 3 * PAGE
    shape = Shape(layers=1, hidden=heads * size, intermediate=64, heads=heads, kv_heads=kv, vocabulary=64, rank=4)
    decoder = random_decoder(shape, device)
    paged = device.type == "cpu" or pages_suit(decoder.embed_VH.new_empty(size))
    cache = KVCache(decoder, rows, room, Pages(3 * rows, rows) if paged else None)
    cache.keys.normal_()
    cache.values.normal_()
    cache.length_R.copy_(torch.arange(rows) * (room // rows))
    if cache.table_RC is None:
        return cache, torch.arange(rows)[:, None]
    block_RC = torch.randperm(3 * rows).view(rows, 3)
    cache.table_RC.copy_(block_RC)
    return cache, block_RC


def _norm(device: torch.device) -> float:
    x, y = torch.randn(2, 70, 512).to(_BF16)
    weight = torch.rand(512).to(_BF16)
    found: list[tuple[Tensor, Tensor]] = []
    for where, dtype in ((torch.device("cpu"), torch.float64), (device, _BF16)):
        there, residual, factor = (tensor.to(where, dtype) for tensor in (x, y, weight))
        found.append(kernels_of(there).norm(there, residual, factor, 1e-6))
    return max(relative(got, exact) for exact, got in zip(*found, strict=True))


def _swiglu(device: torch.device) -> float:
    both = torch.randn(70, 1024).to(_BF16)
    exact = torch.nn.functional.silu(both[:, :512].double()) * both[:, 512:].double()
    there = both.to(device)
    return relative(kernels_of(there).swiglu(there), exact)


def _added_products(device: torch.device) -> float:
    left, right = torch.randn(2, 3, 64, 64).to(_BF16)
    out = torch.randn(3, 64, 64)
    exact = out.double() + 0.5 * (left.double() @ right.double())
    there = out.to(device)
    kernels_of(left.to(device)).add_products_(there, left.to(device), right.to(device), [0.5] * 3)
    return relative(there, exact)


def _logprobs(vocabulary: int, device: torch.device) -> float:
    hidden = torch.randn(70, 64).to(_BF16)
    weight = (torch.randn(vocabulary, 64) / 8).to(_BF16)
    target = torch.randint(vocabulary, (70,))
    exact_in = hidden.double().requires_grad_()
    exact = (exact_in @ weight.double().T).log_softmax(-1).gather(1, target[:, None])[:, 0]
    exact.sum().backward()
    there = hidden.to(device).requires_grad_()
    got: Tensor = TokenLogprobs.apply(there, weight.to(device), target.to(device), 1.0)
    got.sum().backward()
    assert exact_in.grad is not None
    assert there.grad is not None
    return max(relative(got.detach(), exact.detach()), relative(there.grad, exact_in.grad))


def _sampled(vocabulary: int, device: torch.device) -> float:
    """Returns the error of the log-probabilities; infinite if more than one token in ten differs."""
    rows = 64
    logits = (3 * torch.randn(rows, vocabulary)).to(_BF16)
    uniform = torch.rand(rows)
    params = SamplingTensors.of([SamplingParams(max_tokens=1)] * rows)
    exact = sample_tokens(logits, uniform, params)
    there = SamplingTensors(params.values_4R.to(device), truncates=False, has_greedy=False)
    got = sample_tokens(logits.to(device), uniform.to(device), there)
    # Sums in another order may choose the neighbour of a token.
    same = got.token_R.cpu() == exact.token_R
    if same.sum() < 0.9 * rows:
        return float("inf")
    return relative(got.logprob_R.cpu()[same], exact.logprob_R[same])


def _adamw(device: torch.device) -> float:
    start, gradient = torch.randn(2, 1000)
    found: list[Tensor] = []
    for where in (torch.device("cpu"), device):
        weight = start.to(where, copy=True)
        optimizer = torch.optim.AdamW([weight], lr=1e-2, fused=True)
        weight.grad = gradient.to(where)
        for _ in range(3):
            optimizer.step()
        found.append(weight - start.to(where))
    return relative(found[1], found[0])


def _graph(device: torch.device) -> float:
    x = torch.randn(64, 64, device=device, dtype=_BF16) / 8
    state = torch.ones(64, 64, device=device, dtype=_BF16)
    expected = state.double().cpu()

    def work() -> None:
        state.copy_(state @ x + 1)

    recorder = recorder_of(device)
    repeat = Repeater(recorder) if recorder else None
    for _ in range(4):
        if repeat:
            repeat("work", work)
        else:
            work()
        expected = expected @ x.double().cpu() + 1
    return relative(state, expected)
