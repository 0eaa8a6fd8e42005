"""Further requests of samplers that cannot take them while they sample: rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from redqueen.base.futures import finished
from redqueen.base.request_stream import FollowUp, sample_stream
from redqueen.records import Completion, Prompt, Request, SamplingParams


def request(name: str) -> Request:
    return Request(member=name, prompt=Prompt("", ()), sampling=SamplingParams(max_tokens=1), seed=())


class Backwards:
    """Ends the last request first."""

    def __init__(self) -> None:
        self.rounds: list[str] = []

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self.rounds.append("".join(one.member for one in requests))
        completions = [
            Completion(
                member=one.member,
                version=1,
                prompt_ids=(),
                token_ids=(),
                logprobs=(),
                text=one.member,
                finish_reason="stop",
            )
            for one in requests
        ]
        for index in reversed(range(len(requests))):
            if on_completion is not None:
                on_completion(index, completions[index])
        return completions


def test_rounds_number_further_requests_in_the_order_of_those_that_led_to_them() -> None:
    leads_to = {"a": "de", "c": "f", "e": "g"}
    ended: list[tuple[int, str]] = []

    def follow(index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        ended.append((index, completion.text))
        further = leads_to.get(completion.text)
        return None if further is None else FollowUp(finished(further), lambda names: [request(name) for name in names])

    sampler = Backwards()
    written = sample_stream(sampler, [request(name) for name in "abc"], follow, 4)
    assert "".join(one.text for one in written) == "abcdefg"
    assert sampler.rounds == ["abc", "def", "g"]
    assert sorted(ended) == list(enumerate("abcdefg"))


def test_what_is_made_of_something_later_waits_for_it() -> None:
    future: Future[int] = Future()
    further = FollowUp(future, lambda value: value + 1)
    assert not further.done()
    future.set_result(1)
    assert further.done()
    assert further.result() == 2
