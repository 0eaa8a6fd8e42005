"""Futures that have their result already, and those that are made of another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def all_of(futures: Sequence[Future[T]]) -> Future[list[T]]:
    """Returns the future of all results, in order. There has to be one at least."""
    if len(futures) == 1:
        return then(futures[0], lambda result: [result])
    rest = all_of(futures[1:])
    both: Future[list[T]] = Future()
    both.set_running_or_notify_cancel()

    def finish(_: Future[list[T]]) -> None:
        try:
            both.set_result([futures[0].result(), *rest.result()])
        except Exception as error:  # noqa: BLE001 - the caller that waits for the result gets it
            both.set_exception(error)

    # Whichever is done last calls `finish`: of a future that is done, a callback is called at once.
    futures[0].add_done_callback(lambda _: rest.add_done_callback(finish))
    return both
