"""The replicas of a cluster: who trains which member, who takes over when one is lost, and how a new one joins."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch

from redqueen.engine.memory.fit import least_memory
from redqueen.engine.memory.machine import Demand, other_machine
from redqueen.engine.model.base import BaseFacts
from redqueen.extras.ray.ray_cluster import Actor, Cluster, ClusterError, LostError, Needs, Node, Pending, reason
from redqueen.extras.ray.replica import MemberState, Replica, ReplicaSettings

# Where replicas find room: what one needs of a machine, and how many a cluster can hold.

_PATIENCE = 60.0
"""Seconds after which a replica that has no machine yet is spoken of."""


def needs_of(settings: ReplicaSettings, *, gpus: bool) -> Needs:
    """Returns what a replica takes of a machine, in a cluster with or without GPUs.

    Its batches are made to fit when it has a machine, so this is the least memory that it can do with.
    """
    alone = settings.alone
    machine = other_machine(alone.model, torch.device("cuda" if gpus else "cpu"))
    return Needs(
        cpus=alone.model.threads or 1,
        gpus=1 if gpus else 0,
        memory=least_memory(Demand.of(alone, machine, settings.lengths, settings.capacity)),
    )


def count(nodes: Sequence[Node], needs: Needs, asked: int, report: Callable[[str], None]) -> int:
    """Returns how many replicas to start: as many as asked for; if that is 0, one a GPU, or one a machine without any.

    `report` gets a line for every machine that is too small. Raises ClusterError if so many do not fit, or none does.
    """
    room = [node.room(needs) for node in nodes]
    total = sum(room)
    if (asked or 1) > total:
        machines = "; ".join(f"{node.address} has {node.has}" for node in nodes)
        raise ClusterError(
            f"the cluster has room for {total} replica{'s' * (total != 1)}, not for {asked or 1}, each with {needs}: "
            f"{machines}. Add machines, lower cluster.replicas or model.threads, or choose a smaller model.name"
        )
    if asked:
        return asked
    for node, fit in zip(nodes, room, strict=True):
        if not fit and node.has.gpus >= needs.gpus:
            report(f"machine {node.address} has {node.has}: too little for a replica, which needs {needs}")
        elif needs.gpus and fit < node.has.gpus // needs.gpus:
            scarce = "memory" if node.has.memory // needs.memory == fit else "cores"
            report(
                f"machine {node.address} uses {fit} of {node.has.gpus} GPUs: its own {scarce} would have to be more, "
                f"as it has {node.has} and each replica needs {needs}"
            )
    return total if needs.gpus else sum(fit > 0 for fit in room)


def sharing(actors: Sequence[Actor], needs: Needs, report: Callable[[str], None]) -> list[int]:
    """Waits until every replica has a machine. Returns for each how many of them are on its machine, itself included.

    Raises ClusterError if one ends meanwhile.
    """
    names = [actor.call("machine") for actor in actors]
    for index, name in enumerate(names):
        name.wait(_PATIENCE)
        if not name.ready:
            report(f"replica {index} waits for a machine with {needs}: `ray status` shows who has them now")
    try:
        machines: list[str] = [name.get() for name in names]
    except LostError as error:
        raise ClusterError(f"a replica ended before it had loaded the base: {error}") from error
    loads = Counter(machines)
    return [loads[machine] for machine in machines]


_CLOSED_IN = 20.0
"""Seconds in which a replica has to end what it started."""


class Replicas:
    """Processes that hold all members. Each member is trained by one of them, its owner.

    The heir of a replica is the next one; it keeps the states of the members that the replica trains.
    """

    def __init__(self, cluster: Cluster, settings: ReplicaSettings, report: Callable[[str], None]) -> None:
        """Starts them. Raises ClusterError if there is no room for them, or if their bases differ."""
        self.cluster = cluster
        self.report = report
        nodes = cluster.nodes()
        config = settings.config
        gpus = config.model.device != "cpu" and any(node.has.gpus for node in nodes)
        self._needs = needs_of(settings, gpus=gpus)
        self._wanted = count(nodes, self._needs, config.cluster.replicas, report)
        self._settings = settings
        started = [cluster.start(Replica, needs=self._needs) for _ in range(self._wanted)]
        shares = sharing(started, self._needs, report)
        self.actors: dict[int, Actor] = dict(enumerate(started))
        self.owners: dict[str, int] = {}
        """The replica that trains each member, by the member's name."""
        self._recruit: tuple[Actor, Pending] | None = None
        pairs = zip(started, shares, strict=True)
        self.facts = _agreed([actor.call("open", self._settings, share) for actor, share in pairs])

    def add(self, member: MemberState, sent: Pending, *, trained: bool) -> None:
        """Gives a new member to every replica; `sent` is the same member where every machine can read it."""
        owner = self._prepared_owner(member) if trained else None
        calls = {index: actor.call("join", sent, owned=index == owner) for index, actor in self.actors.items()}
        if owner is not None:
            self.owners[member.name] = owner
        self.wait(calls)

    def _prepared_owner(self, member: MemberState) -> int:
        """Returns the replica that is to train a new member. Its heir keeps the member: from now on it can be lost."""
        while True:
            owner = self.least_loaded()
            heir = self.heir(owner)
            if heir is None:
                return owner
            try:
                self.actors[heir].call("keep", [member]).get()
            except LostError:
                self.mend()
            else:
                return owner

    def send(self, owner: int, weights: Pending) -> None:
        """Gives all replicas but their owner the new weights of members."""
        self.wait({index: actor.call("accept", weights) for index, actor in self.actors.items() if index != owner})

    def state(self, name: str, method: str) -> MemberState:
        """Returns what a member's owner says of it: its `weights` or its `states`.

        Every replica has the weights of a member that is not trained.
        """
        while True:
            index = self.owners.get(name, next(iter(self.actors)))
            try:
                return self.actors[index].call(method, [name]).get()[0]
            except LostError:
                self.mend()

    def heir(self, owner: int) -> int | None:
        """Returns the replica that keeps the states of this one's members: the next one. None if it is the last."""
        others = [index for index in self.actors if index != owner]
        return min(others, key=lambda index: (index < owner, index)) if others else None

    def least_loaded(self) -> int:
        """Returns the replica that trains the fewest members."""
        loads = Counter(self.owners.values())
        return min(self.actors, key=lambda index: (loads[index], index))

    def wait(self, calls: Mapping[int, Pending]) -> None:
        """Waits for a call to each replica. Those that are lost meanwhile are replaced by their heirs."""
        lost = False
        for call in calls.values():
            try:
                call.get()
            except LostError:
                lost = True
        if lost:
            self.mend()

    def mend(self, suspect: int | None = None) -> None:
        """Finds out which replicas are lost, and gives their members to their heirs.

        A `suspect` counts as lost even if it answers, and is ended.
        Raises ClusterError if a replica and its heir are lost at once: then only the checkpoint has their members.
        """
        mended = False
        if suspect in self.actors:
            self.actors[suspect].kill()
            self._drop(suspect)
            mended = True
        while self._drop_dead() or self._orphans():
            mended = True
            if not self.actors:
                raise ClusterError("every replica of the cluster is lost: resume the run from its last checkpoint")
            # A replica that is lost meanwhile is found in the next round.
            with contextlib.suppress(LostError):
                self._adopt()
        if mended:
            self._hand_over_all()

    def _drop_dead(self) -> bool:
        """Forgets the replicas that do not answer. Returns whether there are any."""
        dead = [index for index, replica in self.actors.items() if not _answers(replica)]
        for index in dead:
            self._drop(index)
        return bool(dead)

    def _drop(self, index: int) -> None:
        self.report(f"replica {index} of the cluster is lost: what it was doing is done again elsewhere")
        del self.actors[index]

    def _orphans(self) -> dict[int, list[str]]:
        """Returns the members of lost replicas, by replica."""
        orphans: dict[int, list[str]] = {}
        for name, owner in self.owners.items():
            if owner not in self.actors:
                orphans.setdefault(owner, []).append(name)
        return orphans

    def _adopt(self) -> None:
        """Lets heirs train the members of lost replicas."""
        for index, names in self._orphans().items():
            heir = self.heir(index)
            assert heir is not None, "some replica is left"
            adopted: dict[str, int] = self.actors[heir].call("adopt", names).get()
            missing = [name for name in names if name not in adopted]
            if missing:
                raise ClusterError(
                    f"the states of {', '.join(missing)} are lost with two replicas at once: resume the run from its "
                    "last checkpoint"
                )
            self.owners |= dict.fromkeys(names, heir)
            # An update may have reached the heir and not all others.
            self.spread(names)

    def spread(self, names: Sequence[str]) -> None:
        """Gives every replica the weights that the owners of these members hold."""
        for owner in sorted({self.owners[name] for name in names}):
            own = [name for name in names if self.owners[name] == owner]
            self.send(owner, self.actors[owner].call("weights", own))

    def welcome(self, members: Sequence[str]) -> None:
        """Takes a new replica in, if one was lost and another could be started since; nothing waits for it."""
        if len(self.actors) >= self._wanted:
            return
        if self._recruit is None:
            # If the cluster has no room for it, it starts as soon as there is some.
            recruit = self.cluster.start(Replica, needs=self._needs)
            # What the others on its machine hold is no longer free, so it does not share.
            self._recruit = recruit, recruit.call("open", self._settings, 1)
        actor, facts = self._recruit
        if not facts.ready:
            return
        self._recruit = None
        try:
            unfit = self._unfit(facts)
            for name in members:
                unfit = unfit or _failure(actor.call("accept", [self.state(name, "weights")]))
            if unfit:
                actor.kill()
                self._wanted = len(self.actors)
                self.report(f"a machine that wants to join is left out: {unfit}")
                return
            index = self._enter(actor)
        except LostError as error:
            actor.kill()
            self.report(f"a replica did not start: {error}")
            self.mend()
            return
        self.report(f"replica {index} of the cluster has joined")
        try:
            self._share_out(index)
        except LostError:
            self.mend()

    def _unfit(self, facts: Pending) -> str:
        """Returns why a new replica cannot be taken in, by what `open` says of its base; empty if it can."""
        if failure := _failure(facts):
            return failure
        return "" if facts.get().fingerprint == self.facts.fingerprint else f"other weights of '{self.facts.name}'"

    def _enter(self, actor: Actor) -> int:
        """Makes a new replica one of them. Returns its number. Raises LostError."""
        index = min(set(range(self._wanted)) - set(self.actors))
        joined = dict(sorted({**self.actors, index: actor}.items()))
        # It becomes the heir of the replica before it, which can be lost at any time.
        before = list(joined)[list(joined).index(index) - 1]
        actor.call("keep", self.actors[before].call("states", self.owned(before))).get()
        self.actors = joined
        return index

    def _share_out(self, index: int) -> None:
        """Gives a new replica its share of the members to train."""
        fair = len(self.owners) // len(self.actors)
        loads = Counter(self.owners.values())
        for name, owner in list(self.owners.items()):
            if loads[index] < fair and loads[owner] > fair:
                state = self.actors[owner].call("states", [name]).get()[0]
                heir = self.heir(index)
                assert heir is not None, "its owner until now is left"
                self.actors[heir].call("keep", [state]).get()
                self.actors[index].call("join", state, owned=True).get()
                self.actors[owner].call("accept", [state]).get()
                loads[owner] -= 1
                loads[index] += 1
                self.owners[name] = index
        self._hand_over_all()

    def _hand_over_all(self) -> None:
        """Lets every heir keep the states of all members that it is to train if their owner is lost."""
        for owner in list(self.actors):
            heir = self.heir(owner)
            names = self.owned(owner)
            if heir is not None and names:
                self.wait({heir: self.actors[heir].call("keep", self.actors[owner].call("states", names))})

    def owned(self, owner: int) -> list[str]:
        """Returns the members that a replica trains."""
        return [name for name, trainer in self.owners.items() if trainer == owner]

    def close(self) -> None:
        # vLLM has processes and shared memory of its own, which are not freed if its parent is killed.
        for closing in [actor.call("close") for actor in self.actors.values()]:
            closing.wait(_CLOSED_IN)
        for actor in self.actors.values():
            actor.kill()
        self.actors = {}
        if self._recruit is not None:
            self._recruit[0].kill()
            self._recruit = None


def _agreed(opened: Sequence[Pending]) -> BaseFacts:
    """Waits for the replicas, and returns what there is to know of their base. Raises ClusterError if they differ."""
    try:
        facts: list[BaseFacts] = [call.get() for call in opened]
    except LostError as error:
        raise ClusterError(f"a replica ended before it had loaded the base: {error}") from error
    if len({base.fingerprint for base in facts}) > 1:
        formats = sorted({base.dtype for base in facts})
        raise ClusterError(
            f"the machines have different weights of '{facts[0].name}' ({', '.join(formats)}): give all of them the "
            "same files, and set model.dtype, which auto chooses by the processor"
        )
    return facts[0]


def _answers(replica: Actor) -> bool:
    try:
        replica.call("pid").get()
    except LostError:
        return False
    return True


def _failure(call: Pending) -> str:
    """Returns in a line why a call failed; empty if it did not. Raises LostError."""
    try:
        call.get()
    except LostError:
        raise
    # Another version of a library, a GPU that cannot compute this: whatever it is, the others can do without.
    except Exception as error:  # noqa: BLE001
        return reason(error)
    return ""
