"""Compiled kernels of a forward and backward pass over many rows, each of which reads and writes its rows once.

Norms, rotary embeddings, SwiGLU and log-probabilities; then attention: rows to heads and back, and the softmax over a
prompt and a continuation.

Shape suffixes: N rows, H hidden size, F intermediate size, D head size, K kv heads, M sequences, G query heads of each
kv head, C places of a sequence (or rows of a chunk, with V), V vocabulary, P tokens of the prompt, X = M x G x C.
"""

from __future__ import annotations

import numpy as np

from redqueen.engine.kernels.numba_floats import (
    Array,
    compiled,
    exp2,
    gated,
    highest,
    inlined,
    inverse_rms,
    powers,
    put,
    sigmoid,
    turn,
    unit,
    wide,
)


@compiled
def norm(x_NH: Array, y_NH: Array, weight_H: Array, eps: float, sum_NH: Array, out_NH: Array) -> None:
    """sum = x + y, out = w * sum / rms(sum). If y has no rows, nothing is added, and `sum` has to be x."""
    for n in range(len(x_NH)):
        total = sum_NH[n]
        if len(y_NH):
            x, y = x_NH[n], y_NH[n]
            for i in range(len(x)):
                put(total, i, wide(x[i]) + wide(y[i]))
        # The norm reads the sum as it was stored, rounded: the backward pass sees the same numbers.
        unit(total, inverse_rms(total, eps), weight_H, out_NH[n])


@inlined
def _slope(dy: Array, x: Array, weight: Array, eps: float) -> tuple[float, float]:
    """1 / rms(x), and the factor of x in the gradient of x."""
    # With u = x * scale and g = w * dy, the gradient is scale * (g - u * mean(g * u)); `along` is sum(g * x).
    scale, along = inverse_rms(x, eps), np.float32(0)
    for i in range(len(x)):
        along += wide(dy[i]) * wide(weight[i]) * wide(x[i])
    return scale, along * scale * scale / np.float32(len(x))


@compiled
def norm_backward(dy_NH: Array, x_NH: Array, weight_H: Array, eps: float, past_NH: Array, dx_NH: Array) -> None:
    """Writes the gradient of `norm` to `dx`, from those of its result (`dy`) and of its sum (`past`)."""
    for n in range(len(x_NH)):
        dy = dy_NH[n]
        x = x_NH[n]
        past = past_NH[n]
        dx = dx_NH[n]
        scale, share = _slope(dy, x, weight_H, eps)
        # Both gradients are added in fp32 and rounded once.
        for i in range(len(x)):
            put(dx, i, wide(past[i]) + scale * (wide(dy[i]) * wide(weight_H[i]) - share * wide(x[i])))


@compiled
def heads(x_NHD: Array, norm_D: Array, eps: float, cos: Array, sin: Array, out_NHD: Array) -> None:
    """The norm of each head, if `norm` is not empty, then its rotary embedding."""
    head = np.empty(x_NHD.shape[2], np.float32)
    for n in range(len(x_NHD)):
        for h in range(x_NHD.shape[1]):
            x, out = x_NHD[n, h], out_NHD[n, h]
            if len(norm_D):
                unit(x, inverse_rms(x, eps), norm_D, head)
            else:
                for d in range(len(x)):
                    head[d] = wide(x[d])
            turn(head, cos[n], sin[n])
            for d in range(len(x)):
                put(out, d, head[d])


@compiled
def heads_backward(
    dy_NHD: Array, x_NHD: Array, norm_D: Array, eps: float, cos: Array, sin: Array, dx_NHD: Array
) -> None:
    """Writes the gradient of `heads` to `dx`."""
    # A rotation is orthogonal: its gradient is rotated back, by the negative angle.
    head, back = np.empty(x_NHD.shape[2], np.float32), -sin
    for n in range(len(x_NHD)):
        for h in range(x_NHD.shape[1]):
            dy = dy_NHD[n, h]
            x = x_NHD[n, h]
            dx = dx_NHD[n, h]
            for d in range(len(x)):
                head[d] = wide(dy[d])
            turn(head, cos[n], back[n])
            if len(norm_D):
                scale, share = _slope(head, x, norm_D, eps)
                for d in range(len(x)):
                    put(dx, d, scale * (head[d] * wide(norm_D[d]) - share * wide(x[d])))
            else:
                for d in range(len(x)):
                    put(dx, d, head[d])


@compiled
def swiglu(both_N2F: Array, out_NF: Array) -> None:
    """out = silu(gate) * up of both = (gate, up)."""
    half = out_NF.shape[1]
    for n in range(len(out_NF)):
        gated(both_N2F[n, :half], both_N2F[n, half:], out_NF[n])


@compiled
def swiglu_backward(dy_NF: Array, both_N2F: Array, d_both_N2F: Array) -> None:
    """Writes the gradient of `swiglu` to `d_both`."""
    half = dy_NF.shape[1]
    for n in range(len(dy_NF)):
        dy = dy_NF[n]
        gate = both_N2F[n, :half]
        up = both_N2F[n, half:]
        d_gate, d_up = d_both_N2F[n, :half], d_both_N2F[n, half:]
        for f in range(half):
            x, slope = wide(gate[f]), wide(dy[f])
            # The derivative of x * sigmoid(x) is sigmoid(x) * (1 + x * (1 - sigmoid(x))).
            sigmoid_x = sigmoid(x)
            put(d_up, f, slope * x * sigmoid_x)
            put(d_gate, f, slope * wide(up[f]) * sigmoid_x * (np.float32(1) + x * (np.float32(1) - sigmoid_x)))


@compiled
def masses(logits_CV: Array, target_C: Array, bits: float, logp_C: Array, total_C: Array) -> None:
    """Writes log2 p(target) of each row. A token's probability is 2^(bits x logit) / their sum.

    Leaves in `logits` these powers divided by the row's largest, and in `total` their sum.
    """
    for c in range(len(logits_CV)):
        row, factor = logits_CV[c], np.float32(bits)
        top = highest(row[0], row, len(row))
        # The target's logit is read first, because the loop overwrites the row. No bounds are checked.
        chosen = factor * (wide(row[target_C[c]]) - top)
        total = np.float32(0)
        for v in range(len(row)):
            mass = exp2(factor * (wide(row[v]) - top))
            total += mass
            put(row, v, mass)
        total_C[c] = total
        logp_C[c] = chosen - np.log2(total)


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
