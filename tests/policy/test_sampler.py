from __future__ import annotations

import pytest
import torch

from redqueen.config import SamplingConfig
from redqueen.policy.sampler import draw, encode
from redqueen.records import Prompt, Request, Sample
from tests.tiny import FAMILIES


def request(member: str, text: str, seed: int, tokens: int = 12, stop: tuple[str, ...] = ()) -> Request:
    return Request(member, Prompt(text, stop), tokens, (seed,))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_request_gives_the_same_text_whatever_else_is_in_the_batch(house, family) -> None:
    h = house(family)
    mixed = [request(m, "x" * (3 + 5 * i), i) for i, m in enumerate("cabacb")]
    together = h.sampler.sample(mixed)
    for one, both in zip(mixed, together, strict=True):
        alone = h.sampler.sample([one])[0]
        assert alone.token_ids == both.token_ids
        assert alone.logprobs == pytest.approx(both.logprobs, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_nearly_zero_temperature_is_transformers_greedy_decoding(house, family) -> None:
    h = house(family, sampling=SamplingConfig(temperature=1e-5))
    ours = h.sampler.sample([request("b", "hello there", 0), request("a", "hi", 0)])[0]
    ids = torch.tensor([ours.prompt_ids])
    with h.bank.routing.rows([h.bank.slots["b"]]):
        theirs = h.base.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
    assert list(ours.token_ids) == theirs[0, ids.shape[1] :].tolist()[: len(ours.token_ids)]


def test_members_with_different_weights_write_different_texts(house) -> None:
    h = house()
    texts = {c.text for c in h.sampler.sample([request(m, "hello", 0) for m in "abc"])}
    assert len(texts) == 3


def test_a_seed_decides_and_another_seed_decides_otherwise(house) -> None:
    h = house()
    first, again, other = h.sampler.sample([request("a", "hello", s) for s in (1, 1, 2)])
    assert first == again
    assert first.token_ids != other.token_ids


def test_shared_prompts_give_what_single_prompts_give(house) -> None:
    h = house()
    shared = h.sampler.sample([request("a", "hello", s) for s in range(4)])
    single = [h.sampler.sample([request("a", "hello", s)])[0] for s in range(4)]
    assert [c.token_ids for c in shared] == [c.token_ids for c in single]


def test_text_ends_before_the_stop_string_and_the_tokens_after_it(house) -> None:
    h = house()
    free = h.sampler.sample([request("a", "hello", 5, tokens=30)])[0]
    stop = next(c for c in free.text if c.isascii() and free.text.count(c) >= 1 and c != "�")
    cut = h.sampler.sample([request("a", "hello", 5, tokens=30, stop=(stop,))])[0]
    assert stop not in cut.text
    assert free.text.startswith(cut.text + stop)
    assert cut.finished
    assert h.base.tokenizer.decode(cut.token_ids) == cut.text + stop


def test_rows_that_finish_early_do_not_disturb_the_others(house) -> None:
    h = house()
    short = [request("a", "hello", s, tokens=2) for s in range(5)]
    long = request("b", "hello", 9, tokens=25)
    assert h.sampler.sample([*short, long])[-1].token_ids == h.sampler.sample([long])[0].token_ids


def test_the_end_token_finishes_a_row_and_is_not_text(house) -> None:
    h = house(sampling=SamplingConfig(batch_rows=300))
    rows = h.sampler.sample([request("a", "hello", s, tokens=60) for s in range(60)])
    ended = [r for r in rows if r.token_ids[-1] in h.base.end_ids]
    assert ended, "a random model ends some of 60 rows within 60 tokens"
    assert all(r.finished and "<end>" not in r.text for r in ended)


def test_sampler_and_learner_agree_on_log_probabilities(house) -> None:
    h = house()
    requests = [request(m, "y" * (2 + 7 * i), i) for i, m in enumerate("abcab")]
    rows = h.sampler.sample(requests)
    updates = h.learner.update(
        [Sample(q.member, r.prompt_ids, r.token_ids, r.logprobs, 1.0) for q, r in zip(requests, rows, strict=True)]
    )
    assert max(u.logprob_gap for u in updates) < 1e-4


def test_progress_reaches_the_total(house) -> None:
    h = house(sampling=SamplingConfig(batch_rows=2))
    seen: list[tuple[int, int]] = []
    h.sampler.sample([request("a", "z" * i, i, tokens=2) for i in range(1, 6)], lambda *p: seen.append(p))
    assert seen[-1] == (5, 5)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_an_unknown_member_is_an_error(house) -> None:
    with pytest.raises(KeyError):
        house().sampler.sample([request("nobody", "x", 0)])


def test_draws_follow_the_distribution() -> None:
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7])).expand(20_000, 3)
    generator = torch.Generator().manual_seed(0)
    tokens, logp = draw(logits, torch.rand(20_000, generator=generator), 1.0)
    share = torch.bincount(tokens, minlength=3) / 20_000
    torch.testing.assert_close(share, torch.tensor([0.1, 0.2, 0.7]), atol=0.015, rtol=0)
    torch.testing.assert_close(logp.exp(), torch.tensor([0.1, 0.2, 0.7])[tokens])


def test_extreme_uniforms_stay_inside_the_vocabulary() -> None:
    logits = torch.randn(2, 50)
    tokens, _ = draw(logits, torch.tensor([0.0, 1.0]), 1.0)
    assert tokens.tolist()[0] == 0
    assert 0 <= tokens.tolist()[1] < 50


def test_chat_prompts_go_through_the_template_and_raw_ones_do_not(house) -> None:
    base = house().base
    raw = base.tokenizer.decode(encode(base, Prompt("ab", (), "cd")))
    chat = base.tokenizer.decode(encode(base, Prompt("ab", (), "cd", chat=True)))
    assert raw == "abcd"
    assert chat == "<user>ab<assistant>cd"
