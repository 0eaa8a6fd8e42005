"""Keys and values in pages: no page has two owners, and texts are those of a cache without kv_cache."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from benchmarks.gpu import stand_ins
from redqueen.config import SamplingConfig
from redqueen.engine.kernels.flash import flash_takes_pages
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.engine.sampling import decode_step, kv_cache, recorded
from redqueen.engine.sampling.continuous_batch import ContinuousBatch
from redqueen.engine.sampling.decode_step import TorchDecodeStep, WrittenApart, WrittenAtOnce
from redqueen.engine.sampling.device_batch import DeviceBatch
from redqueen.engine.sampling.kv_cache import KVCache, Pages, batch_pages, pages_of, pages_suit
from redqueen.errors import ModelError
from redqueen.records import Completion, Request
from tests.engine.conftest import Build
from tests.engine.requests import crowd, request, same
from tests.engine.sampling.operations import OperationRecorder
from tests.engine.sampling.test_kv_cache import prefill

ROWS = 12
SMALL = 8


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of few tokens, on any device, so that short texts cross their borders."""
    monkeypatch.setattr(kv_cache, "PAGE", SMALL)
    monkeypatch.setenv("REDQUEEN_PAGES", "on")


def check(book: Pages, tokens: dict[int, int], groups: list[set[int]]) -> None:
    """Asserts that every row has the pages of its tokens, and that only rows of one prompt share kv_cache."""
    owners: dict[int, set[int]] = {}
    for row, held in enumerate(book.of_row):
        assert len(held) * book.size >= tokens.get(row, 0)
        assert len(held) == len(set(held))
        for page in held:
            owners.setdefault(page, set()).add(row)
    assert 0 not in owners
    assert book.free + len(owners) == book.total - 1
    for rows in owners.values():
        assert len(rows) == 1 or any(rows <= group for group in groups)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(20))
def test_no_page_has_two_owners(seed: int) -> None:
    rng = random.Random(seed)
    book = Pages(rng.choice((12, 30, 90)), ROWS)
    tokens: dict[int, int] = {}
    most: dict[int, int] = {}
    groups: list[set[int]] = []
    for _ in range(300):
        free = [row for row in range(ROWS) if row not in tokens]
        prompt = rng.randint(1, 3 * SMALL)
        count = rng.randint(1, 4)
        what = rng.random()
        if what < 0.2 and count <= len(free) and book.needed(prompt, count) <= book.free:
            rows = rng.sample(free, count)
            limits = [prompt + rng.randint(1, 40) for _ in rows]
            before = book.free
            book.begin(rows, prompt, limits)
            assert before - book.free == book.needed(prompt, count)
            tokens.update(dict.fromkeys(rows, prompt))
            most.update(zip(rows, limits, strict=True))
            groups = [group - set(rows) for group in groups] + [set(rows)]
        elif what < 0.7:
            before = [list(held) for held in book.of_row]
            grown = book.reserve(ROWS, 1)
            if grown is None:
                # Nothing is given if there is too little for all.
                assert [list(held) for held in book.of_row] == before
                continue
            assert grown == [row for row in range(ROWS) if book.of_row[row] != before[row]]
            book.count(ROWS)
            tokens = {row: min(length + 1, most[row]) for row, length in tokens.items()}
        elif what < 0.85 and tokens:
            row = rng.choice(list(tokens))
            book.end(row)
            del tokens[row]
        elif free and tokens:
            source = rng.choice(list(tokens))
            target = rng.choice(free)
            book.move(source, target)
            tokens[target] = tokens.pop(source)
            most[target] = most.pop(source)
            groups = [{target if row == source else row for row in group - {target}} for group in groups]
        check(book, tokens, groups)
    for row in list(tokens):
        book.end(row)
    assert book.free == book.total - 1


@pytest.mark.parametrize(
    ("rows", "room", "tokens", "expected"),
    [
        (8, 1000, 0, 8 * 4 + 1),
        (8, 1024, 0, 8 * 4 + 1),
        (8, 1025, 0, 8 * 5 + 1),
        (8, 1000, 2560, 10 + 1),
        # One row always fits, and no page is useless.
        (8, 1000, 1, 4 + 1),
        (8, 1000, 10**6, 8 * 4 + 1),
    ],
)
def test_a_batch_has_the_pages_that_it_can_use(rows: int, room: int, tokens: int, expected: int) -> None:
    assert batch_pages(rows, room, tokens) == expected
    assert pages_of(1) == pages_of(256) == 1
    assert pages_of(257) == 2


def steps(base: Base, cache: KVCache) -> list[Tensor]:
    """Returns the hidden states of steps over rows that begin, share prompts, move and end."""
    decoder = base.decoder
    step = TorchDecodeStep(decoder, AdapterBank(decoder.sites, 1, 2, 2.0, ("v_proj",)), cache)
    states: list[Tensor] = []

    def forward(rows: int, times: int) -> None:
        step.assign_rows([0] * rows)
        for turn in range(times):
            assert cache.reserve(rows, 1)
            cache.count(rows)
            states.append(step(torch.arange(rows) + 7 * turn))

    texts = [(tuple(range(40, 59)), [0, 2]), ((9, 8, 7), [1]), (tuple(range(50, 58)), [3])]
    with torch.inference_mode():
        for ids, rows in texts:
            cache.begin(rows, len(ids), [60] * len(rows))
        states += prefill(decoder, cache, texts)
        forward(4, 10)
        cache.end([0])
        forward(4, 2)
        cache.move([3], [0], 40)
        forward(3, 9)
        cache.begin([3], 5, [60])
        cache.limit_R[3] = 59
        states += prefill(decoder, cache, [((1, 2, 3, 4, 5), [3])])
        forward(4, 4)
    return states


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_step_over_pages_is_one_over_rows_to_the_bit(bases: Callable[[str], Base], family: str) -> None:
    base = bases(family)
    dense = steps(base, KVCache(base.decoder, 4, 60))
    paged = KVCache(base.decoder, 4, 60, Pages(batch_pages(4, 60), 4))
    # What lies behind a row's end may be anything.
    for memory in (paged.keys, paged.values):
        memory.fill_(float("nan"))
        memory[:, 0] = 0
    for one, other in zip(dense, steps(base, paged), strict=True):
        # A row that has ended attends to what other ended rows write.
        assert torch.equal(one[1:], other[1:])


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives how many tokens each row has that is put back."""
    seen: list[int] = []
    inner = ContinuousBatch._put_back

    def counted(self: ContinuousBatch, place: int) -> None:
        row = self.rows[place]
        assert row is not None
        seen.append(len(row.token_ids))
        inner(self, place)

    monkeypatch.setattr(ContinuousBatch, "_put_back", counted)
    return seen


def pressed(rows: int = 9) -> SamplingConfig:
    """Returns limits under which a crowd runs out of pages: the longest text alone takes seven or eight of them."""
    return SamplingConfig(batch_rows=rows, cache_tokens=14 * SMALL)


def everyone() -> list[Request]:
    """Returns requests of which some are greedy and some longer than the others."""
    greedy = [request("a", "greedy" * i, 90 + i, 30, temperature=0.0) for i in range(1, 4)]
    return [*crowd(14), *greedy, *(request("c", "long", 99 + i, 40, stop=("zz",)) for i in range(3))]


def all_same(some: list[Completion], others: list[Completion]) -> bool:
    return all(same(one, other) for one, other in zip(some, others, strict=True))


# As on a CPU and as on a GPU, where the host looks at tokens late, with enough pages and with too few.
@pytest.mark.parametrize(("gpu", "cache_tokens"), [(False, 0), (True, 14 * SMALL), (False, 1)])
def test_texts_are_those_of_a_cache_without_pages(
    tiny_policy: Build,
    monkeypatch: pytest.MonkeyPatch,
    put_back: list[int],
    small_pages: None,
    gpu: bool,
    cache_tokens: int,
) -> None:
    del small_pages
    requests = everyone()
    monkeypatch.setenv("REDQUEEN_PAGES", "off")
    dense = tiny_policy(sampling=SamplingConfig(batch_rows=9)).sample(requests)
    assert not put_back
    monkeypatch.setenv("REDQUEEN_PAGES", "on")
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu" if gpu else "")
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=9, cache_tokens=cache_tokens))
    assert all_same(dense, policy.sample(requests))
    assert bool(put_back) is (cache_tokens > 0)
    if put_back:
        assert max(put_back) > 0


@pytest.mark.usefixtures("small_pages")
def test_recorded_steps_over_pages_are_repeated_rightly(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, put_back: list[int]
) -> None:
    policy = tiny_policy("qwen3", sampling=pressed())
    expected = policy.sample(everyone())
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    recorder = OperationRecorder()
    monkeypatch.setattr(recorded, "recorder_of", lambda _: recorder)
    assert all_same(expected, policy.sample(everyone()))
    assert put_back
    assert recorder.repetitions > 60


@pytest.mark.slow
@pytest.mark.skipif(not flash_takes_pages(), reason="this torch's flash attention reads no pages")
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("at_once", [False, True])
def test_flash_attention_over_pages_gives_the_same_texts(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    expected = tiny_policy(sampling=pressed()).sample(everyone())
    stand_ins.on_cpu()
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    monkeypatch.setattr(kv_cache, "has_flash", lambda _: True)
    kind = WrittenAtOnce if at_once else WrittenApart
    monkeypatch.setattr(
        "redqueen.engine.sampling.decode_step.cached_attention",
        lambda cache, rows, group: kind(cache, rows, group, flash=True),
    )
    assert all_same(expected, tiny_policy(sampling=pressed()).sample(everyone()))


@pytest.mark.usefixtures("small_pages")
def test_pages_that_flash_attention_cannot_read_are_read_by_plain_products(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU with torch 2.11, whose operator takes no table of pages, and REDQUEEN_PAGES=on.
    expected = tiny_policy(sampling=pressed()).sample(everyone())
    stand_ins.on_cpu()
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu")
    monkeypatch.setattr(decode_step, "has_flash", lambda _: True)
    monkeypatch.setattr(decode_step, "flash_takes_pages", lambda: False)
    assert all_same(expected, tiny_policy(sampling=pressed()).sample(everyone()))


@pytest.mark.usefixtures("small_pages")
def test_a_group_that_can_never_be_there_at_once_is_divided(tiny_policy: Build, put_back: list[int]) -> None:
    # Eight rows of a prompt, and pages for three of them.
    requests = [request("a", "hello there", seed, 9) for seed in range(8)]
    few = tiny_policy(sampling=SamplingConfig(batch_rows=8, cache_tokens=5 * SMALL)).sample(requests)
    many = tiny_policy(sampling=SamplingConfig(batch_rows=8)).sample(requests)
    assert all_same(few, many)
    assert put_back


@pytest.mark.usefixtures("small_pages")
def test_a_step_without_a_page_is_refused(bases: Callable[[str], Base]) -> None:
    decoder = bases("llama").decoder
    bank = AdapterBank(decoder.sites, 1, 2, 2.0, ("v_proj",))
    batch = DeviceBatch(decoder, bank, 2, 40, 30, 1, 40)
    assert batch.pages is not None
    batch.pages._free.clear()
    batch.pages._most[:] = 40
    with pytest.raises(RuntimeError, match="no page is free"):
        batch.step(2)


def test_pages_are_for_gpus_whose_flash_attention_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    here = torch.empty(0, 64, dtype=torch.bfloat16)
    there = here.to("meta")
    assert flash_takes_pages() is (tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12))
    assert not pages_suit(here)
    assert pages_suit(there) is flash_takes_pages()
    assert not pages_suit(there.float())
    assert not pages_suit(torch.empty(0, 60, dtype=torch.bfloat16, device="meta"))
    monkeypatch.setattr(kv_cache, "flash_takes_pages", lambda: False)
    assert not pages_suit(there)
    monkeypatch.setenv("REDQUEEN_PAGES", "on")
    assert pages_suit(here)
    monkeypatch.setenv("REDQUEEN_PAGES", "maybe")
    with pytest.raises(ModelError, match="REDQUEEN_PAGES is 'maybe': use auto, on or off"):
        pages_suit(here)
