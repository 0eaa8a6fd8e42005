"""One stream of requests: what a completion leads to is sampled together with what is still being written.

Two waves of requests, one after the other, have two tails in which a few long texts keep the whole machine waiting. In
one stream the second wave fills the places that the first leaves free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from redqueen.records import Completion, Request, Sampler

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Later(Protocol[T_co]):
    """What will be there later. A `concurrent.futures.Future` is one."""

    def done(self) -> bool:
        """Returns whether `result` returns at once."""
        ...

    def result(self) -> T_co:
        """Waits for the result and returns it."""
        ...


@dataclass(frozen=True, slots=True)
class Then(Generic[S, T]):
    """What `make` makes of something that is there later. It is made where the result is taken, in that thread."""

    first: Later[S]
    make: Callable[[S], T]

    def done(self) -> bool:
        """Returns whether `result` need not wait."""
        return self.first.done()

    def result(self) -> T:
        """Waits, and returns what is made. It is taken once, as `make` is called every time."""
        return self.make(self.first.result())


Follow = Callable[[int, Completion], Later[Sequence[Request]] | None]
"""Is called with a request's number and its completion. Returns the further requests that it leads to, or None."""


@runtime_checkable
class StreamSampler(Protocol):
    """A sampler that takes further requests while it samples."""

    def stream(self, requests: Sequence[Request], follow: Follow, most: int) -> list[Completion]:
        """Samples `requests` and, while they are sampled, those that `follow` leads to: at most `most`.

        Further requests are numbered on, in the order in which their results are taken, each once. The completions
        are in the order of the numbers.
        """
        ...


def sample_stream(sampler: Sampler, requests: Sequence[Request], follow: Follow, most: int) -> list[Completion]:
    """Samples as `StreamSampler.stream` does. A sampler that cannot do that samples in rounds."""
    if isinstance(sampler, StreamSampler):
        return sampler.stream(requests, follow, most)
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
    later: dict[int, Later[Sequence[Request]]] = {}

    def on_completion(index: int, completion: Completion) -> None:
        further = follow(first + index, completion)
        if further is not None:
            later[index] = further

    completions = sampler.sample(requests, on_completion)
    # In the order of the requests: that of their ends depends on timing where several processes sample.
    further_requests: list[Request] = []
    for index in sorted(later):
        further_requests += later[index].result()
    return completions, further_requests
