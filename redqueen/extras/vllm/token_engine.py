"""What the executor needs of vLLM, whether it runs in processes of ours or is a server of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from redqueen.extras.vllm.adapter_versions import AdapterHost
from redqueen.records import SamplingParams


@dataclass(frozen=True, slots=True)
class Piece:
    """What was sampled for one request since its last piece."""

    request: str
    token_ids: list[int]
    logprobs: list[float]
    ended: Literal["", "stop", "length", "abort", "error", "repetition"]
    """Why vLLM ended the request; "" while it goes on."""


def sampling_options(sampling: SamplingParams, seed: int, end_ids: Sequence[int]) -> dict[str, Any]:
    """Returns vLLM's sampling parameters of a request that ends at these tokens."""
    return {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": seed,
        # No other token's probability is wanted beside that of the sampled one.
        "logprobs": 0,
        # The base's end tokens are ours, which may be more than the one that vLLM reads from the model's files.
        "stop_token_ids": end_ids,
        "ignore_eos": True,
        "detokenize": False,
    }


class TokenEngine(AdapterHost, Protocol):
    """Tokens in, tokens out. Its methods raise WorkerError when vLLM has ended."""

    @property
    def longest(self) -> int:
        """The most tokens that a prompt and its completion have together."""
        ...

    def add(self, request: str, prompt_ids: Collection[int], sampling: SamplingParams, seed: int, adapter: Any) -> None:
        """Adds a request, which is sampled from the next `step` on."""
        ...

    def step(self) -> list[Piece]:
        """Waits for the next tokens, of any requests."""
        ...

    def abort(self, requests: Collection[str]) -> None:
        """Ends requests; pieces of them that are on their way may still come."""
        ...

    def close(self) -> None:
        """Gives back what is held. It may be called twice."""
        ...
