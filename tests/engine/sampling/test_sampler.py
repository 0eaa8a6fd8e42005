"""A request's text does not depend on the rest of the batch, and its log-probabilities are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch

from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.model.base import load
from redqueen.engine.model.source import encode
from redqueen.engine.sampling.tokens import Row, extend
from redqueen.errors import AdapterError, PromptError
from redqueen.records import Prompt, Request, Sample, SamplingParams
from tests.engine.conftest import Build, TinyPolicy
from tests.engine.requests import crowd, request, same
from tests.reference import merged
from tests.tiny import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_request_gives_the_same_text_whatever_else_is_in_the_batch(tiny_policy: Build, family: str) -> None:
    policy = tiny_policy(family)
    mixed = [request(m, "x" * (3 + 5 * i), i) for i, m in enumerate("cabacb")]
    together = policy.sample(mixed)
    for one, both in zip(mixed, together, strict=True):
        assert same(policy.sample([one])[0], both)


@pytest.mark.parametrize("family", FAMILIES)
def test_temperature_zero_is_transformers_greedy_decoding(tiny_policy: Build, family: str) -> None:
    policy = tiny_policy(family)
    rows = policy.sample([request(m, "hello there", 0, 20, temperature=0.0) for m in "bac"])
    for member, ours in zip("bac", rows, strict=True):
        ids = torch.tensor([ours.prompt_ids])
        theirs = merged(policy.base, policy.adapters, member).generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False
        )[0, ids.shape[1] :]
        assert list(ours.token_ids) == theirs.tolist()[: len(ours.token_ids)]
        assert ours.finish_reason == "stop" or len(ours.token_ids) == 20


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 0.7}, {"temperature": 1.3, "top_k": 9}, {"top_p": 0.6}],
    ids=lambda c: " ".join(c) or "policy",
)
def test_log_probabilities_are_those_of_the_merged_model(
    tiny_policy: Build, family: str, sampling: dict[str, float]
) -> None:
    policy = tiny_policy(family, sampling=SamplingConfig(batch_rows=3))
    requests = [request(m, "y" * (2 + 3 * i), i, **sampling) for i, m in enumerate("abcabc")]
    for item, row in zip(requests, policy.sample(requests), strict=True):
        ids = torch.tensor([row.prompt_ids + row.token_ids])
        with torch.no_grad():
            logits = merged(policy.base, policy.adapters, item.member)(ids).logits[0, len(row.prompt_ids) - 1 : -1]
        chosen = torch.tensor(row.token_ids)[:, None]
        p = (logits / item.sampling.temperature).softmax(-1)
        ranked = p.sort(-1, descending=True).values
        # The total probability of the tokens that are not cut off.
        if item.sampling.top_k:
            kept = ranked[:, : item.sampling.top_k].sum(-1)
        elif item.sampling.top_p < 1:
            before = ranked.cumsum(-1) - ranked
            kept = (ranked * (before < item.sampling.top_p)).sum(-1)
        else:
            kept = torch.ones(len(p))
        assert row.logprobs == pytest.approx((p.gather(1, chosen)[:, 0] / kept).log().tolist(), abs=1e-4)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampler_and_learner_agree_on_log_probabilities(tiny_policy: Build, temperature: float) -> None:
    policy = tiny_policy(sampling=SamplingConfig(temperature=temperature, batch_rows=2))
    requests = [request(m, "y" * (2 + 7 * i), i, temperature=temperature) for i, m in enumerate("abcab")]
    rows = policy.sample(requests)
    updates = policy.update(
        [
            Sample(member=q.member, prompt_ids=r.prompt_ids, token_ids=r.token_ids, logprobs=r.logprobs, advantage=1.0)
            for q, r in zip(requests, rows, strict=True)
        ]
    )
    assert 0 < max(u.logprob_gap for u in updates) < 1e-4


@pytest.mark.usefixtures("both_ways")
# In bf16 the two passes round differently: by a few hundredths of a nat on average.
def test_in_bf16_sampler_and_learner_differ_by_rounding_only(tiny_folder: Callable[[str], Path]) -> None:
    base = load(ModelConfig(name=str(tiny_folder("llama")), dtype="bfloat16", device="cpu", threads=1))
    policy = TinyPolicy(base, LearningConfig(), SamplingConfig(batch_rows=5))
    requests = [request("abc"[i % 3], "y" * (2 + i), i, 20) for i in range(12)]
    updates = policy.update(
        [
            Sample(member=q.member, prompt_ids=r.prompt_ids, token_ids=r.token_ids, logprobs=r.logprobs, advantage=1.0)
            for q, r in zip(requests, policy.sample(requests), strict=True)
        ]
    )
    assert 0 < max(u.logprob_gap for u in updates) < 0.05


PARAMETERS: tuple[dict[str, float], ...] = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.6},
    {"top_k": 4},
    {"top_p": 0.5},
    {"temperature": 1.3, "top_p": 0.9, "top_k": 20},
)


@pytest.mark.parametrize("rows", [3, 64])
def test_requests_of_different_parameters_in_one_batch_give_what_each_gives_alone(
    tiny_policy: Build, rows: int
) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=rows))
    # Some share a member and a prompt, so that rows of different parameters continue one prefill.
    requests = [
        request("abc"[i % 3], "xy"[i % 2] * (3 + i % 4), i, 5 + i, **PARAMETERS[i % len(PARAMETERS)]) for i in range(24)
    ]
    requests += [request("a", "one prompt", i, 9, **parameters) for i, parameters in enumerate(PARAMETERS)]
    together = policy.sample(requests)
    for single, completion in zip(requests, together, strict=True):
        assert same(policy.sample([single])[0], completion)
    assert {(c.member, c.version) for c in together} == {(name, 1) for name in "abc"}


def test_greedy_log_probabilities_are_those_at_temperature_one(tiny_policy: Build) -> None:
    policy = tiny_policy()
    (completion,) = policy.sample([request("b", "hello", 0, 20, temperature=0.0, top_p=0.1, top_k=3)])
    ids = torch.tensor([completion.prompt_ids + completion.token_ids])
    with torch.no_grad():
        logits = merged(policy.base, policy.adapters, "b")(ids).logits[0, len(completion.prompt_ids) - 1 : -1]
    assert list(completion.token_ids) == logits.argmax(-1).tolist()
    assert completion.logprobs == pytest.approx(logits.log_softmax(-1).amax(-1).tolist(), abs=1e-4)


def test_greedy_decoding_does_not_depend_on_the_seed(tiny_policy: Build) -> None:
    policy = tiny_policy()
    rows = policy.sample([request("a", "hello", seed, 20, temperature=0.0) for seed in range(3)])
    assert len({row.token_ids for row in rows}) == 1


@pytest.mark.usefixtures("both_ways")
def test_members_with_different_weights_write_different_texts(tiny_policy: Build) -> None:
    texts = {c.text for c in tiny_policy().sample([request(m, "hello", 0) for m in "abc"])}
    assert len(texts) == 3


def test_a_change_of_a_member_is_seen_by_the_next_batch(tiny_policy: Build) -> None:
    policy = tiny_policy()
    before = policy.sample([request("a", "hello", 0), request("b", "hello", 0)])
    policy.adapters.write("a", policy.adapter("b"))
    after = policy.sample([request("a", "hello", 0), request("b", "hello", 0)])
    assert same(after[1], before[1])
    assert after[0].token_ids == before[1].token_ids != before[0].token_ids


def test_a_seed_decides_and_another_seed_decides_otherwise(tiny_policy: Build) -> None:
    policy = tiny_policy()
    first, again, other = policy.sample([request("a", "hello", s) for s in (1, 1, 2)])
    assert same(first, again)
    assert first.token_ids != other.token_ids


@pytest.mark.usefixtures("both_ways")
def test_text_ends_before_the_stop_string_and_the_tokens_after_it(tiny_policy: Build) -> None:
    policy = tiny_policy()
    free = policy.sample([request("a", "hello", 5, tokens=30)])[0]
    stop = next(c for c in free.text if c.isascii() and free.text.count(c) >= 1 and c != "�")
    cut = policy.sample([request("a", "hello", 5, tokens=30, stop=(stop,))])[0]
    assert stop not in cut.text
    assert free.text.startswith(cut.text + stop)
    assert cut.finish_reason == "stop"
    assert policy.base.tokenizer.decode(cut.token_ids) == cut.text + stop


def test_text_ends_after_the_last_line_that_is_allowed(tiny_policy: Build) -> None:
    policy = tiny_policy()
    asked = [request("a", "hello", seed, tokens=400) for seed in range(12)]
    free = [completion.text for completion in policy.sample(asked)]
    assert max(text.count("\n") for text in free) >= 2
    for lines in (1, 2):
        limited = [replace(r, prompt=replace(r.prompt, max_lines=lines)) for r in asked]
        for text, cut in zip(free, policy.sample(limited), strict=True):
            ends = text.count("\n") >= lines
            assert cut.text == ("\n".join(text.split("\n")[:lines]) if ends else text)
            assert (cut.finish_reason == "stop") or not ends
            if ends:
                assert policy.base.tokenizer.decode(cut.token_ids) == cut.text + "\n"


def test_of_several_stop_strings_the_first_that_is_written_ends_the_text(tiny_policy: Build) -> None:
    policy = tiny_policy()
    free = policy.sample([request("a", "hello", 5, tokens=30)])[0]
    one, two = free.text[6:8], free.text[3:6]
    for stop in ((one, two), (two, one), (one, two, "never written")):
        cut = policy.sample([request("a", "hello", 5, tokens=30, stop=stop)])[0]
        assert cut.text == free.text[: min(free.text.index(one), free.text.index(two))]
        assert cut.finish_reason == "stop"


# Each token of these models is a byte, so one character may be several tokens.
def test_a_stop_string_of_many_bytes_is_seen(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=400))
    rows = policy.sample([request("a", "hello", s, tokens=30) for s in range(400)])
    wide: list[tuple[int, str]] = []
    for seed, row in enumerate(rows):
        wide += [(seed, char) for char in row.text if len(char.encode()) == 3 and char != "�"]
    assert wide, "some of 400 random texts hold such a character"
    for seed, stop in wide[:3]:
        cut = policy.sample([request("a", "hello", seed, tokens=30, stop=(stop,))])[0]
        assert cut.finish_reason == "stop"
        assert rows[seed].text.startswith(cut.text + stop)
        assert policy.base.tokenizer.decode(cut.token_ids) == cut.text + stop


# A member cannot be made to write these texts, so their tokens are given to what ends a row.
def test_a_tag_that_the_reasoning_mentions_does_not_end_a_row(tiny_policy: Build) -> None:
    tokenizer = tiny_policy().base.tokenizer.backend_tokenizer
    answer = "<answer>\n```output\n4\n```\n</answer>"
    for thought in ("", "Between <answer> and </answer>. ", "<think>Say <answer>\n```x\n1\n```\n</answer>.</think>"):
        tokens = tokenizer.encode(f"{thought}{answer} and more", add_special_tokens=False).ids
        row = Row(0, (), SamplingParams(max_tokens=1000), ("</answer>",), tagged=True)
        extend(row, tokens, [0.0] * len(tokens), (), tokenizer)
        assert row.finish_reason == "stop"
        assert tokenizer.decode(row.token_ids, skip_special_tokens=True) == thought + answer


class Pieces:
    """A tokenizer whose tokens are these pieces of text."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        del skip_special_tokens
        return "".join(self.pieces[token] for token in token_ids)


def test_a_tag_in_a_string_just_before_the_tag_that_ends_an_answer_does_not_hide_it() -> None:
    pieces = ("<answer>\n", "```\n", "'</", "answer", ">'\n", "```\n", "</", "answer", ">", " and", " more")
    row = Row(0, (), SamplingParams(max_tokens=1000), ("</answer>",), tagged=True)
    extend(row, range(len(pieces)), [0.0] * len(pieces), (), Pieces(*pieces))
    assert row.finish_reason == "stop"
    assert row.token_ids == list(range(9))


def test_the_prefix_is_part_of_the_prompt_and_of_the_text(tiny_policy: Build) -> None:
    policy = tiny_policy()
    six = SamplingParams(max_tokens=6)
    with_prefix = policy.sample([Request(member="a", prompt=Prompt("ab", (), "cd"), sampling=six, seed=(3,))])[0]
    plain = policy.sample([Request(member="a", prompt=Prompt("abcd", ()), sampling=six, seed=(3,))])[0]
    assert with_prefix.token_ids == plain.token_ids
    assert with_prefix.text == "cd" + plain.text


def test_the_end_token_finishes_a_row_and_is_not_text(tiny_policy: Build) -> None:
    policy = tiny_policy(sampling=SamplingConfig(batch_rows=300))
    rows = policy.sample([request("a", "hello", s, tokens=60) for s in range(60)])
    ended = [r for r in rows if r.token_ids[-1] in policy.base.end_ids]
    assert ended, "a random model ends some of 60 rows within 60 tokens"
    assert all(r.finish_reason == "stop" and "<end>" not in r.text for r in ended)
    assert not any(set(r.token_ids[:-1]) & policy.base.end_ids for r in rows)
    assert {r.finish_reason for r in rows if r not in ended} == {"length"}


def test_an_unknown_member_is_an_error(tiny_policy: Build) -> None:
    with pytest.raises(KeyError):
        tiny_policy().sample([request("nobody", "x", 0)])


def windowed(tiny_policy: Build, window: int) -> TinyPolicy:
    policy = tiny_policy("mistral")
    base = replace(policy.base, decoder=replace(policy.base.decoder, window=window))
    return TinyPolicy(base, LearningConfig(), SamplingConfig())


@pytest.mark.parametrize("gpu", [False, True])
def test_texts_longer_than_the_sliding_window_are_refused_before_any_is_written(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    # A GPU samples tokens behind the end of a text, and the limit does not count them.
    monkeypatch.setenv("REDQUEEN_WAYS", "gpu" if gpu else "")
    seen: list[int] = []
    policy = windowed(tiny_policy, 20)
    assert len(policy.sample([request("a", "x" * 8, 0, 12), request("a", "x", 0, 19)])) == 2
    with pytest.raises(PromptError, match="more than this base's window of 20"):
        policy.sample([request("a", "x", 0, 2), request("a", "x" * 9, 0, 12)], lambda i, _: seen.append(i))
    assert seen == []


def test_sampling_leaves_gradients_on_and_no_change_behind(tiny_policy: Build) -> None:
    policy = tiny_policy()
    before = policy.adapters.masters.clone()
    rows = policy.sample(crowd(6))
    assert torch.is_grad_enabled()
    assert torch.equal(policy.adapters.masters, before)
    assert all(isinstance(value, float) for value in chain.from_iterable(r.logprobs for r in rows))


def test_chat_prompts_go_through_the_template_and_raw_ones_do_not(tiny_policy: Build) -> None:
    base = tiny_policy().base
    raw = base.tokenizer.decode(encode(base.tokenizer, Prompt("ab", (), "cd")))
    chat = base.tokenizer.decode(encode(base.tokenizer, Prompt("ab", (), "cd", chat=True)))
    assert raw == "abcd"
    assert chat == "<user>ab<assistant>cd"


def test_an_empty_prompt_is_refused_in_words(tiny_policy: Build) -> None:
    with pytest.raises(PromptError, match="empty prompt"):
        tiny_policy().sample([request("a", "", 0)])


def test_a_member_that_is_not_a_number_is_named(tiny_policy: Build) -> None:
    policy = tiny_policy()
    policy.adapters.masters[policy.adapters.slots["b"]] = float("nan")
    policy.adapters.refresh("b")
    with pytest.raises(AdapterError, match=f"slot {policy.adapters.slots['b']}: not a number"):
        policy.sample([request("b", "hello", 0)])


def test_a_broken_member_is_named_also_where_all_members_factors_meet(tiny_folder: Callable[[str], Path]) -> None:
    config = ModelConfig(name=str(tiny_folder("llama")), dtype="bfloat16", device="cpu", threads=1, workers=1)
    policy = TinyPolicy(load(config), LearningConfig(), SamplingConfig())
    policy.adapters.masters[policy.adapters.slots["b"]] = float("nan")
    policy.adapters.refresh("b")
    with pytest.raises(AdapterError, match=f"slot {policy.adapters.slots['b']}: not a number"):
        policy.sample([request("a", "hello", 0), request("b", "hello", 1)])
