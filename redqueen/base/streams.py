"""Stateless randomness: every generator is derived from names and numbers.

A resumed run derives the same generators again, so checkpoints hold no generator state, and what one part of a run
draws has no effect on another.
"""

from __future__ import annotations

import hashlib
import json
import random


def key(*parts: str | int) -> int:
    """Returns a 128-bit number that depends on every part, e.g. `key(seed, step, "match")`; stable across processes."""
    # JSON keeps parts apart: with a separator ("a", "b") could equal ("a|b",), and 1 could equal "1". Python's `hash`
    # differs between processes.
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16)
    return int.from_bytes(digest.digest(), "little")


def python(*parts: str | int) -> random.Random:
    """Returns a generator of the standard library for this purpose."""
    return random.Random(key(*parts))
