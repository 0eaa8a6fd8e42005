"""What Ray raises, as the rest of the extra sees it."""

from __future__ import annotations

import pytest

from redqueen.errors import UserError
from redqueen.extras.ray.ray_cluster import LostError, Pending, reason

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-ray")


class FakeRay:
    """Ray, of which every result is an error."""

    exceptions = ray.exceptions

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get(self, _: object) -> None:
        raise self.error


def of_a_call(cause: Exception) -> Exception:
    """The error of a call that raised this."""
    error = ray.exceptions.RayTaskError(
        "f", "Traceback (most recent call last):\n  File ...", cause, "p", 1, "10.0.0.1"
    )
    return error.as_instanceof_cause()


LOST = [
    ray.exceptions.ActorDiedError(),
    ray.exceptions.OutOfMemoryError("1 worker(s) were killed due to the node running low on memory"),
    ray.exceptions.ActorUnschedulableError("its node has gone"),
]


@pytest.mark.parametrize("error", [*LOST, *map(of_a_call, LOST)], ids=lambda error: type(error).__name__)
def test_a_process_that_ray_has_ended_is_lost(error: Exception) -> None:
    with pytest.raises(LostError):
        Pending(FakeRay(error), None).get()


def test_the_reason_of_a_failure_is_a_line() -> None:
    with pytest.raises(RuntimeError) as caught:
        Pending(FakeRay(of_a_call(RuntimeError("CUDA error: no kernel image\nCompile with ..."))), None).get()
    assert reason(caught.value) == "RuntimeError: CUDA error: no kernel image"
    with pytest.raises(UserError) as refused:
        Pending(FakeRay(of_a_call(UserError("too little memory"))), None).get()
    assert reason(refused.value) == "too little memory"
