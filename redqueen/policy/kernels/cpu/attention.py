"""Compiled kernels of attention in training: rows to heads and back, and the softmax over a prompt and a continuation.

Shape suffixes: N rows, D head size, K kv heads, M sequences, G query heads of each kv head, C places of a sequence, P
tokens of the prompt, X = M x G x C.
"""

from __future__ import annotations

import numpy as np

from redqueen.policy.kernels.cpu.floats import Array, compiled, highest, powers, put, wide


@compiled
def gather(x_NHD: Array, row_MC: Array, out_KMGCD: Array) -> None:
    """Writes the heads of the rows `row_MC`, by kv head and sequence; zeros where the row is -1."""
    kv_heads, sequences, group, places, _ = out_KMGCD.shape
    for k in range(kv_heads):
        for m in range(sequences):
            for g in range(group):
                for c in range(places):
                    row, out = row_MC[m, c], out_KMGCD[k, m, g, c]
                    # Padding must be zero. Its weight is zero, but leftover memory may hold NaN, and 0 * NaN is NaN.
                    if row < 0:
                        for d in range(len(out)):
                            out[d] = 0
                    else:
                        x = x_NHD[row, k * group + g]
                        for d in range(len(out)):
                            out[d] = x[d]


@compiled
def scatter(x_KMGCD: Array, row_MC: Array, out_NHD: Array, add: bool) -> None:
    """The inverse of `gather`: writes to the rows `row_MC`, or adds to them."""
    kv_heads, sequences, group, places, _ = x_KMGCD.shape
    # Rows are the outer loops here, so that padding is skipped once and not once per head.
    for m in range(sequences):
        for c in range(places):
            row = row_MC[m, c]
            if row < 0:
                continue
            for k in range(kv_heads):
                for g in range(group):
                    x, out = x_KMGCD[k, m, g, c], out_NHD[row, k * group + g]
                    if add:
                        for d in range(len(x)):
                            put(out, d, wide(out[d]) + wide(x[d]))
                    else:
                        for d in range(len(x)):
                            out[d] = x[d]


@compiled
def softmax(shared_XP: Array, own_XC: Array, scale: float) -> None:
    """In place: the softmax of scale x scores over the prompt and over the sequence's places up to the row's own."""
    # 1.44269504 is log2(e): powers of two are cheaper than exponentials. A row's powers go to fp32 memory, so
    # that a bf16 weight is rounded once, when it is complete.
    factor = np.float32(1.44269504 * scale)
    prompt = shared_XP.shape[1]
    places = own_XC.shape[1]
    of_prompt, of_own = np.empty(prompt, np.float32), np.empty(places, np.float32)
    for x in range(len(own_XC)):
        shared = shared_XP[x]
        own = own_XC[x]
        seen = x % places + 1
        top = highest(highest(own[0], shared, prompt), own, seen)
        total = powers(shared, prompt, factor, top, of_prompt) + powers(own, seen, factor, top, of_own)
        share = np.float32(1) / total
        for t in range(prompt):
            put(shared, t, share * of_prompt[t])
        for t in range(seen):
            put(own, t, share * of_own[t])
        # Later places are masked. They get zeros, because the products that follow read the whole row.
        for t in range(seen, places):
            own[t] = 0


@compiled
def softmax_backward(d_shared_XP: Array, d_own_XC: Array, shared_XP: Array, own_XC: Array, scale: float) -> None:
    """Turns the gradients of the weights into those of the scores, in place."""
    factor = np.float32(scale)
    prompt = shared_XP.shape[1]
    places = own_XC.shape[1]
    for x in range(len(own_XC)):
        d_shared = d_shared_XP[x]
        d_own = d_own_XC[x]
        shared = shared_XP[x]
        own = own_XC[x]
        # The gradient of a score is scale * w * (dw - sum(w * dw)); the sum runs over both parts of the row.
        along = np.float32(0)
        for t in range(prompt):
            along += wide(d_shared[t]) * wide(shared[t])
        for t in range(places):
            along += wide(d_own[t]) * wide(own[t])
        for t in range(prompt):
            put(d_shared, t, factor * wide(shared[t]) * (wide(d_shared[t]) - along))
        for t in range(places):
            put(d_own, t, factor * wide(own[t]) * (wide(d_own[t]) - along))
