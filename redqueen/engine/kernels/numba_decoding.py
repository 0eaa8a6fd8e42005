"""Compiled kernels of a decoding step on a CPU: everything between the base's products.

With a few rows, most of a step's time would go to a thousand small operations and to the adapters' thin products. Here
a layer is four frozen products and four calls.

Shape suffixes: N rows, I inputs, O outputs, S slots, R rank, K = projections x rank, D head size, T tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from redqueen.engine.kernels.numba_floats import (
    Array,
    compiled,
    gated,
    highest,
    inlined,
    inverse_rms,
    powers,
    put,
    turn,
    unit,
    wide,
)


class RowTasks(NamedTuple):
    """The rows of a batch, divided into tasks: runs of rows of one member."""

    order: Array
    """The rows [N], sorted by member."""
    tasks: Array
    """[n, 3]: slot, first place and end place in `order`."""
    inputs: Array
    """fp32 memory for the inputs of a task's rows, flat."""
    inner: Array
    """fp32 memory for x A of a task's rows [.., K]."""
    outputs: Array
    """fp32 memory for the outputs of a task's rows [.., O]."""


class SiteFactors(NamedTuple):
    """The members' factors at one site."""

    a: Array
    """[S, K, I]."""
    b: Array
    """s·B, one projection's [S, R, o] after the other."""
    columns: Array
    """First and end column of y of each projection [projections, 2]; empty: no factors at this site."""
    rank: int


@inlined
def _dots(x_NI: Array, a_KI: Array, y_NK: Array) -> None:
    """y = x A^T, four rows by two columns at a time."""
    # Four rows and two columns need eight sums, few enough for registers. Each weight that is loaded and widened serves
    # four rows, and each input two columns.
    rows = len(x_NI)
    columns = len(a_KI)
    zero = np.float32(0)
    n = 0
    while n < rows:
        if rows - n > 2:
            # Of three remaining rows the third is computed twice, which is cheaper than a loop of its own.
            last = min(n + 3, rows - 1)
            x0 = x_NI[n]
            x1 = x_NI[n + 1]
            x2 = x_NI[n + 2]
            x3 = x_NI[last]
            for k in range(0, columns, 2):
                other = min(k + 1, columns - 1)
                a, b = a_KI[k], a_KI[other]
                p0 = zero
                p1 = zero
                p2 = zero
                p3 = zero
                q0 = zero
                q1 = zero
                q2 = zero
                q3 = zero
                for i in range(a_KI.shape[1]):
                    u, v = wide(a[i]), wide(b[i])
                    p0 += x0[i] * u
                    p1 += x1[i] * u
                    p2 += x2[i] * u
                    p3 += x3[i] * u
                    q0 += x0[i] * v
                    q1 += x1[i] * v
                    q2 += x2[i] * v
                    q3 += x3[i] * v
                y_NK[n, k] = p0
                y_NK[n + 1, k] = p1
                y_NK[n + 2, k] = p2
                y_NK[last, k] = p3
                y_NK[n, other] = q0
                y_NK[n + 1, other] = q1
                y_NK[n + 2, other] = q2
                y_NK[last, other] = q3
            n += 4
        else:
            x0 = x_NI[n]
            for k in range(columns):
                a, p0 = a_KI[k], zero
                for i in range(a_KI.shape[1]):
                    p0 += x0[i] * wide(a[i])
                y_NK[n, k] = p0
            n += 1


@inlined
def _add(h_NK: Array, first: int, b_RO: Array, y_NO: Array, column: int) -> None:
    """Adds h B to y, `len(b_RO)` columns of h from `first` on to the columns of y from `column` on."""
    rows = len(h_NK)
    rank = len(b_RO)
    outputs = b_RO.shape[1]
    # Two rows and four ranks at a time: y is read and written once for four ranks, and each widened b serves two rows.
    # With an odd number of rows, the last one is its own partner, and `pair` keeps it from being added twice.
    even = rank - rank % 4
    for n in range(0, rows, 2):
        h, g = h_NK[n], h_NK[min(n + 1, rows - 1)]
        y, z = y_NO[n][column : column + outputs], y_NO[min(n + 1, rows - 1)][column : column + outputs]
        pair = n + 1 < rows
        for r in range(0, even, 4):
            b0 = b_RO[r]
            b1 = b_RO[r + 1]
            b2 = b_RO[r + 2]
            b3 = b_RO[r + 3]
            p0 = h[first + r]
            p1 = h[first + r + 1]
            p2 = h[first + r + 2]
            p3 = h[first + r + 3]
            if pair:
                q0 = g[first + r]
                q1 = g[first + r + 1]
                q2 = g[first + r + 2]
                q3 = g[first + r + 3]
                for o in range(outputs):
                    u0 = wide(b0[o])
                    u1 = wide(b1[o])
                    u2 = wide(b2[o])
                    u3 = wide(b3[o])
                    y[o] += p0 * u0 + p1 * u1 + p2 * u2 + p3 * u3
                    z[o] += q0 * u0 + q1 * u1 + q2 * u2 + q3 * u3
            else:
                for o in range(outputs):
                    y[o] += p0 * wide(b0[o]) + p1 * wide(b1[o]) + p2 * wide(b2[o]) + p3 * wide(b3[o])
        for r in range(even, rank):
            b0 = b_RO[r]
            p0 = h[first + r]
            q0 = g[first + r]
            for o in range(outputs):
                y[o] += p0 * wide(b0[o])
            if pair:
                for o in range(outputs):
                    z[o] += q0 * wide(b0[o])


@inlined
def _adapted(rows: RowTasks, task: int, factors: SiteFactors, x_NI: Array, y_NO: Array) -> None:
    """Writes y + s (x A) B for the rows of one task to `rows.outputs`, in the task's order."""
    slot, start, end = rows.tasks[task]
    # Rows are gathered into fp32 memory once. All later steps of the task then read them in order and without widening.
    count, outputs = end - start, y_NO.shape[1]
    for n in range(count):
        y, out = y_NO[rows.order[start + n]], rows.outputs[n]
        for o in range(outputs):
            out[o] = wide(y[o])
    projections = len(factors.columns)
    if projections == 0:
        return
    inputs = x_NI.shape[1]
    wide_NI = rows.inputs[: count * inputs].reshape(count, inputs)
    for n in range(count):
        x, out = x_NI[rows.order[start + n]], wide_NI[n]
        for i in range(inputs):
            out[i] = wide(x[i])
    _dots(wide_NI, factors.a[slot], rows.inner[:count])
    # b holds one projection after the other, and within each one member after the other.
    slots = len(factors.a)
    rank = factors.rank
    at = 0
    for j in range(projections):
        first, last = factors.columns[j]
        size = rank * (last - first)
        b_RO = factors.b[at + slot * size : at + (slot + 1) * size].reshape(rank, last - first)
        _add(rows.inner[:count], j * rank, b_RO, rows.outputs[:count], first)
        at += slots * size


@compiled
def close(
    rows: RowTasks,
    factors: SiteFactors,
    x_NI: Array,
    y_NO: Array,
    stream_NO: Array,
    norm: Array,
    eps: float,
    out_NO: Array,
) -> None:
    """Adds y and its adapters' output to the residual stream; `out` is the stream after the norm that follows."""
    for task in range(len(rows.tasks)):
        _adapted(rows, task, factors, x_NI, y_NO)
        _, start, end = rows.tasks[task]
        for n in range(end - start):
            row = rows.order[start + n]
            stream, more = stream_NO[row], rows.outputs[n]
            for o in range(len(stream)):
                put(stream, o, wide(stream[o]) + more[o])
            # The norm reads the stream as it was stored, rounded, as in the kernels of training.
            unit(stream, inverse_rms(stream, eps), norm, out_NO[row])


@compiled
def gate(rows: RowTasks, factors: SiteFactors, x_NI: Array, y_NO: Array, out_NF: Array) -> None:
    """out = silu(gate) * up of (gate, up) = y and its adapters' output."""
    half = out_NF.shape[1]
    for task in range(len(rows.tasks)):
        _adapted(rows, task, factors, x_NI, y_NO)
        _, start, end = rows.tasks[task]
        for n in range(end - start):
            both = rows.outputs[n]
            gated(both[:half], both[half:], out_NF[rows.order[start + n]])


class AttentionSettings(NamedTuple):
    """What a layer's attention depends on besides its inputs."""

    heads: int
    kv_heads: int
    cos: Array
    """Rotary embeddings [N, D/2]."""
    sin: Array
    """Rotary embeddings [N, D/2]."""
    norm_q: Array
    """The weight [D] of the queries' norm; empty if there is none."""
    norm_k: Array
    """The weight [D] of the keys' norm; empty if there is none."""
    eps: float


@inlined
def _softmax(scores_GT: Array, tokens: Any, masses_T: Array) -> None:
    """Softmax of the first `tokens` scores, in place. They are exponents of two; `masses` is memory for the powers."""
    for g in range(len(scores_GT)):
        scores = scores_GT[g]
        top = highest(scores[0], scores, tokens)
        share = np.float32(1) / powers(scores, tokens, np.float32(1), top, masses_T)
        for t in range(tokens):
            scores[t] = share * masses_T[t]


@compiled
def attend(
    rows: RowTasks,
    factors: SiteFactors,
    x_NI: Array,
    y_NO: Array,
    settings: AttentionSettings,
    keys_NHTD: Array,
    values_NHTD: Array,
    at_N: Array,
    out_NO: Array,
) -> None:
    """Attention of row n's token, the `at_N[n]`th of its sequence, to itself and those before it.

    (q, k, v) is y and its adapters' output. Writes the token's key and value to the cache.
    """
    size = keys_NHTD.shape[3]
    group = settings.heads // settings.kv_heads
    # The factor log2(e) / sqrt(D) is multiplied into the queries, so the scores are exponents of two.
    scale = np.float32(1.44269504 / np.sqrt(size))
    scores_GT, masses_T = np.empty((group, keys_NHTD.shape[2]), np.float32), np.empty(keys_NHTD.shape[2], np.float32)
    mixed_GD = np.empty((group, size), np.float32)
    for task in range(len(rows.tasks)):
        _adapted(rows, task, factors, x_NI, y_NO)
        _, start, end = rows.tasks[task]
        for n in range(end - start):
            row = rows.order[start + n]
            at = at_N[row]
            cos = settings.cos[row]
            sin = settings.sin[row]
            out = out_NO[row]
            both = settings.heads + settings.kv_heads
            wide_HD = rows.outputs[n][: (both + settings.kv_heads) * size].reshape(both + settings.kv_heads, size)
            for h in range(both):
                norm = settings.norm_q if h < settings.heads else settings.norm_k
                if len(norm):
                    unit(wide_HD[h], inverse_rms(wide_HD[h], settings.eps), norm, wide_HD[h])
                turn(wide_HD[h], cos, sin)
            for h in range(settings.kv_heads):
                keys, values = keys_NHTD[row, h], values_NHTD[row, h]
                key = keys[at]
                value = values[at]
                q_GD = wide_HD[h * group : (h + 1) * group]
                # The key and value are stored first and then read back from the cache with the others, so a token sees
                # its own key rounded, just as later tokens do.
                for d in range(size):
                    put(key, d, wide_HD[settings.heads + h, d])
                    put(value, d, wide_HD[both + h, d])
                for g in range(group):
                    for d in range(size):
                        q_GD[g, d] *= scale
                        mixed_GD[g, d] = np.float32(0)
                _dots(q_GD, keys[: at + 1], scores_GT)
                _softmax(scores_GT, at + 1, masses_T)
                _add(scores_GT, 0, values[: at + 1], mixed_GD, 0)
                for g in range(group):
                    for d in range(size):
                        put(out, (h * group + g) * size + d, mixed_GD[g, d])
