"""Tests of joining and leaving a policy and of the members' versions."""

from __future__ import annotations

import pytest

from redqueen.errors import AdapterError
from redqueen.records import Sample
from tests.engine.conftest import Build
from tests.engine.requests import request
from tests.engine.samples import samples
from tests.reference import same


def test_a_version_rises_with_every_update_and_every_join_and_is_in_the_completion(tiny_policy: Build) -> None:
    policy = tiny_policy()
    versions = [policy.version("a")]
    policy.update(samples("a"))
    versions.append(policy.version("a"))
    adapter = policy.adapter("a")
    policy.leave("a")
    policy.join("a", adapter)
    versions.append(policy.version("a"))
    assert versions == [1, 2, 3]
    assert policy.version("b") == 1
    completions = policy.sample([request(name, "hello", 0) for name in "ab"])
    assert [(c.member, c.version) for c in completions] == [("a", 3), ("b", 1)]


def test_a_member_can_join_at_a_slot_of_its_own(tiny_policy: Build) -> None:
    policy = tiny_policy()
    adapter = policy.adapter("a")
    taken = policy.slot("b")
    home = policy.slot("a")
    policy.leave("a")
    with pytest.raises(AdapterError, match=f"no free slot {taken}"):
        policy.join("a", adapter, slot=taken)
    policy.join("a", adapter, slot=home)
    assert policy.slot("a") == home
    assert same(policy.adapter("a"), adapter)


def test_a_member_that_did_not_move_keeps_its_version(tiny_policy: Build) -> None:
    policy = tiny_policy()
    (update,) = policy.update(samples("a", advantage=0.0))
    assert update.skipped
    assert policy.version("a") == 1


def test_a_saved_member_joins_with_its_weights_its_optimizer_and_its_version(tiny_policy: Build) -> None:
    one = tiny_policy()
    two = tiny_policy()
    one.update(samples("a"))
    two.leave("a")
    two.join("a", one.adapter("a"), state=one.state("a"), version=one.version("a"))
    assert one.update(samples("a", 3)) == two.update(samples("a", 3))
    assert same(one.adapter("a"), two.adapter("a"))
    assert one.version("a") == two.version("a") == 3


def test_a_member_that_is_not_trained_can_be_sampled_and_not_updated(tiny_policy: Build) -> None:
    policy = tiny_policy()
    adapter = policy.adapter("a")
    policy.leave("b")
    policy.join("champion", adapter, trained=False)
    before = policy.adapter("a")
    rows: list[Sample] = samples("a") + samples("champion")
    with pytest.raises(KeyError, match="champion"):
        policy.update(rows)
    assert same(policy.adapter("a"), before), "refused before any member has moved"
    assert policy.sample([request("champion", "hello", 0)])[0].member == "champion"


def test_a_name_joins_once_and_needs_a_free_slot(tiny_policy: Build) -> None:
    policy = tiny_policy()
    with pytest.raises(AdapterError, match="'a' is in the bank already"):
        policy.join("a", policy.adapter("a"))
    with pytest.raises(AdapterError, match="no free slot for member 'd'"):
        policy.join("d", policy.adapter("a"))
    assert policy.members == ("a", "b", "c")
