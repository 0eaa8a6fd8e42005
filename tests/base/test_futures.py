"""Futures made of others: results in order, whichever is done first, and errors for whoever waits."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import permutations

import pytest

from redqueen.base.futures import all_of, finished, then


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_all_results_come_in_order_whichever_is_done_first(order: tuple[int, ...]) -> None:
    futures: list[Future[int]] = [Future() for _ in order]
    results = all_of(futures)
    for done in order:
        assert not results.done()
        futures[done].set_result(done)
    assert results.result(0) == [0, 1, 2]


def test_an_error_is_for_whoever_waits() -> None:
    failed: Future[int] = Future()
    both = all_of([finished(1), then(failed, str)])
    failed.set_exception(ValueError("no number"))
    with pytest.raises(ValueError, match="no number"):
        both.result(0)
