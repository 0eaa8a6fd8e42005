from __future__ import annotations

import pytest
import torch

from redqueen.config import LearningConfig
from redqueen.policy.base import fingerprint
from redqueen.records import Sample


def samples(member: str, count: int = 4, advantage: float = 1.0) -> list[Sample]:
    """Rows of different lengths with advantages of both signs."""
    generator = torch.Generator().manual_seed(sum(map(ord, member)))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, 250, (n,), generator=generator).tolist())

    return [
        Sample(member, ids(3 + i), ids(2 + i % 3), (-1.0,) * (2 + i % 3), advantage * (1 if i % 2 else -0.5))
        for i in range(count)
    ]


def weights(house, member: str) -> list[torch.Tensor]:
    return [t.clone() for t in house.bank.masters(member)]


def same(left, right) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_one_members_update_leaves_every_other_member_bit_identical(house) -> None:
    h = house(learning=LearningConfig(lr=1e-2))
    h.learner.update(samples("b"))  # b has moments before, which must not move either
    before = {m: (weights(h, m), h.learner.state(m)) for m in "abc"}
    update = h.learner.update(samples("a"))
    assert [u.member for u in update] == ["a"]
    assert not same(before["a"][0], weights(h, "a"))
    for other in "bc":
        assert same(before[other][0], weights(h, other))
        state = h.learner.state(other)
        assert state.keys() == before[other][1].keys()
        assert all(torch.equal(state[k], before[other][1][k]) for k in state)


@pytest.mark.parametrize("loss", ["token_mean", "sequence_mean"])
def test_a_members_update_is_the_same_alone_and_in_company(house, loss) -> None:
    alone, company = (house(learning=LearningConfig(lr=1e-2, loss=loss)) for _ in range(2))
    alone.learner.update(samples("b"))
    company.learner.update(samples("a", 5) + samples("b") + samples("c", 2))
    for mine, theirs in zip(weights(alone, "b"), weights(company, "b"), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_any_split_into_micro_batches_gives_the_same_gradient(house) -> None:
    whole, split = house(learning=LearningConfig(batch_tokens=4096)), house(learning=LearningConfig(batch_tokens=64))
    rows = samples("a", 12) + samples("b", 9)
    one, other = whole.learner.update(rows), split.learner.update(rows)
    for a, b in zip(one, other, strict=True):
        assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-4)
        assert a.loss == pytest.approx(b.loss, rel=1e-4)


def test_the_gradient_is_that_of_the_plain_policy_gradient_loss(house) -> None:
    h = house(learning=LearningConfig(lr=0.0, clip=1e9))
    rows = samples("a", 3)
    update = h.learner.update(rows)[0]
    total = sum(len(s.token_ids) for s in rows)
    loss = torch.zeros(())
    for s in rows:
        with h.bank.routing.rows([h.bank.slots["a"]]):
            logits = h.base.model(torch.tensor([s.prompt_ids + s.token_ids])).logits[0]
        logp = logits.log_softmax(-1)[len(s.prompt_ids) - 1 : -1].gather(1, torch.tensor(s.token_ids)[:, None])
        loss = loss - s.advantage * logp.sum() / total
    h.bank.zero_grad()
    loss.backward()
    norm = torch.nn.utils.get_total_norm(h.bank.gradients("a"))
    assert update.loss == pytest.approx(loss.item(), rel=1e-4)
    assert update.grad_norm == pytest.approx(norm.item(), rel=1e-4)


def test_zero_advantages_count_in_the_normalisation_but_move_nothing(house) -> None:
    h = house()
    before = weights(h, "a")
    update = h.learner.update(samples("a", advantage=0.0))[0]
    assert update.skipped == "every advantage was zero"
    assert same(before, weights(h, "a"))
    half, full = house(), house()
    rows = samples("a", 4)
    idle = [Sample("a", s.prompt_ids, s.token_ids, s.logprobs, 0.0) for s in rows]
    ratio = half.learner.update(rows + idle)[0].loss / full.learner.update(rows)[0].loss
    assert ratio == pytest.approx(0.5, rel=1e-4)


def test_a_non_finite_member_is_skipped_and_the_others_go_on(house) -> None:
    h = house(learning=LearningConfig(lr=1e-2))
    before_a, before_b = weights(h, "a"), weights(h, "b")
    bad = [Sample("a", s.prompt_ids, s.token_ids, s.logprobs, float("inf")) for s in samples("a")]
    a, b = h.learner.update(bad + samples("b"))
    assert a.skipped == "non-finite gradient"
    assert b.skipped == ""
    assert same(before_a, weights(h, "a"))
    assert not same(before_b, weights(h, "b"))


def test_learning_rate_zero_moves_nothing(house) -> None:
    h = house(learning=LearningConfig(lr=0.0))
    before = weights(h, "a")
    h.learner.update(samples("a"))
    assert same(before, weights(h, "a"))


def test_lora_b_leaves_zero_after_one_step_from_a_fresh_start(house) -> None:
    from redqueen.adapters.bank import fresh

    h = house(learning=LearningConfig(lr=1e-2))
    h.bank.write("a", fresh(h.bank.shapes(), 4, torch.Generator().manual_seed(0)))
    h.learner.update(samples("a"))
    moved = [name for name, f in h.bank.read("a").items() if f.b.abs().max() > 0]
    assert moved == list(h.bank.sites)


def test_clipping_bounds_the_step_of_each_member_on_its_own(house) -> None:
    tight, loose = (house(learning=LearningConfig(lr=1e-2, clip=c)) for c in (1e-9, 1e9))
    # Adam is invariant to scale up to its epsilon: a gradient clipped to 1e-9 falls below it
    t0, l0 = weights(tight, "a"), weights(loose, "a")
    tight.learner.update(samples("a"))
    loose.learner.update(samples("a"))

    def moved(h, start) -> float:
        return max(float((a - b).abs().max()) for a, b in zip(weights(h, "a"), start, strict=True))

    assert moved(tight, t0) < 0.2 * moved(loose, l0)


def test_optimizer_state_round_trips(house) -> None:
    one, two = house(learning=LearningConfig(lr=1e-2)), house(learning=LearningConfig(lr=1e-2))
    one.learner.update(samples("a"))
    two.bank.write("a", one.bank.read("a"))
    two.learner.load_state("a", one.learner.state("a"))
    one.learner.update(samples("a", 3))
    two.learner.update(samples("a", 3))
    assert same(weights(one, "a"), weights(two, "a"))


def test_reset_leaves_no_moment_and_no_step_count(house) -> None:
    h = house()
    h.learner.update(samples("a"))
    assert h.learner.state("a")
    h.learner.reset("a")
    assert h.learner.state("a") == {}


def test_the_base_keeps_its_fingerprint(house) -> None:
    h = house(learning=LearningConfig(lr=1e-1))
    before = fingerprint(h.base.model)
    for _ in range(3):
        h.learner.update(samples("a") + samples("c"))
    assert fingerprint(h.base.model) == before


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_checkpointing_gives_the_same_gradient(house, family) -> None:
    plain, saving = (house(family, learning=LearningConfig(checkpointing=c)) for c in (False, True))
    one, other = plain.learner.update(samples("a")), saving.learner.update(samples("a"))
    assert one[0].grad_norm == pytest.approx(other[0].grad_norm, rel=1e-4)
