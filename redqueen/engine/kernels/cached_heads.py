"""What lies between a decode step's first product and its attention, as one operator: norms, rotation, the KV cache.

On a GPU it is one Triton kernel (`redqueen.engine.kernels.triton_kernels`); elsewhere torch computes the same.

Shape suffixes: R rows, H heads (those of q, then of k, then of v), D head size, K kv heads, B blocks of the
cache, P places of a block.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import Tensor

from redqueen.engine.kernels.torch_ops import HeadNorms, heads, split_heads


@torch.library.custom_op("redqueen::cached_heads", mutates_args=("keys", "values"), device_types="cuda")
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
) -> Tensor:
    """Returns q [R, heads, D], normed and rotated; writes k, likewise, and v to a layer's cache [B, K, P, D].

    Row r writes to place `at_R[r]` of block `block_R[r]`, which is its row of the cache or one of its pages. Empty
    weights `norm_q` and `norm_k` mean no norms.
    """
    out = _queries(qkv_RHD, keys)
    _triton().cached_heads(qkv_RHD, cos_R1D, sin_R1D, norm_q, norm_k, eps, block_R, at_R, keys, values, out)
    return out


def _queries(qkv_RHD: Tensor, keys: Tensor) -> Tensor:
    """Returns memory for q."""
    rows, all_heads, size = qkv_RHD.shape
    return qkv_RHD.new_empty(rows, all_heads - 2 * keys.shape[1], size)


@cached_heads.register_fake
def _shape(qkv_RHD: Tensor, *rest: Any) -> Tensor:
    *_, keys, _ = rest
    return _queries(qkv_RHD, keys)


def _plain(
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
) -> Tensor:
    kv_heads = keys.shape[1]
    norms = HeadNorms(norm_q, norm_k, eps) if len(norm_q) else None
    q, k, v = split_heads(heads(qkv_RHD, cos_R1D, sin_R1D, kv_heads, norms), kv_heads)
    keys[block_R, :, at_R] = k
    values[block_R, :, at_R] = v
    return q.contiguous()


cached_heads.register_kernel("cpu")(_plain)


@functools.cache
def _triton() -> Any:
    """Returns the Triton kernel, which needs triton."""
    return importlib.import_module("redqueen.engine.kernels.triton_kernels")
