"""The plans for GPUs in a simulation of torch's allocator: none runs out of memory, in any step."""

from __future__ import annotations

import pytest

from benchmarks.gpu.plans import CARDS, gpu, lengths, plan
from redqueen.engine.memory.estimate import sampling_items
from redqueen.engine.model.dimensions import SIZES
from tests.caching_allocator import CachingAllocator, OutOfMemoryError
from tests.engine.memory.simulated_run import AS_IT_WAS, Outcome, Plan, Ways, cache_of_a_stream, simulate

GB = 10**9
WAYS = {"segments of a fixed size": Ways(expandable=False), "segments that grow": Ways()}
RUNS = {
    f"{rank=}, {tokens=}": (
        f"model.rank={rank}",
        f"sampling.proposal_tokens={tokens}",
        f"sampling.attempt_tokens={tokens}",
    )
    for rank, tokens in ((32, 2048), (16, 1024), (16, 512))
}


def test_what_is_cut_up_cannot_be_given_back() -> None:
    memory = CachingAllocator(10 * GB)
    memory.allocate("cache", 8 * GB)
    memory.free("cache")
    memory.allocate("moments", GB)
    # The cache of the next step is a little larger than what is left of the last one's segment.
    with pytest.raises(OutOfMemoryError, match=r"cache of 7\.5 GB: 1\.0 GB are allocated and 8\.0 reserved of 10\.0"):
        memory.allocate("cache", 7.5 * GB)


def test_free_memory_of_segments_that_grow_is_put_to_other_addresses() -> None:
    memory = CachingAllocator(10 * GB, expandable=True)
    memory.allocate("cache", 8 * GB)
    memory.free("cache")
    memory.allocate("moments", GB)
    memory.allocate("cache", 7.5 * GB)
    assert memory.reserved == memory.allocated
    memory.free("cache", "moments")
    memory.empty_cache()
    assert memory.reserved == 0


def test_neighbours_are_joined_and_streams_share_nothing() -> None:
    memory = CachingAllocator(5 * GB)
    memory.allocate("all", 3 * GB)
    memory.free("all")
    memory.allocate("one", GB)
    memory.allocate("other", GB)
    memory.free("one", "other")
    memory.allocate("all", 3 * GB)
    assert memory.reserved == memory.allocated
    before = memory.reserved
    memory.free("all")
    memory.allocate("side", GB, "another stream")
    assert memory.reserved == before + memory.allocated


def planned(base: str, card: int, *overrides: str) -> Plan | None:
    found = plan(base, card, *overrides)
    # What fits only while texts are short is told so: there is no promise to keep.
    if found is None or found.warning:
        return None
    config = found.config
    return Plan(config, gpu(base), lengths(config.sampling.proposal_tokens), config.capacity)


@pytest.mark.slow
@pytest.mark.parametrize(("run", "pages"), [*((run, "auto") for run in RUNS), ("rank=16, tokens=1024", "off")])
@pytest.mark.parametrize("card", CARDS)
def test_no_plan_runs_out_of_memory_in_ten_steps(
    monkeypatch: pytest.MonkeyPatch, card: int, run: str, pages: str
) -> None:
    monkeypatch.setenv("REDQUEEN_PAGES", pages)
    tried = 0
    for base in SIZES:
        found = planned(base, card, *RUNS[run])
        if found is None:
            continue
        tried += 1
        cache, _ = sampling_items(found.demand)
        shape = found.machine.shape
        token = shape.layers * shape.kv_heads * shape.head_size * 4
        assert cache_of_a_stream(found)[1] * token <= cache.size
        for ways in WAYS.values():
            outcome = simulate(found, int(card * GB * 0.98), ways)
            assert outcome == Outcome(10, outcome.reserved), (base, outcome.error)
    assert tried >= 2


def test_without_these_ways_a_plan_runs_out_in_its_second_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDQUEEN_PAGES", "off")
    found = planned("7B", 141)
    assert found is not None
    outcome = simulate(found, int(141 * GB * 0.98), AS_IT_WAS)
    assert outcome.steps == 1
    assert outcome.error.startswith("step 2: values of")
