"""A member's own optimizer: warm-up, its state in memory and in a file, and what is left of it after a replacement."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from redqueen.config import LearningConfig
from redqueen.league import Table
from redqueen.policy.model.base import fingerprint
from redqueen.records import Sample
from redqueen.runs import checkpoint
from tests.policy.conftest import Build
from tests.policy.samples import samples, steps_taken, twins, weights
from tests.reference import noisy, same


def test_warmup_grows_the_learning_rate_over_a_members_own_first_steps(house: Build) -> None:
    warm, plain = (house(learning=LearningConfig(lr=1e-4, warmup=n)) for n in (4, 0))
    warm.learner.update(samples("b"))  # other members' steps do not count
    # Adam's direction depends on the gradients only, which hardly change at this rate
    for number, (slow, fast) in enumerate(zip(steps_taken(warm, "a", 6), steps_taken(plain, "a", 6), strict=True), 1):
        assert float(slow.norm() / fast.norm()) == pytest.approx(min(1.0, number / 4), rel=0.02), number
    warm.learner.reset("a")
    (again,) = steps_taken(warm, "a", 1)
    assert float(
        again.norm() / steps_taken(house(learning=LearningConfig(lr=1e-4)), "a", 1)[0].norm()
    ) == pytest.approx(0.25, rel=0.05)


def test_warmup_goes_on_after_a_state_round_trip(house: Build) -> None:
    one, two = twins(house, warmup=5)
    steps_taken(one, "a", 2)
    two.bank.write("a", one.bank.read("a"))
    two.learner.load_state("a", one.learner.state("a"))
    steps_taken(one, "a", 2), steps_taken(two, "a", 2)
    assert torch.equal(weights(one, "a"), weights(two, "a"))


@pytest.mark.parametrize("member", ["a", "c"])
def test_optimizer_state_round_trips(house: Build, member: str) -> None:
    one, two = twins(house)
    one.learner.update(samples(member))
    two.bank.write(member, one.bank.read(member))
    two.learner.load_state(member, one.learner.state(member))
    one.learner.update(samples(member, 3))
    two.learner.update(samples(member, 3))
    assert torch.equal(weights(one, member), weights(two, member))


def test_a_state_is_a_copy(house: Build) -> None:
    h = house()
    h.learner.update(samples("a"))
    state = h.learner.state("a")
    kept = {name: tensor.clone() for name, tensor in state.items()}
    h.learner.load_state("b", state)
    h.learner.update(samples("a") + samples("b"))
    assert all(torch.equal(state[name], kept[name]) for name in kept)


def test_weights_and_state_go_through_a_checkpoint_to_the_bit(house: Build, tmp_path: Path) -> None:
    table, names = Table(), []
    for role in ("teacher", "student", "student"):
        names.append(table.enrol(role, -1).name)
    config = LearningConfig(lr=1e-2)
    one = house(learning=config, members=names)
    rows = [sample for name in names[:2] for sample in samples(name)]
    one.learner.update(rows)  # the third, of lower rank, has not played and has no state
    saved = checkpoint.Checkpoint(
        1,
        "base",
        fingerprint(one.base.model),
        8.0,
        table,
        [],
        {name: one.bank.read(name) for name in names},
        {name: one.learner.state(name) for name in names},
    )
    checkpoint.save(tmp_path, saved, keep_last=1, keep_every=0)
    loaded = checkpoint.load(tmp_path, 1)
    two = house(learning=config, members=names)
    for name in names:
        two.bank.write(name, loaded.adapters[name])
        two.learner.load_state(name, loaded.optimizers[name])
        assert same(two.bank.read(name), one.bank.read(name))
    rows = [sample for name in names for sample in samples(name, 3)]
    assert one.learner.update(rows) == two.learner.update(rows)
    assert torch.equal(one.bank.masters, two.bank.masters)


def test_a_lower_ranks_spare_components_stay_exactly_zero(house: Build) -> None:
    h = house(learning=LearningConfig(lr=1e-2, weight_decay=0.1))
    start = h.bank.read("c")
    for _ in range(3):
        h.learner.update(samples("c") + samples("a"))
    end = h.bank.read("c")
    assert {f.a.shape[1] for f in end.values()} == {2}
    assert all(not torch.equal(start[n].a, f.a) and not torch.equal(start[n].b, f.b) for n, f in end.items())
    assert torch.equal(h.bank.pack(end), weights(h, "c")), "nothing but these two components is not zero"
    assert {t.shape[1] for n, t in h.learner.state("c").items() if ".a." in n} == {2}


def test_a_replaced_members_moments_do_not_outlive_it(house: Build) -> None:
    used, new = twins(house)
    used.learner.update(samples("b"))
    used.learner.forget("b")
    used.bank.retire("b")
    new.bank.retire("b")
    for h in (used, new):
        h.bank.add("d", noisy(h.bank, 7))
        h.learner.reset("d")
        assert h.learner.state("d") == {}
        h.learner.update(
            [
                Sample(
                    member="d",
                    prompt_ids=s.prompt_ids,
                    token_ids=s.token_ids,
                    logprobs=s.logprobs,
                    advantage=s.advantage,
                )
                for s in samples("b")
            ]
        )
    assert torch.equal(weights(used, "d"), weights(new, "d"))


def test_reset_leaves_no_moment_and_no_step_count(house: Build) -> None:
    h = house()
    h.learner.update(samples("a"))
    assert h.learner.state("a")["step"] == 1
    h.learner.reset("a")
    assert h.learner.state("a") == {}
