"""One stream of requests: what a completion leads to is sampled together with what is still being written.

Two waves of requests, one after the other, have two tails in which a few long texts keep the whole machine waiting. In
one stream the second wave fills the places that the first leaves free:

    sampler                                  self-play                       verifier
    a proposal ends ── follow(number, text) ──▶ reads it, submits it ──────────▶ runs it
      │ samples on                                                                 │
      ◀───────── FollowUp: the verdict's future, and how requests are made of it ──┘
    polls: done()? ── result(), in the sampler's own thread ──▶ a valid task is posed: the attempts' requests
      │ they join the batch, numbered on
    an attempt ends ── follow(number, text) ──▶ reads it, submits it; leads to nothing: None

The sampler wraps each `FollowUp` once more (`made_into`): its batch gets rows where self-play gives requests. A plain
callback of the future would pose the task in the verifier's thread, and the attempts' numbers would depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from redqueen.records import Completion, Request, Sampler

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


class FollowUp(Generic[T_co]):
    """Follow-up work that waits for a verdict. The thread that takes it builds it."""

    def __init__(self, verdict: Future[S], make: Callable[[S], T_co]) -> None:
        self._verdict: Future[Any] = verdict
        self._make: Callable[[Any], T_co] = make

    def done(self) -> bool:
        """Returns whether `result` need not wait."""
        return self._verdict.done()

    def result(self) -> T_co:
        """Waits for the verdict, and returns what is made of it. Call it once: each call makes it anew."""
        return self._make(self._verdict.result())

    def made_into(self, function: Callable[[T_co], S]) -> FollowUp[S]:
        """Returns a follow-up whose result has been passed through `function`."""
        make = self._make
        return FollowUp(self._verdict, lambda verdict: function(make(verdict)))


Follow = Callable[[int, Completion], FollowUp[Sequence[Request]] | None]
"""Is called with a request's number and its completion. Returns the further requests that it leads to, or None."""


@runtime_checkable
class StreamSampler(Protocol):
    """A sampler that takes further requests while it samples."""

    def stream(self, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
        """Samples `requests` and, while they are sampled, those that `follow` leads to: at most `max_further`.

        Further requests are numbered on, in the order in which their results are taken, each once. The completions
        are in the order of the numbers.
        """
        ...


def sample_stream(sampler: Sampler, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
    """Samples as `StreamSampler.stream` does. A sampler that cannot do that samples in rounds."""
    if isinstance(sampler, StreamSampler):
        return sampler.stream(requests, follow, max_further)
    return in_rounds(sampler, requests, follow)


def in_rounds(sampler: Sampler, requests: Sequence[Request], follow: Follow) -> list[Completion]:
    """Samples the requests, then all further ones together, and so on."""
    completions: list[Completion] = []
    while requests:
        written, requests = _round(sampler, requests, follow, len(completions))
        completions += written
    return completions


def _round(
    sampler: Sampler, requests: Sequence[Request], follow: Follow, first: int
) -> tuple[list[Completion], list[Request]]:
    """Samples the requests, which are numbered from `first` on. Returns their completions and the further requests."""
    further_of: dict[int, FollowUp[Sequence[Request]]] = {}

    def on_completion(index: int, completion: Completion) -> None:
        further = follow(first + index, completion)
        if further is not None:
            further_of[index] = further

    completions = sampler.sample(requests, on_completion)
    # In the order of the requests: that of their ends depends on timing where several processes sample.
    further_requests: list[Request] = []
    for index in sorted(further_of):
        further_requests += further_of[index].result()
    return completions, further_requests
