"""What the executor needs of vLLM, whether it runs in processes of ours or is a server of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from redqueen.policy.vllm.adapter_versions import AdapterHost
from redqueen.records import SamplingParams


@dataclass(frozen=True, slots=True)
class Piece:
    """What was sampled for one request since its last piece."""

    request: str
    token_ids: list[int]
    logprobs: list[float]
    ended: Literal["", "stop", "length", "abort", "error", "repetition"]
    """Why vLLM ended the request; "" while it goes on."""


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
