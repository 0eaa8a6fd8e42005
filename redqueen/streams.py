"""Stateless randomness: every generator is derived from names and numbers, so resuming needs no generator state."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np


def key(*parts: str | int) -> int:
    """A 128-bit number that depends on every part, e.g. `key(seed, step, "match")`; stable across processes."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16)
    return int.from_bytes(digest.digest(), "little")


def python(*parts: str | int) -> random.Random:
    """The standard library's generator for this purpose."""
    return random.Random(key(*parts))


def uniforms(count: int, *parts: str | int) -> np.ndarray:
    """`count` float64 uniforms in [0, 1) from a counter-based stream (Philox; Salmon et al. 2011)."""
    return np.random.Generator(np.random.Philox(key=key(*parts))).random(count)
