from __future__ import annotations

import json

import pytest

from tests import golden


@pytest.mark.integration
def test_a_toy_run_leaves_what_it_has_always_left() -> None:
    assert golden.digest() == json.loads(golden.SUMS.read_text())
