"""A member's optimizer: its warm-up, its state in memory and in a file, and its end when the member leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from redqueen.config import LearningConfig
from redqueen.engine.model.base import fingerprint
from redqueen.method.population import Population
from redqueen.records import Role, Sample
from redqueen.store import checkpoint
from tests.engine.conftest import Build, TinyPolicy
from tests.engine.samples import samples, steps_taken, twins, weights
from tests.reference import noisy, same


def test_warmup_grows_the_learning_rate_over_a_members_own_first_steps(tiny_policy: Build) -> None:
    warm, plain = (tiny_policy(learning=LearningConfig(lr=1e-4, lr_warmup=n)) for n in (4, 0))
    warm.update(samples("b"))  # other members' steps do not count
    # Adam's direction depends on the gradients only, which hardly change at this learning rate.
    for number, (slow, fast) in enumerate(zip(steps_taken(warm, "a", 6), steps_taken(plain, "a", 6), strict=True), 1):
        assert float(slow.norm() / fast.norm()) == pytest.approx(min(1.0, number / 4), rel=0.02), number
    warm.learner.reset("a")
    (again,) = steps_taken(warm, "a", 1)
    assert float(
        again.norm() / steps_taken(tiny_policy(learning=LearningConfig(lr=1e-4)), "a", 1)[0].norm()
    ) == pytest.approx(0.25, rel=0.05)


def test_warmup_goes_on_after_a_state_round_trip(tiny_policy: Build) -> None:
    one, two = twins(tiny_policy, lr_warmup=5)
    steps_taken(one, "a", 2)
    two.adapters.write("a", one.adapter("a"))
    two.learner.load_state("a", one.state("a"))
    steps_taken(one, "a", 2)
    steps_taken(two, "a", 2)
    assert torch.equal(weights(one, "a"), weights(two, "a"))


@pytest.mark.parametrize("member", ["a", "c"])
def test_optimizer_state_round_trips(tiny_policy: Build, member: str) -> None:
    one, two = twins(tiny_policy)
    one.update(samples(member))
    two.adapters.write(member, one.adapter(member))
    two.learner.load_state(member, one.state(member))
    one.update(samples(member, 3))
    two.update(samples(member, 3))
    assert torch.equal(weights(one, member), weights(two, member))


def test_a_state_is_a_copy(tiny_policy: Build) -> None:
    policy = tiny_policy()
    policy.update(samples("a"))
    state = policy.state("a")
    before = {name: tensor.clone() for name, tensor in state.items()}
    policy.learner.load_state("b", state)
    policy.update(samples("a") + samples("b"))
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_weights_and_state_go_through_a_checkpoint_to_the_bit(tiny_policy: Build, tmp_path: Path) -> None:
    population = Population()
    names: list[str] = []
    for role in ("teacher", "student", "student"):
        names.append(population.add_member(role, 0).name)
    config = LearningConfig(lr=1e-2)
    one = tiny_policy(learning=config, members=names)
    rows = [sample for name in names[:2] for sample in samples(name)]
    one.update(rows)  # the third, of lower rank, has not played and has no state
    saved = checkpoint.Checkpoint(
        step=1,
        base="base",
        fingerprint=fingerprint(one.base.model),
        alpha=8.0,
        population=population,
        bank=[],
        adapters={name: one.adapter(name) for name in names},
        optimizers={name: one.state(name) for name in names},
        versions={name: one.version(name) for name in names},
        slots={name: one.slot(name) for name in names},
    )
    checkpoint.save(tmp_path, saved, keep_last=1, keep_every=0)
    loaded = checkpoint.load(tmp_path, 1)
    two = tiny_policy(learning=config, members=names)
    for name in names:
        two.adapters.write(name, loaded.adapters[name])
        two.learner.load_state(name, loaded.optimizers[name])
        assert same(two.adapter(name), one.adapter(name))
    rows = [sample for name in names for sample in samples(name, 3)]
    assert one.update(rows) == two.update(rows)
    assert torch.equal(one.adapters.masters, two.adapters.masters)


def test_a_lower_ranks_spare_components_stay_exactly_zero(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-2, weight_decay=0.1))
    start = policy.adapter("c")
    for _ in range(3):
        policy.update(samples("c") + samples("a"))
    end = policy.adapter("c")
    assert {f.a.shape[1] for f in end.values()} == {2}
    assert all(not torch.equal(start[n].a, f.a) and not torch.equal(start[n].b, f.b) for n, f in end.items())
    assert torch.equal(policy.adapters.pack(end), weights(policy, "c")), "nothing but these two components is not zero"
    assert {t.shape[1] for n, t in policy.state("c").items() if ".a." in n} == {2}


def test_a_replaced_members_moments_do_not_outlive_it(tiny_policy: Build) -> None:
    used, new = twins(tiny_policy)
    used.update(samples("b"))
    for policy in (used, new):
        policy.leave("b")
        policy.join("d", noisy(policy.adapters, 7))
        assert policy.state("d") == {}
        policy.update(
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


def test_reset_leaves_no_moment_and_no_step_count(tiny_policy: Build) -> None:
    policy = tiny_policy()
    policy.update(samples("a"))
    assert policy.state("a")["step"] == 1
    policy.learner.reset("a")
    assert policy.state("a") == {}


def test_teachers_may_have_a_learning_rate_of_their_own(tiny_policy: Build) -> None:
    policy = tiny_policy(learning=LearningConfig(lr=1e-4, teacher_lr=2e-5))
    plain = tiny_policy(learning=LearningConfig(lr=1e-4))

    def step(policy: TinyPolicy, member: str, roles: Sequence[Role]) -> float:
        before = weights(policy, member)
        asked = samples(member)
        policy.update([replace(one, role=role) for one, role in zip(asked, roles, strict=True)])
        return float((weights(policy, member) - before).norm())

    assert step(policy, "a", ["teacher"] * 4) == pytest.approx(0.2 * step(plain, "a", ["teacher"] * 4), rel=1e-3)
    # A student, and a member that plays both roles, have the rate of students.
    assert step(policy, "b", ["student"] * 4) == pytest.approx(step(plain, "b", ["student"] * 4))
    both: list[Role] = ["teacher", "teacher", "student", "student"]
    assert step(policy, "c", both) == pytest.approx(step(plain, "c", both))


def test_a_member_has_its_moments_from_its_first_moment_on(tiny_policy: Build) -> None:
    policy = tiny_policy()
    optimizer = policy.learner.optimizers["a"]
    (parameter,) = optimizer.param_groups[0]["params"]
    before = {name: tensor.data_ptr() for name, tensor in optimizer.state[parameter].items()}
    assert sorted(before) == ["exp_avg", "exp_avg_sq", "step"]
    policy.update(samples("a"))
    # The first step moves them where they are.
    assert {name: tensor.data_ptr() for name, tensor in optimizer.state[parameter].items()} == before
    assert policy.state("a")["step"] == 1
