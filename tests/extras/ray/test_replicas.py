"""Who holds what when replicas are lost, join or do not answer: replicas without processes, which count versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from redqueen.engine.work import Work
from redqueen.extras.ray.policy import ClusterPolicy
from redqueen.extras.ray.ray_cluster import ClusterError, LostError
from redqueen.extras.ray.replica import MemberState, UpdateResult
from redqueen.extras.ray.replicas import Replicas
from redqueen.records import MemberUpdate, Sample


class Pending:
    """The result of a call, which is there or lost."""

    ready = True

    def __init__(self, result: Any, error: Exception | None = None) -> None:
        self.result = result
        self.error = error

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


@dataclass
class Facts:
    name: str = "base"
    fingerprint: str = "abc"


class FakeReplica:
    """A replica that holds versions in place of weights (see `redqueen.extras.ray.replica.Replica`)."""

    def __init__(self) -> None:
        self.alive = True
        self.trained: dict[str, MemberState] = {}
        self.copies: dict[str, MemberState] = {}
        self.kept: dict[str, MemberState] = {}
        self.steps = 0
        self.before: Callable[[str], None] = lambda method: None
        """Called before each call."""
        self.lost_results = 0
        """How many of the next updates are made, and their results lost."""
        self.open_error: Exception | None = None

    def kill(self) -> None:
        self.alive = False

    def call(self, method: str, *arguments: Any, **named: Any) -> Pending:
        self.before(method)
        if not self.alive:
            return Pending(None, LostError("it has ended"))
        try:
            values = [value.get() if isinstance(value, Pending) else value for value in arguments]
            return Pending(getattr(self, method)(*values, **named))
        except Exception as error:  # noqa: BLE001 - as Ray does it
            return Pending(None, error)

    def call_split(self, method: str, parts: int, *arguments: Any) -> list[Pending]:
        made = self.call(method, *arguments)
        if made.error is not None:
            return [made] * parts
        what, weights, states = map(Pending, made.result)
        if self.lost_results:
            self.lost_results -= 1
            what = Pending(None, LostError("it cannot be reached"))
        return [what, weights, states]

    def pid(self) -> int:
        return 1

    def open(self, *_: object) -> Facts:
        if self.open_error is not None:
            raise self.open_error
        return Facts()

    def join(self, member: MemberState, *, owned: bool) -> None:
        self.trained.pop(member.name, None)
        (self.trained if owned else self.copies)[member.name] = member

    def accept(self, members: Sequence[MemberState]) -> None:
        for member in members:
            self.join(member, owned=False)

    def keep(self, members: Sequence[MemberState]) -> None:
        self.kept |= {member.name: member for member in members}

    def adopt(self, names: Sequence[str]) -> dict[str, int]:
        adopted = {name: self.kept.pop(name) for name in names if name in self.kept}
        self.trained |= adopted
        return {name: member.version for name, member in adopted.items()}

    def states(self, names: Sequence[str]) -> list[MemberState]:
        return [self.trained.get(name) or self.copies[name] for name in names]

    weights = states

    def learn(self, samples: Sequence[Sample], lr: float | None) -> tuple[list[Any], list[Any], list[Any]]:
        del lr
        names = sorted({sample.member for sample in samples})
        self.steps += 1
        for name in names:
            self.trained[name] = replace(self.trained[name], version=self.trained[name].version + 1)
        results = [UpdateResult(update=update(name), version=self.trained[name].version) for name in names]
        return results, self.states(names), self.states(names)


def update(name: str) -> MemberUpdate:
    return MemberUpdate(member=name, loss=0.0, grad_norm=0.0, adapter_norm=0.0, logprob_gap=0.0, tokens=1)


def sample(name: str) -> Sample:
    return Sample(member=name, prompt_ids=(1,), token_ids=(2,), logprobs=(0.0,), advantage=1.0)


def member(name: str) -> MemberState:
    return MemberState(name=name, weights={}, version=1, slot=0, optimizer={})


class Machines:
    """A cluster whose next replica is `recruit`."""

    def __init__(self) -> None:
        self.recruit = FakeReplica()

    def start(self, *_: object, **__: object) -> FakeReplica:
        return self.recruit


def replicas(actors: Mapping[int, FakeReplica], lines: list[str], owners: Mapping[str, int] | None = None) -> Any:
    """Replicas that hold these members; there was one more of them."""
    made: Any = Replicas.__new__(Replicas)
    made.cluster = Machines()
    made.actors = dict(actors)
    made.owners = {}
    made.report = lines.append
    made.facts = Facts()
    made._wanted = len(actors) + 1
    made._recruit = made._needs = made._settings = None
    for name, owner in (owners or {}).items():
        made.owners[name] = owner
        for index, actor in actors.items():
            actor.join(member(name), owned=index == owner)
    made._hand_over_all()
    return made


def policy(held: Any) -> ClusterPolicy:
    made: Any = ClusterPolicy.__new__(ClusterPolicy)
    made.replicas = held
    made._versions = dict.fromkeys(held.owners, 1)
    made._slots = dict.fromkeys(held.owners, 0)
    made._begun = {}
    made._work = Work()
    return made


@pytest.fixture
def lines() -> list[str]:
    return []


def test_an_update_whose_result_is_lost_is_made_once_by_the_heir(lines: list[str]) -> None:
    owner, heir = FakeReplica(), FakeReplica()
    owner.lost_results = 1
    held = replicas({0: owner, 1: heir}, lines, {"S0": 0})
    learner = policy(held)
    assert [one.member for one in learner.update([sample("S0")])] == ["S0"]
    assert (owner.steps, heir.steps) == (1, 1)
    assert learner.version("S0") == heir.trained["S0"].version == 2
    # Nobody knows what it has done, so it is not asked again.
    assert not owner.alive
    assert held.owners == {"S0": 1}
    assert lines == ["replica 0 of the cluster is lost: what it was doing is done again elsewhere"]


def test_an_update_whose_result_is_lost_without_an_heir_ends_the_run(lines: list[str]) -> None:
    owner = FakeReplica()
    owner.lost_results = 1
    with pytest.raises(ClusterError, match="resume the run from its last checkpoint"):
        policy(replicas({0: owner}, lines, {"S0": 0})).update([sample("S0")])


def test_a_step_of_which_only_the_new_state_survives_is_not_taken_again(lines: list[str]) -> None:
    actors = {index: FakeReplica() for index in range(3)}
    # When the first is lost, the second has learned, and its heir gets the new state.
    actors[0].before = lambda method: actors[0].kill() if method == "learn" else None
    actors[1].lost_results = 1
    learner = policy(replicas(actors, lines, {"S0": 0, "S1": 1}))
    with pytest.raises(ClusterError, match="what S1 learned is lost with two replicas at once"):
        learner.update([sample("S0"), sample("S1")])


def test_a_machine_that_cannot_hold_a_replica_is_left_out(lines: list[str]) -> None:
    held = replicas({0: FakeReplica()}, lines)
    held.cluster.recruit.open_error = RuntimeError("CUDA error: no kernel image is available\nCompile with ...")
    held.welcome([])
    held.welcome([])
    assert lines == ["a machine that wants to join is left out: RuntimeError: CUDA error: no kernel image is available"]
    assert not held.cluster.recruit.alive
    assert list(held.actors) == [0]


def test_a_machine_that_fails_with_the_members_is_left_out(lines: list[str]) -> None:
    held = replicas({0: FakeReplica()}, lines, {"S0": 0})
    recruit = held.cluster.recruit
    recruit.join = lambda *_, **__: 1 / 0
    held.welcome(["S0"])
    assert lines == ["a machine that wants to join is left out: ZeroDivisionError: division by zero"]
    assert not recruit.alive


def test_the_heir_of_a_new_member_may_be_lost(lines: list[str]) -> None:
    actors = {index: FakeReplica() for index in range(3)}
    held = replicas(actors, lines)
    actors[1].kill()
    held.add(member("S0"), Pending(member("S0")), trained=True)
    assert held.owners == {"S0": 0}
    actors[0].kill()
    held.mend()
    assert held.owners == {"S0": 2}
    assert list(actors[2].trained) == ["S0"]


def test_a_replica_may_be_lost_when_another_has_just_become_its_heir(lines: list[str]) -> None:
    actors = {0: FakeReplica(), 2: FakeReplica()}
    held = replicas(actors, lines, {"S0": 0, "S1": 2, "S2": 2, "S3": 2})

    def report(line: str) -> None:
        lines.append(line)
        if "has joined" in line:
            actors[0].kill()

    held.report = report
    held.welcome(list(held.owners))
    held.mend()
    assert [line[:31] for line in lines] == ["replica 1 of the cluster has jo", "replica 0 of the cluster is los"]
    assert held.owners["S0"] == 1
    assert list(held.actors) == [1, 2]


def test_a_new_replica_may_be_lost_when_it_has_just_become_an_owner(lines: list[str]) -> None:
    actors = {0: FakeReplica(), 2: FakeReplica()}
    held = replicas(actors, lines, {"S0": 0, "S1": 2, "S2": 2, "S3": 2, "S4": 2})
    recruit = held.cluster.recruit

    def before(method: str) -> None:
        # A member has moved, and what its heir is to keep is asked for.
        if method == "states" and recruit.trained:
            recruit.kill()

    for actor in actors.values():
        actor.before = before
    held.welcome(list(held.owners))
    held.mend()
    assert recruit.trained
    assert list(held.actors) == [0, 2]
    trained = {name: index for index, actor in actors.items() for name in actor.trained}
    assert trained == held.owners
    assert sorted(trained) == ["S0", "S1", "S2", "S3", "S4"]
