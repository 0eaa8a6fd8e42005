from __future__ import annotations

import json

from tests import golden


def test_a_toy_run_leaves_what_it_has_always_left() -> None:
    assert golden.digest() == json.loads(golden.SUMS.read_text())
