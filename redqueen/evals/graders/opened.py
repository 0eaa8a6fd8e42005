"""Opens the graders that an evaluation needs, and closes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from redqueen.base.closing import Closing
from redqueen.evals.graders.game import GameGrader
from redqueen.evals.graders.grader import Grader
from redqueen.jail import BENCHMARKS, Sandbox
from redqueen.records import Verifier


class OpenGraders(Closing):
    """The graders of benchmarks; each starts when it is first asked for. A context manager, which closes them."""

    def __init__(self, verifier: Verifier, cache: Path | None = None) -> None:
        """The expected outputs of evalplus' problems are kept in the file `cache`, if one is named."""
        self.verifier = verifier
        self.cache = cache
        self._sandbox: Sandbox | None = None
        self._opened: dict[OpenGrader, Grader] = {}

    @property
    def sandbox(self) -> Sandbox:
        """One sandbox for all graders of programs; it starts when it is first asked for."""
        if self._sandbox is None:
            self._sandbox = Sandbox(BENCHMARKS)
        return self._sandbox

    def get(self, opens: OpenGrader) -> Grader:
        """Returns the grader that `opens` opens. Raises UserError if a library that it needs is not installed."""
        if opens not in self._opened:
            self._opened[opens] = opens(self)
        return self._opened[opens]

    def close(self) -> None:
        for grader in self._opened.values():
            grader.close()
        if self._sandbox is not None:
            self._sandbox.close()


OpenGrader = Callable[[OpenGraders], Grader]
"""Opens a grader with what all graders share: the verifier, a sandbox, a file for what references give."""


def game(shared: OpenGraders) -> Grader:
    """Opens the game's own judge; a problem's `data` has the `task`."""
    return GameGrader(shared.verifier)
