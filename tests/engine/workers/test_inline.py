"""One process holds one KV cache at a time, and gives memory back where a batch begins and ends."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from redqueen.base.futures import finished
from redqueen.base.request_stream import FollowUp
from redqueen.engine import executor
from redqueen.engine.sampling import decode_step
from redqueen.engine.sampling.kv_cache import KVCache
from redqueen.records import Completion, Request
from tests.engine.conftest import Build
from tests.engine.requests import request


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What is not referred to any more must go at once, not when garbage is collected."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("gpu", [False, True])
def test_a_cache_is_gone_before_the_next_one_is_made(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    policy = tiny_policy()
    if gpu:
        monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    caches: list[weakref.ref[KVCache]] = []
    events: list[str] = []

    def make(*arguments: Any) -> KVCache:
        events.append(f"a cache beside {sum(cache() is not None for cache in caches)}")
        cache = KVCache(*arguments)
        caches.append(weakref.ref(cache))
        return cache

    def release(_: torch.device) -> None:
        events.append(f"memory given back beside {sum(cache() is not None for cache in caches)}")

    monkeypatch.setattr(decode_step, "KVCache", make)
    monkeypatch.setattr(executor, "release_unused", release)

    def follow(index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        del completion
        # Too long for the batch that is running.
        return None if index else FollowUp(finished([request("b", "y" * 60, 5, 30)]), list)

    assert len(policy.stream([request("a", "x", 1, 5)], follow, 1)) == 2
    assert events == ["memory given back beside 0", *["a cache beside 0", "memory given back beside 0"] * 2]
