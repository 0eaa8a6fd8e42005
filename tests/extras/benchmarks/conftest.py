"""The jail that the graders of code share, with the rules of benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redqueen.jail import BENCHMARKS, Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(BENCHMARKS, workers=1) as shared:
        yield shared
