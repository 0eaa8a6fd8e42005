"""Futures that have their result already, and those that are made of another's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def finished(value: T) -> Future[T]:
    """Returns a future that has its result already."""
    future: Future[T] = Future()
    future.set_result(value)
    return future


def then(before: Future[S], function: Callable[[S], T]) -> Future[T]:
    """Returns the future of `function` of a result, called in the thread that had the result. It cannot be cancelled.

    It ends in `CancelledError` if what `before` waits for is dropped.
    """
    after: Future[T] = Future()
    after.set_running_or_notify_cancel()

    def finish(before: Future[S]) -> None:
        try:
            after.set_result(function(before.result()))
        except Exception as error:  # noqa: BLE001 - the caller that waits for the result gets it
            after.set_exception(error)

    before.add_done_callback(finish)
    return after
