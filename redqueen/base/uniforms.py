"""Many random numbers at once, from a stream that is named like those of `redqueen.base.streams`.

A module of its own, since numpy takes a fifth of a second to import and most commands draw none.
"""

from __future__ import annotations

import numpy as np

from redqueen.base.streams import key


def uniforms(count: int, *parts: str | int) -> np.ndarray:
    """Returns `count` float64 uniforms in [0, 1) from a counter-based stream (Philox; Salmon et al. 2011).

    A longer request begins with the numbers of a shorter one.
    """
    return np.random.Generator(np.random.Philox(key=key(*parts))).random(count)
