"""The Triton kernel of `redqueen.engine.kernels.cached_heads`. Only that module imports this one, if triton is there.

Shape suffixes as there; B heads of a program.
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportInvalidTypeForm=false
# pyright: reportMissingParameterType=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

# Heads of a row that one program computes.
BLOCK = 8


def cached_heads(
    qkv_RHD: Tensor,
    cos_R1D: Tensor,
    sin_R1D: Tensor,
    norm_q: Tensor,
    norm_k: Tensor,
    eps: float,
    block_R: Tensor,
    at_R: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
) -> None:
    """Writes q to `out`, and k and v to the cache."""
    rows, heads, size = qkv_RHD.shape
    cached_heads_kernel[(rows, triton.cdiv(heads, BLOCK))](
        qkv_RHD,
        cos_R1D,
        sin_R1D,
        norm_q,
        norm_k,
        block_R,
        at_R,
        out,
        keys,
        values,
        eps,
        qkv_RHD.stride(0),
        cos_R1D.stride(0),
        keys.shape[2],
        QUERIES=out.shape[1],
        KV=keys.shape[1],
        SIZE=size,
        HALF=triton.next_power_of_2(size // 2),
        BLOCK=BLOCK,
        NORMS=len(norm_q) > 0,
    )


@triton.jit
def cached_heads_kernel(
    qkv,
    cos,
    sin,
    norm_q,
    norm_k,
    block_R,
    at_R,
    out,
    keys,
    values,
    eps,
    stride,
    turn,
    places,
    QUERIES: tl.constexpr,
    KV: tl.constexpr,
    SIZE: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    NORMS: tl.constexpr,
):
    """Some heads of one row, in the two halves that a rotation turns into each other."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    d = tl.arange(0, HALF)[None]
    half = SIZE // 2
    there = (head < QUERIES + 2 * KV) & (d < half)
    is_q = there & (head < QUERIES)
    is_k = there & (head >= QUERIES) & (head < QUERIES + KV)
    is_v = there & (head >= QUERIES + KV)
    dtype = out.dtype.element_ty
    pointers = qkv + row * stride + head * SIZE + d
    one_BD = tl.load(pointers, mask=there, other=0.0).to(tl.float32)
    two_BD = tl.load(pointers + half, mask=there, other=0.0).to(tl.float32)

    turned_one = one_BD
    turned_two = two_BD
    if NORMS:
        # As in transformers, the unit vector is rounded to the input's dtype before the weight multiplies it.
        squares_B1 = tl.sum(one_BD * one_BD, 1, keep_dims=True) + tl.sum(two_BD * two_BD, 1, keep_dims=True)
        scale_B1 = tl.rsqrt(squares_B1 / SIZE + eps)
        one_q = tl.load(norm_q + d + 0 * head, mask=is_q, other=0.0)
        two_q = tl.load(norm_q + half + d + 0 * head, mask=is_q, other=0.0)
        one_k = tl.load(norm_k + d + 0 * head, mask=is_k, other=0.0)
        two_k = tl.load(norm_k + half + d + 0 * head, mask=is_k, other=0.0)
        one_weight = tl.where(is_q, one_q, one_k).to(tl.float32)
        two_weight = tl.where(is_q, two_q, two_k).to(tl.float32)
        turned_one = ((one_BD * scale_B1).to(dtype).to(tl.float32) * one_weight).to(dtype).to(tl.float32)
        turned_two = ((two_BD * scale_B1).to(dtype).to(tl.float32) * two_weight).to(dtype).to(tl.float32)

    cos_one = tl.load(cos + row * turn + d, mask=d < half, other=0.0).to(tl.float32)
    cos_two = tl.load(cos + row * turn + half + d, mask=d < half, other=0.0).to(tl.float32)
    sin_one = tl.load(sin + row * turn + d, mask=d < half, other=0.0).to(tl.float32)
    sin_two = tl.load(sin + row * turn + half + d, mask=d < half, other=0.0).to(tl.float32)
    new_one = (turned_one * cos_one - turned_two * sin_one).to(dtype)
    new_two = (turned_two * cos_two + turned_one * sin_two).to(dtype)

    query = out + (row * QUERIES + head) * SIZE + d
    tl.store(query, new_one, mask=is_q)
    tl.store(query + half, new_two, mask=is_q)
    block = tl.load(block_R + row)
    at = tl.load(at_R + row)
    key = keys + ((block * KV + head - QUERIES) * places + at) * SIZE + d
    tl.store(key, new_one, mask=is_k)
    tl.store(key + half, new_two, mask=is_k)
    value = values + ((block * KV + head - QUERIES - KV) * places + at) * SIZE + d
    tl.store(value, one_BD.to(dtype), mask=is_v)
    tl.store(value + half, two_BD.to(dtype), mask=is_v)
