"""How the graders of benchmarks are opened (`redqueen.evals.graders.opened`)."""

from __future__ import annotations

from redqueen.evals.graders.grader import Grader
from redqueen.evals.graders.opened import OpenGraders
from redqueen.extras.benchmarks.graders.code import EvalPlusGrader
from redqueen.extras.benchmarks.graders.cruxeval import CruxEvalGrader
from redqueen.extras.benchmarks.graders.livecodebench import LiveCodeBenchGrader
from redqueen.extras.benchmarks.graders.maths import MathsGrader


def maths(_: OpenGraders) -> Grader:
    """Opens math-verify; a problem's `data` has the `answers`."""
    return MathsGrader()


def evalplus(shared: OpenGraders) -> Grader:
    """Opens the judge of whole programs by evalplus' rules."""
    return EvalPlusGrader(shared.sandbox, shared.cache)


def livecodebench(shared: OpenGraders) -> Grader:
    """Opens the judge of whole programs by their tests."""
    return LiveCodeBenchGrader(shared.sandbox)


def cruxeval(shared: OpenGraders) -> Grader:
    """Opens the judge of a program's inputs and outputs."""
    return CruxEvalGrader(shared.sandbox)
