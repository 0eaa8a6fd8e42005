"""A policy whose members live in replicas on many machines.

Every replica samples from all members; each member is trained by one of them, its owner. Adapters are independent, so a
member's gradient is whole on one machine and no gradient travels: only its new weights do. A second replica, the heir,
keeps the state of each member as it was after its last update. If a replica is lost, its heir trains its members on
from there, and the work that was lost is done again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from torch import Tensor

from redqueen.adapters.factors import Adapter, Factors
from redqueen.cluster.ray_cluster import Actor, Cluster, ClusterError, LostError, Pending, first_ready, next_of, put
from redqueen.cluster.replica import Learned, MemberState, Replica, adapter_of, arrays_of, tensors_of
from redqueen.config import Config
from redqueen.errors import AdapterError
from redqueen.policy.learning.learner import Progress
from redqueen.policy.model.base import BaseFacts
from redqueen.policy.policy import OptimizerState
from redqueen.policy.workers.pool import partition_by_cost
from redqueen.records import Completion, MemberUpdate, Prompt, PromptLengths, Request, Sample

OnCompletion = Callable[[int, Completion], None]
_PROMPT_CHARACTERS = 16
"""A character of a prompt costs about this much less than a sampled token: four make a token, and a token of a prompt
costs a quarter of a sampled one."""


class ClusterPolicy:
    """Holds the replicas, and knows where each member is trained (see `redqueen.policy.policy.MemberPolicy`)."""

    def __init__(
        self, cluster: Cluster, config: Config, capacity: int, lengths: PromptLengths, report: Callable[[str], None]
    ) -> None:
        """Starts the replicas: `cluster.replicas`, or one for each GPU, or for each machine where there is none.

        `report` gets a line whenever a replica is lost or joins. Raises ClusterError if the replicas' bases differ.
        """
        self.cluster = cluster
        self.report = report
        nodes = cluster.nodes()
        self._gpus = 1 if any(node.gpus for node in nodes) and config.model.device != "cpu" else 0
        by_device = sum(node.gpus for node in nodes) if self._gpus else len(nodes)
        self._wanted = config.cluster.replicas or by_device
        self._cpus = config.model.threads or 1
        self._arguments = (config, capacity, lengths)
        self._replicas: dict[int, Actor] = {index: self._start() for index in range(self._wanted)}
        self._recruit: tuple[Actor, Pending] | None = None
        self._free = list(range(capacity))
        self._slots: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._owners: dict[str, int] = {}
        self.facts = self._agreed_facts()
        self._shapes: Mapping[str, tuple[int, int]] = self._any().call("shapes").get()

    def _start(self) -> Actor:
        return self.cluster.start(Replica, *self._arguments, cpus=self._cpus, gpus=self._gpus)

    def _agreed_facts(self) -> BaseFacts:
        """Returns what there is to know of the base."""
        calls = [replica.call("facts") for replica in self._replicas.values()]
        try:
            facts: list[BaseFacts] = [call.get() for call in calls]
        except LostError as error:
            raise ClusterError(f"a replica ended before it had loaded the base: {error}") from error
        if len({each.fingerprint for each in facts}) > 1:
            raise ClusterError(f"the machines have different weights of '{facts[0].name}': give all of them the same")
        return facts[0]

    def _any(self) -> Actor:
        return next(iter(self._replicas.values()))

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """Returns (inputs, outputs) of each layer that an adapter changes, by the layer's name."""
        return self._shapes

    def join(
        self,
        name: str,
        adapter: Adapter,
        *,
        trained: bool = True,
        state: OptimizerState | None = None,
        version: int | None = None,
        slot: int | None = None,
    ) -> None:
        """Adds a member with these weights to every replica, as `Policy.join` does."""
        if name in self._slots:
            raise AdapterError(f"member '{name}' is here already")
        if not self._free:
            raise AdapterError(f"no free slot for member '{name}'")
        place = self._free[0] if slot is None else slot
        number = self._versions.get(name, 0) + 1 if version is None else version
        optimizer = {key: tensor.numpy() for key, tensor in (state or {}).items()} if trained else None
        member = MemberState(name=name, weights=arrays_of(adapter), version=number, slot=place, optimizer=optimizer)
        sent = put(self.cluster, member)
        owner = self._least_loaded()
        calls = {index: each.call("join", sent, owned=index == owner) for index, each in self._replicas.items()}
        self._free.remove(place)
        self._slots[name] = place
        self._versions[name] = number
        if trained:
            self._owners[name] = owner
        self._wait(calls)
        if trained and name in self._owners:
            self._hand_over(self._owners[name], [name])

    def leave(self, name: str) -> None:
        """Removes a member and its optimizer. Raises KeyError if the member is unknown."""
        self._free.insert(0, self._slots.pop(name))
        self._owners.pop(name, None)
        self._wait({index: replica.call("leave", name) for index, replica in self._replicas.items()})

    def adapter(self, name: str) -> dict[str, Factors]:
        """Returns a copy of a member's fp32 factors. Raises KeyError if the member is unknown."""
        return adapter_of(self._ask(name, "weights").weights)

    def state(self, name: str) -> dict[str, Tensor]:
        """Returns a copy of a member's optimizer state. Raises KeyError if the member is not trained."""
        if name not in self._owners:
            raise KeyError(name)
        return tensors_of(self._ask(name, "states").optimizer or {})

    def version(self, name: str) -> int:
        """Returns the version of a member's weights. Raises KeyError if the name never joined."""
        return self._versions[name]

    def slot(self, name: str) -> int:
        """Returns the place of a member's weights in every replica. Raises KeyError if the member is unknown."""
        return self._slots[name]

    def _ask(self, name: str, method: str) -> MemberState:
        """Returns what the member's owner says of it; any replica knows the weights of one that is not trained."""
        if name not in self._slots:
            raise KeyError(name)
        while True:
            index = self._owners.get(name, next(iter(self._replicas)))
            try:
                return self._replicas[index].call(method, [name]).get()[0]
            except LostError:
                self._mend()

    def sample(self, requests: Sequence[Request], on_completion: OnCompletion | None = None) -> list[Completion]:
        """Samples a share of the requests in every replica. What a lost replica had not sent is sampled again."""
        self._welcome()
        completions: dict[int, Completion] = {}
        left = list(range(len(requests)))
        # A request's random numbers follow from its seed, so it gets the same text wherever it is sampled, apart from
        # how products of another batch round.
        while left:
            self._sample_once(requests, left, completions, on_completion)
            left = [index for index in left if index not in completions]
        return [completions[index] for index in range(len(requests))]

    def _sample_once(
        self,
        requests: Sequence[Request],
        left: Sequence[int],
        completions: dict[int, Completion],
        on_completion: OnCompletion | None,
    ) -> None:
        """Samples the requests at the places `left`, as far as replicas are not lost meanwhile."""
        streams: dict[Any, list[int]] = {}
        for replica, share in zip(self._replicas.values(), _shares(requests, left, len(self._replicas)), strict=True):
            if share:
                streams[replica.stream("sample", [requests[place] for place in share])] = share
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
            for place, completion in batch:
                completions[share[place]] = completion
                if on_completion is not None:
                    on_completion(share[place], completion)
        # The others were not interrupted: a replica takes over members only when it has nothing else to do.
        if lost:
            self._mend()

    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        """Takes one optimizer step for every member that has samples, each on the replica that owns it.

        Raises KeyError if a member is unknown or not trained, before any member has moved.
        """
        by_member: dict[str, list[Sample]] = {}
        for sample in samples:
            by_member.setdefault(sample.member, []).append(sample)
        for name in by_member:
            if name not in self._owners:
                raise KeyError(name)
        total = sum(len(sample.token_ids) for sample in samples)
        done = 0
        learned: dict[str, Learned] = {}
        pending = sorted(by_member)
        while pending:
            for name, one in self._learn_once(pending, by_member, lr).items():
                learned[name] = one
                self._versions[name] = one.version
                done += sum(len(sample.token_ids) for sample in by_member[name])
                if progress is not None:
                    progress(done, total)
            pending = [name for name in pending if name not in learned]
        return [learned[name].update for name in sorted(learned)]

    def _learn_once(
        self, names: Sequence[str], samples: Mapping[str, Sequence[Sample]], lr: float | None
    ) -> dict[str, Learned]:
        """Updates these members, as far as their owners are not lost meanwhile. Returns those that have moved."""
        by_owner: dict[int, list[Sample]] = {}
        for name in names:
            by_owner.setdefault(self._owners[name], []).extend(samples[name])
        calls = {owner: self._replicas[owner].call_split("learn", 3, share, lr) for owner, share in by_owner.items()}
        learned: dict[str, Learned] = {}
        for owner, (what, weights, states) in calls.items():
            moved: list[Learned] = []
            try:
                moved = what.get()
                # First the heir, and whole: from here on the update is not lost with the owner.
                if (heir := self._heir(owner)) is not None:
                    self._replicas[heir].call("keep", states).get()
                self._wait({i: each.call("accept", weights) for i, each in self._replicas.items() if i != owner})
            except LostError:
                self._mend()
                # Whether the update has survived is known by the version that the present owner holds. If it has not,
                # the member has not moved anywhere that counts, and is updated again.
                moved = [one for one in moved if self._held(one.update.member) == one.version]
                self._spread([one.update.member for one in moved])
            learned |= {one.update.member: one for one in moved}
        return learned

    def _held(self, name: str) -> int:
        """Returns the version of a member that its owner holds."""
        return self._ask(name, "weights").version

    def _heir(self, owner: int) -> int | None:
        """Returns the replica that keeps the states of this one's members: the next one. None if it is the last."""
        others = [index for index in self._replicas if index != owner]
        return min(others, key=lambda index: (index < owner, index)) if others else None

    def _least_loaded(self) -> int:
        """Returns the replica that trains the fewest members."""
        loads = Counter(self._owners.values())
        return min(self._replicas, key=lambda index: (loads[index], index))

    def _wait(self, calls: Mapping[int, Pending]) -> None:
        """Waits for a call to each replica. Those that are lost meanwhile are replaced by their heirs."""
        lost = False
        for call in calls.values():
            try:
                call.get()
            except LostError:
                lost = True
        if lost:
            self._mend()

    def _mend(self) -> None:
        """Finds out which replicas are lost, and gives their members to their heirs.

        Raises ClusterError if a replica and its heir are lost at once: then only the checkpoint has their members.
        """
        dead = [index for index, replica in self._replicas.items() if not _answers(replica)]
        for index in dead:
            self.report(f"replica {index} of the cluster is lost: what it was doing is done again elsewhere")
            del self._replicas[index]
        if not self._replicas:
            raise ClusterError("every replica of the cluster is lost: resume the run from its last checkpoint")
        for index in dead:
            orphans = [name for name, owner in self._owners.items() if owner == index]
            heir = self._heir(index)
            assert heir is not None, "some replica is left"
            adopted: dict[str, int] = self._replicas[heir].call("adopt", orphans).get()
            missing = [name for name in orphans if name not in adopted]
            if missing:
                raise ClusterError(
                    f"the states of {', '.join(missing)} are lost with two replicas at once: resume the run from its "
                    "last checkpoint"
                )
            self._owners |= dict.fromkeys(orphans, heir)
            self._spread(orphans)
        if dead:
            for index in list(self._replicas):
                self._hand_over(index, [name for name, owner in self._owners.items() if owner == index])

    def _spread(self, names: Sequence[str]) -> None:
        """Gives every replica the weights that the owners of these members hold."""
        for owner in sorted({self._owners[name] for name in names}):
            own = [name for name in names if self._owners[name] == owner]
            weights = self._replicas[owner].call("weights", own)
            self._wait({i: each.call("accept", weights) for i, each in self._replicas.items() if i != owner})

    def _hand_over(self, owner: int, names: Sequence[str]) -> None:
        """Lets the heir of `owner` keep the states of these members."""
        heir = self._heir(owner)
        if heir is not None and names:
            self._wait({heir: self._replicas[heir].call("keep", self._replicas[owner].call("states", names))})

    def _welcome(self) -> None:
        """Takes a new replica in, if one was lost and another could be started since; nothing waits for it."""
        if len(self._replicas) >= self._wanted:
            return
        if self._recruit is None:
            # If the cluster has no room for it, it starts as soon as there is some.
            actor = self._start()
            self._recruit = (actor, actor.call("facts"))
        actor, facts = self._recruit
        if not facts.ready:
            return
        self._recruit = None
        try:
            if facts.get().fingerprint != self.facts.fingerprint:
                actor.kill()
                raise ClusterError(f"a machine that joined has other weights of '{self.facts.name}'")
        except LostError as error:
            self.report(f"a replica did not start: {error}")
            return
        index = min(set(range(self._wanted)) - set(self._replicas))
        self._replicas = dict(sorted({**self._replicas, index: actor}.items()))
        for name in self._slots:
            actor.call("accept", [self._ask(name, "weights")]).get()
        self._share_out(index)
        self.report(f"replica {index} of the cluster has joined")

    def _share_out(self, index: int) -> None:
        """Gives a new replica its share of the members to train."""
        fair = len(self._owners) // len(self._replicas)
        loads = Counter(self._owners.values())
        for name, owner in list(self._owners.items()):
            if loads[index] < fair and loads[owner] > fair:
                state = self._replicas[owner].call("states", [name]).get()[0]
                self._replicas[index].call("join", state, owned=True).get()
                self._replicas[owner].call("accept", [state]).get()
                loads[owner] -= 1
                loads[index] += 1
                self._owners[name] = index
        for each in list(self._replicas):
            self._hand_over(each, [name for name, owner in self._owners.items() if owner == each])

    def close(self) -> None:
        """Ends the replicas. It may be called twice."""
        for replica in self._replicas.values():
            replica.kill()
        self._replicas = {}
        if self._recruit is not None:
            self._recruit[0].kill()
            self._recruit = None


def _answers(replica: Actor) -> bool:
    """Whether a replica is there."""
    try:
        replica.call("pid").get()
    except LostError:
        return False
    return True


def _shares(requests: Sequence[Request], places: Sequence[int], replicas: int) -> list[list[int]]:
    """Divides the requests at `places` into a share for each replica, by a rule that timing has no part in.

    Requests with one prompt stay together: the prompt is computed once for all of them.
    """
    groups: dict[tuple[str, Prompt], list[int]] = {}
    for place in places:
        groups.setdefault((requests[place].member, requests[place].prompt), []).append(place)
    costs: list[float] = []
    for (_, prompt), group in groups.items():
        tokens = sum(requests[place].sampling.max_tokens for place in group)
        costs.append(tokens + len(prompt.text) / _PROMPT_CHARACTERS)
    shares = partition_by_cost(list(groups.values()), costs, replicas)
    return [sorted(chain.from_iterable(share)) for share in shares]
