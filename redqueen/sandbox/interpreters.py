"""The interpreters of a pool: one zygote of each kind, started when it is first needed and replaced when it fails."""

from __future__ import annotations

import threading
from collections import defaultdict

from redqueen.sandbox.process import Zygote
from redqueen.sandbox.profile import Profile

VARIANTS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4, "F": 5, "G": 6}
"""The interpreters. A gives the values. The others, where hashes, addresses and limits differ, only check them: B does
so for every program, the rest for those whose code, as B finds, could show a hash or an address."""

_WORKERS_PER_MOTHER = 4
"""To fork a child takes about a quarter of what a short program takes in all."""


class Interpreters:
    """Up to seven zygotes, which all workers of a pool share: whichever serves, a program meets the same bytes."""

    def __init__(self, profile: Profile, workers: int = 1) -> None:
        self.profile = profile
        self.zygotes: dict[str, Zygote] = {}
        self._mothers = -(-workers // _WORKERS_PER_MOTHER)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def get(self, which: str) -> Zygote:
        """Returns an interpreter that serves. Raises ZygoteError if it does not start."""
        with self._locks[which]:
            zygote = self.zygotes.get(which)
            if zygote is not None and zygote.alive():
                return zygote
            if zygote is not None:
                del self.zygotes[which]
                zygote.close()
            self.zygotes[which] = Zygote(self.profile, VARIANTS[which], self._mothers)
            return self.zygotes[which]

    def close(self) -> None:
        """Ends all zygotes."""
        while self.zygotes:
            self.zygotes.popitem()[1].close()
