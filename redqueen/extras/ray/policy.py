"""A policy whose members live in replicas on many machines, and how a run's policy and verifier are opened there.

Every replica samples from all members; each member is trained by one of them, its owner. Adapters are independent, so a
member's gradient is whole on one machine and no gradient travels: only its new weights do. A second replica, the heir,
keeps the state of each member as it was after its last update. If a replica is lost, its heir trains its members on
from there, and the work that was lost is done again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor

from redqueen.config import Config
from redqueen.engine.adapters import Adapter, Factors
from redqueen.engine.model.base import BaseFacts
from redqueen.engine.model.dimensions import token_counter
from redqueen.engine.policy import MemberPolicy, OptimizerState
from redqueen.engine.work import Work
from redqueen.engine.workers.pool import partition_by_cost
from redqueen.errors import AdapterError
from redqueen.extras.ray.ray_cluster import Cluster, ClusterError, LostError, Pending, first_ready, next_of, put
from redqueen.extras.ray.replica import MemberState, ReplicaSettings, UpdateResult, adapter_of, arrays_of, tensors_of
from redqueen.extras.ray.replicas import Replicas
from redqueen.extras.ray.verifier import ClusterVerifier
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.records import Completion, MemberUpdate, OnCompletion, Progress, Prompt, Request, Sample, Verifier
from redqueen.run.recording.measures import Spread
from redqueen.run.session import Players

_PROMPT_CHARACTERS = 16
"""A character of a prompt costs about this much less than a sampled token: four make a token, and a token of a prompt
costs a quarter of a sampled one."""


class ClusterPolicy(MemberPolicy):
    """Holds the replicas, and knows where each member is trained."""

    def __init__(self, cluster: Cluster, settings: ReplicaSettings, report: Callable[[str], None]) -> None:
        """Starts the replicas: `cluster.replicas`, or one for each GPU, or for each machine where there is none.

        `report` gets a line whenever a replica is lost or joins. Raises ClusterError if the replicas' bases differ.
        """
        super().__init__()
        self.cluster = cluster
        self.replicas = Replicas(cluster, settings, report)
        self._free = list(range(settings.capacity))
        self._slots: dict[str, int] = {}
        self._begun: dict[int, Pending] = {}
        self._work = Work()
        self._shapes: Mapping[str, tuple[int, int]] = next(iter(self.replicas.actors.values())).call("shapes").get()

    @property
    def base(self) -> BaseFacts:
        return self.replicas.facts

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        return self._shapes

    def _place(self, name: str, adapter: Adapter, state: OptimizerState | None, version: int, slot: int | None) -> None:
        if name in self._slots:
            raise AdapterError(f"member '{name}' is here already")
        if not self._free:
            raise AdapterError(f"no free slot for member '{name}'")
        slot = self._free[0] if slot is None else slot
        optimizer = {key: tensor.numpy() for key, tensor in state.items()} if state is not None else None
        member = MemberState(name=name, weights=arrays_of(adapter), version=version, slot=slot, optimizer=optimizer)
        self._free.remove(slot)
        self._slots[name] = slot
        self.replicas.add(member, put(self.cluster, member), trained=state is not None)

    def leave(self, name: str) -> None:
        self._free.insert(0, self._slots.pop(name))
        self.replicas.owners.pop(name, None)
        self.replicas.wait({index: replica.call("leave", name) for index, replica in self.replicas.actors.items()})

    def adapter(self, name: str) -> dict[str, Factors]:
        return adapter_of(self._ask(name, "weights").weights)

    def state(self, name: str) -> dict[str, Tensor]:
        if name not in self.replicas.owners:
            raise KeyError(name)
        return tensors_of(self._ask(name, "states").optimizer or {})

    def slot(self, name: str) -> int:
        return self._slots[name]

    def _ask(self, name: str, method: str) -> MemberState:
        if name not in self._slots:
            raise KeyError(name)
        return self.replicas.state(name, method)

    def sample(self, requests: Sequence[Request], on_completion: OnCompletion | None = None) -> list[Completion]:
        """Samples a share of the requests in every replica. What a lost replica had not sent is sampled again."""
        start = time.perf_counter()
        # A new replica would take over members, and the gradients of an update that has begun are where they were.
        if not self._begun:
            self.replicas.welcome(list(self._slots))
        completions: dict[int, Completion] = {}
        remaining = list(range(len(requests)))
        # A request's random numbers follow from its seed, so it gets the same text wherever it is sampled, apart from
        # how products of another batch round.
        while remaining:
            self._sample_once(requests, remaining, completions, on_completion)
            remaining = [index for index in remaining if index not in completions]
        self._work.sampling_s += time.perf_counter() - start
        self._work.sampled_tokens += sum(len(completion.token_ids) for completion in completions.values())
        return [completions[index] for index in range(len(requests))]

    def _sample_once(
        self,
        requests: Sequence[Request],
        remaining: Sequence[int],
        completions: dict[int, Completion],
        on_completion: OnCompletion | None,
    ) -> None:
        """Samples the requests at the indices `remaining`, as far as replicas are not lost meanwhile."""
        streams: dict[Any, list[int]] = {}
        replicas = list(self.replicas.actors.values())
        for replica, share in zip(replicas, _shares(requests, remaining, len(replicas)), strict=True):
            if share:
                streams[replica.stream("sample", [requests[index] for index in share])] = share
        lost = False
        while streams:
            stream = first_ready(self.cluster, list(streams))
            share = streams[stream]
            try:
                batch = next_of(self.cluster, stream)
            except LostError:
                lost = True
                batch = None
            if batch is None:
                del streams[stream]
                continue
            for position, completion in batch:
                completions[share[position]] = completion
                if on_completion is not None:
                    on_completion(share[position], completion)
        # The others were not interrupted: a replica takes over members only when it has nothing else to do.
        if lost:
            self.replicas.mend()

    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        """Takes each member's step on the replica that owns it. What it raises comes before any member has moved."""
        return self._learn({}, self._by_member(samples), progress, lr)

    def begin_update(self, samples: Sequence[Sample]) -> Callable[[], list[MemberUpdate]]:
        """A replica samples once it has computed its own members' gradients, and does not wait for other replicas."""
        by_member = self._by_member(samples)
        actors = self.replicas.actors
        shares = self._by_owner(sorted(by_member), by_member)
        self._begun = {owner: actors[owner].call("begin", share) for owner, share in shares.items()}
        return partial(self._learn, self._begun, by_member, None, None)

    def _by_member(self, samples: Sequence[Sample]) -> dict[str, list[Sample]]:
        """Returns the samples of each member. Raises KeyError if a member is unknown or not trained."""
        by_member: dict[str, list[Sample]] = {}
        for sample in samples:
            by_member.setdefault(sample.member, []).append(sample)
        for name in by_member:
            if name not in self.replicas.owners:
                raise KeyError(name)
        return by_member

    def _by_owner(self, names: Sequence[str], samples: Mapping[str, Sequence[Sample]]) -> dict[int, list[Sample]]:
        """Returns the samples of these members by the replica that trains them."""
        by_owner: dict[int, list[Sample]] = {}
        for name in names:
            by_owner.setdefault(self.replicas.owners[name], []).extend(samples[name])
        return by_owner

    def _learn(
        self,
        begun: Mapping[int, Pending],
        samples: Mapping[str, Sequence[Sample]],
        progress: Progress | None,
        lr: float | None,
    ) -> list[MemberUpdate]:
        """Ends what replicas have begun, and makes the rest of the update, until every member has taken its step."""
        start = time.perf_counter()
        actors = self.replicas.actors
        calls: dict[int, list[Pending]] = {}
        for owner, computed in begun.items():
            if owner in actors:
                with contextlib.suppress(LostError):
                    computed.get()
                    calls[owner] = actors[owner].call_split("finish", 3)
        self._begun = {}
        total = sum(len(sample.token_ids) for share in samples.values() for sample in share)
        done = 0
        learned: dict[str, UpdateResult] = {}
        while len(learned) < len(samples):
            if not calls:
                pending = [name for name in sorted(samples) if name not in learned]
                shares = self._by_owner(pending, samples)
                calls = {owner: actors[owner].call_split("learn", 3, share, lr) for owner, share in shares.items()}
            for name, result in self._moved(calls).items():
                learned[name] = result
                self._versions[name] = result.version
                done += sum(len(sample.token_ids) for sample in samples[name])
                if progress is not None:
                    progress(done, total)
            calls = {}
        self._work.training_s += time.perf_counter() - start
        return [learned[name].update for name in sorted(learned)]

    def _moved(self, calls: Mapping[int, Sequence[Pending]]) -> dict[str, UpdateResult]:
        """Hands on what owners have learned, as far as they are not lost meanwhile. Returns the members that moved."""
        actors = self.replicas.actors
        learned: dict[str, UpdateResult] = {}
        owned = {owner: self.replicas.owned(owner) for owner in calls}
        for owner, (what, weights, states) in calls.items():
            moved: list[UpdateResult] = []
            suspect: int | None = owner
            try:
                moved = what.get()
                suspect = None
                # First the heir, and whole: from here on the update is not lost with the owner.
                heir = self.replicas.heir(owner)
                if heir is not None:
                    actors[heir].call("keep", states).get()
                self.replicas.send(owner, weights)
            except LostError:
                # An owner that answers may have taken the step whose result is lost: its heir takes it instead.
                self.replicas.mend(suspect)
                moved = self._survived(owned[owner], moved)
                self.replicas.spread([result.update.member for result in moved])
            learned |= {result.update.member: result for result in moved}
        return learned

    def _survived(self, names: Sequence[str], moved: Sequence[UpdateResult]) -> list[UpdateResult]:
        """Returns what has survived of an update of some of these members, of which a replica was lost meanwhile.

        The version that the present owner holds says so. A member that has not moved there is updated again.
        Raises ClusterError if one has moved of which the results are lost.
        """
        held = {name: self._ask(name, "weights").version for name in names}
        survived = [result for result in moved if held[result.update.member] == result.version]
        told = {result.update.member for result in survived}
        if untold := [name for name in names if name not in told and held[name] != self._versions[name]]:
            raise ClusterError(
                f"what {', '.join(untold)} learned is lost with two replicas at once: resume the run from its last "
                "checkpoint"
            )
        return survived

    def take_work(self) -> Work:
        """Returns the tokens that were sampled since the last call, and the seconds; replicas count nothing else."""
        work = self._work
        self._work = Work()
        return work

    def close(self) -> None:
        self.replicas.close()


def _shares(requests: Sequence[Request], indices: Sequence[int], replicas: int) -> list[list[int]]:
    """Divides the requests at `indices` into a share for each replica, by a rule that timing has no part in.

    Requests with one prompt stay together: the prompt is computed once for all of them.
    """
    groups: dict[tuple[str, Prompt], list[int]] = {}
    for index in indices:
        groups.setdefault((requests[index].member, requests[index].prompt), []).append(index)
    costs: list[float] = []
    for (_, prompt), group in groups.items():
        tokens = sum(requests[index].sampling.max_tokens for index in group)
        costs.append(tokens + len(prompt.text) / _PROMPT_CHARACTERS)
    shares = partition_by_cost(list(groups.values()), costs, replicas)
    return [sorted(chain.from_iterable(share)) for share in shares]


# Opens a run's policy and verifier on the machines of a Ray cluster.


@contextmanager
def open_players(config: Config, own: Verifier | None, warn: Callable[[str], None]) -> Generator[Players]:
    """Opens the policy and the verifier (`redqueen.run.session.open_players`)."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(config.cluster.address))
        verifier = own
        spread: Spread = map
        if verifier is None:
            verifier = stack.enter_context(
                ClusterVerifier(cluster, config.sandbox, config.game.min_inputs, config.run.seed, config.plugins, warn)
            )
            spread = verifier.spread
        lengths = prompt_lengths(config.play_settings, token_counter(config.model))
        settings = ReplicaSettings(config=config, capacity=config.capacity, lengths=lengths)
        policy = ClusterPolicy(cluster, settings, warn)
        yield Players(policy=policy, base=policy.base, verifier=verifier, spread=spread)
