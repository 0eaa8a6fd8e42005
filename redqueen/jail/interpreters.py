"""The interpreters of a pool: one zygote of each kind, started when it is first needed and replaced when it fails."""

from __future__ import annotations

import os
import threading
import zlib
from collections import defaultdict

from redqueen.jail.child.protocol import PROCESSORS_BYTES
from redqueen.jail.process import Zygote
from redqueen.jail.profile import Profile

VARIANTS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4, "F": 5, "G": 6}
"""The interpreters. A gives the values. The others, where hashes, addresses and limits differ, only check them: B does
so for every program, the rest for those whose code, as B finds, could show a hash or an address."""


class Interpreters:
    """Up to seven zygotes, which all workers of a pool share: whichever serves, a program meets the same bytes."""

    def __init__(self, profile: Profile, workers: int = 1) -> None:
        self.profile = profile
        self.zygotes: dict[str, Zygote] = {}
        # As many mothers as children at a time: a worker that waits for another's fork is late where cores are busy.
        self._mothers = workers
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        bits = [1 << number for number in sorted(usable) if number < 8 * PROCESSORS_BYTES]
        self._each = [bit.to_bytes(PROCESSORS_BYTES, "little") for bit in bits]
        self._all = sum(bits).to_bytes(PROCESSORS_BYTES, "little")
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

    def processors(self, program: str | None = None) -> bytes:
        """Returns the processors that children may use; of a program that is given, the one that its text decides."""
        if program is None or not self._each:
            return self._all
        return self._each[zlib.crc32(program.encode("utf-8", "surrogatepass")) % len(self._each)]

    def close(self) -> None:
        while self.zygotes:
            self.zygotes.popitem()[1].close()
