"""Samples of long lists of cases: `make test` plays some of them, `make test-all` and CI play all."""

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Returns the cases, of which all but the first, and each `every`-th from there, are marked as slow."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.slow] * bool(place % every))
        for place, case in enumerate(cases)
    ]
