"""The language Python, with the three kinds of tasks of Absolute Zero (Zhao et al. 2025)."""

from redqueen.tasks.kinds.abduction import Abduction
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.kinds.induction import Induction
from redqueen.tasks.python.language import PYTHON

__all__ = ["ABDUCTION", "DEDUCTION", "INDUCTION", "KINDS", "NAMES", "PYTHON"]

DEDUCTION = Deduction("code_o", PYTHON)
ABDUCTION = Abduction("code_i", PYTHON)
INDUCTION = Induction("code_f", PYTHON)
KINDS = (DEDUCTION, ABDUCTION, INDUCTION)
NAMES = tuple(kind.name for kind in KINDS)
"""The names of the three kinds."""
