"""Opens the graders that an evaluation needs, and closes them."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from redqueen.evals.graders.code import EvalPlusGrader
from redqueen.evals.graders.cruxeval import CruxEvalGrader
from redqueen.evals.graders.game import GameGrader
from redqueen.evals.graders.grader import Grader
from redqueen.evals.graders.livecodebench import LiveCodeBenchGrader
from redqueen.evals.graders.maths import MathsGrader
from redqueen.records import Verifier
from redqueen.sandbox import BENCHMARKS, Sandbox


class OpenGraders:
    """The graders by name; each starts when it is first asked for. Use it as a context manager, or call `close`."""

    def __init__(self, verifier: Verifier, cache: Path | None = None, workers: int = 0) -> None:
        """The expected outputs of evalplus' problems are kept in the file `cache`, if one is named."""
        self.verifier = verifier
        self.cache = cache
        self.workers = workers
        self._sandbox: Sandbox | None = None
        self._opened: dict[str, Grader] = {}

    def get(self, name: str) -> Grader:
        """Returns a grader. Raises UserError if a library that it needs is not installed."""
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def _open(self, name: str) -> Grader:
        if name == "game":
            return GameGrader(self.verifier)
        if name == "maths":
            return MathsGrader()
        # One sandbox serves all graders of programs.
        if self._sandbox is None:
            self._sandbox = Sandbox(BENCHMARKS)
        if name == "evalplus":
            return EvalPlusGrader(self._sandbox, self.cache)
        if name == "livecodebench":
            return LiveCodeBenchGrader(self._sandbox)
        if name == "cruxeval":
            return CruxEvalGrader(self._sandbox)
        raise ValueError(f"no grader is named {name}")

    def close(self) -> None:
        """Ends the graders' processes."""
        for grader in self._opened.values():
            grader.close()
        if self._sandbox is not None:
            self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
