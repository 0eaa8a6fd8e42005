"""What the compiled kernels share: how numbers are stored, and how functions are compiled.

Arrays hold fp32, or bf16 as the upper halves of fp32 in uint16. Sums are computed in fp32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Sums may be reordered, so that loops become vector instructions. The flags that assume no NaN and no infinity are left
# out on purpose: with them a diverged run would not be noticed. Without the GIL other threads go on meanwhile.
_FAST: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "arcp", "nsz"}}
_INLINE: Any = {"forceinline": True}
# Numba invalidates its cache by the function's own file only. Every kernel also depends on this file, so its hash is
# part of the kernel's name.
_STAMP = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def as_array(tensor: Tensor) -> Array:
    """Returns the same memory as an array. bf16 becomes uint16, because NumPy and Numba have no bf16."""
    # `wide` and `put` convert such bits: bf16 is the upper half of an fp32, so a shift and a rounding are enough.
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def compiled(function: _Function) -> _Function:
    """Compiles a function once per machine. It may call functions of its own module and of this one."""
    function.__qualname__ += f"-{_STAMP}"
    try:
        return cast(_Function, njit(cache=True, **_FAST)(function))
    except RuntimeError:
        # Numba found no folder for its cache that it may write to, so each process compiles for itself.
        return cast(_Function, njit(**_FAST)(function))


def inlined(function: _Function) -> _Function:
    """Compiles a helper that is always inlined.

    A separately compiled helper rounds differently when it is loaded from Numba's cache than right after compilation.
    """
    return cast(_Function, njit(**_INLINE, **_FAST)(function))


def wide(value: Any) -> Any:
    """Returns a stored number as fp32."""
    raise NotImplementedError


def put(array: Array, index: int, value: Any) -> None:
    """Stores fp32 in `array`, rounded to nearest even."""
    raise NotImplementedError


# Numba chooses between the two implementations by the type of the argument, at compile time: one kernel serves both
# dtypes without a branch in its loops.
@overload(wide, jit_options=_INLINE)
def _wide_of(value: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
    if not isinstance(value, types.Integer):

        def whole(value: Any) -> Any:
            return value

        return whole

    def half(value: Any) -> Any:
        return np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)

    return half


@overload(put, jit_options=_INLINE)
def _put_in(array: Any, index: Any, value: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
    if not isinstance(array.dtype, types.Integer):

        def whole(array: Any, index: Any, value: Any) -> Any:
            array[index] = value

        return whole

    def half(array: Any, index: Any, value: Any) -> Any:
        # Adding half of the last kept place, less one unit if that place is even, rounds ties to even.
        bits = np.float32(value).view(np.uint32)
        array[index] = np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    return half


@inlined
def exp2(x: Any) -> Any:
    """2^x for x <= 0, in fp32's precision (Taylor series of degree 6 on [-1/2, 1/2]); never less than 2^-126."""
    # Below -126 the exponent field would run out of its bits and wrap around to a large number.
    x = np.float32(-126) if x < np.float32(-126) else x
    whole = np.floor(x + np.float32(0.5))
    rest = x - whole
    # A polynomial instead of the C library's function: a call would keep the loop around it from becoming vector
    # instructions. The coefficients are (ln 2)^n / n! from n = 6 down.
    p = np.float32(1.5403530e-4)
    p = p * rest + np.float32(1.3333558e-3)
    p = p * rest + np.float32(9.6181291e-3)
    p = p * rest + np.float32(5.5504109e-2)
    p = p * rest + np.float32(2.4022651e-1)
    p = p * rest + np.float32(6.9314718e-1)
    p = p * rest + np.float32(1)
    # 2^whole is made from its bits: the exponent with its bias of 127, in the place where fp32 keeps it.
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@inlined
def ordered(value: Any) -> Any:
    """An int32 that sorts as its fp32 does: loops over maxima of integers become vectors, those of floats do not."""
    bits = np.float32(wide(value)).view(np.int32)
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@inlined
def unordered(key: Any) -> Any:
    """The inverse of `ordered`."""
    return np.int32(key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@inlined
def highest(first: Any, x: Array, count: Any) -> Any:
    """The largest of `first` and the first `count` numbers of x, in fp32."""
    key = ordered(first)
    for i in range(count):
        key = max(key, ordered(x[i]))
    return unordered(key)


@inlined
def powers(x: Array, count: Any, factor: Any, top: Any, out: Array) -> Any:
    """Writes 2^(factor (x - top)) of the first `count` numbers to `out`; returns their sum.

    Not in place, because such a loop would not become vectors.
    """
    total = np.float32(0)
    for i in range(count):
        mass = exp2(factor * (wide(x[i]) - top))
        out[i] = mass
        total += mass
    return total


@inlined
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    # The power is taken of -|x|, which `exp2` requires and which cannot overflow.
    e = exp2(np.float32(-1.44269504) * abs(x))
    return (e if x < np.float32(0) else np.float32(1)) / (np.float32(1) + e)


@inlined
def gated(gate: Array, up: Array, out: Array) -> None:
    """out = silu(gate) * up."""
    for i in range(len(out)):
        x = wide(gate[i])
        put(out, i, x * sigmoid(x) * wide(up[i]))


@inlined
def inverse_rms(x: Array, eps: float) -> Any:
    """1 / rms(x)."""
    total = np.float32(0)
    for i in range(len(x)):
        total += wide(x[i]) * wide(x[i])
    return np.float32(1) / np.sqrt(total / np.float32(len(x)) + np.float32(eps))


@inlined
def unit(x: Array, scale: Any, weight: Array, out: Array) -> None:
    """out = weight * x * scale."""
    for i in range(len(x)):
        put(out, i, wide(x[i]) * scale * wide(weight[i]))


@inlined
def turn(x: Array, cos: Array, sin: Array) -> None:
    """Rotary embedding of one head [D] by cos and sin [D/2], in fp32 and in place."""
    half = len(cos)
    for d in range(half):
        u, v = x[d], x[half + d]
        x[d] = u * cos[d] - v * sin[d]
        x[half + d] = v * cos[d] + u * sin[d]
