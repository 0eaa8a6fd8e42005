"""The machines of a cluster, through Ray: where actors are placed, how they are called, and what a lost one looks like.

This is the only module that knows Ray. Everything else calls an `Actor`.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.base.closing import Closing
from redqueen.base.optional import require
from redqueen.errors import UserError
from redqueen.jail.probes import cores

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, started for this run."""
_REACHED_IN = 10.0
"""Seconds in which a cluster has to answer."""


class ClusterError(UserError):
    """A cluster that cannot be reached, or that has lost too much to go on."""


class LostError(Exception):
    """An actor, or what it had returned, is lost: its process or its node has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an actor takes of its machine."""

    cpus: int = 0
    gpus: int = 0
    memory: int = 0
    """Bytes of the machine's own memory, not of a GPU's."""

    def __str__(self) -> str:
        gpus = f"{self.gpus} GPU{'s' * (self.gpus > 1)}, " if self.gpus else ""
        return f"{gpus}{self.cpus} core{'s' * (self.cpus != 1)} and {self.memory / 2**30:.1f} GiB"


NOTHING = Needs()
"""What an actor needs that runs beside others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of the cluster, with all that it has, whoever uses it now."""

    id: str
    address: str
    has: Needs

    def room(self, needs: Needs) -> int:
        """Returns how many actors with these needs it can hold."""
        pairs = ((self.has.cpus, needs.cpus), (self.has.gpus, needs.gpus), (self.has.memory, needs.memory))
        return min(has // need for has, need in pairs if need)


class Cluster(Closing):
    """A connection to Ray. Use it as a context manager, or call `close`."""

    def __init__(self, address: str) -> None:
        """Connects to the cluster at `address`, or starts one here if that is `LOCAL`.

        Raises ClusterError if there is none, MissingLibraryError without Ray.
        """
        # Ray reports its usage to its makers unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self.ray = require("ray", "ray", "a run on a cluster (--ray)")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == LOCAL:
            options |= {"address": "local", "num_cpus": cores(), "include_dashboard": False}
        else:
            options["address"] = address
        try:
            # Ray tries for minutes, and prints what it tries.
            if ":" in address and "://" not in address:
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=_REACHED_IN).close()
            self.ray.init(**options)
        except (OSError, ValueError, RuntimeError) as error:
            # Ray says it in the middle of what it quotes as the cause.
            if "InvalidAuthToken" in f"{error} {error.__cause__}":
                raise ClusterError(
                    f"the Ray cluster at {address} wants its token: set RAY_AUTH_MODE=token here and for each `ray "
                    "start`, and copy ~/.ray/auth_token of the first machine to the others (docs/SCALING.md)"
                ) from error
            reason = str(error).partition("\n")[0]
            raise ClusterError(
                f"cannot reach a Ray cluster at {address}: {reason}. Start one with `ray start --head`, or leave the "
                "address out to use this machine alone"
            ) from error

    def nodes(self) -> list[Node]:
        """Returns the machines that are alive, in the order of their addresses and names."""
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        nodes = [
            Node(
                id=node["NodeID"],
                address=node["NodeManagerAddress"],
                has=Needs(
                    cpus=int(node["Resources"].get("CPU", 0)),
                    gpus=int(node["Resources"].get("GPU", 0)),
                    memory=int(node["Resources"].get("memory", 0)),
                ),
            )
            for node in alive
        ]
        return sorted(nodes, key=lambda node: (node.address, node.id))

    def start(self, kind: type, node: Node | None = None, needs: Needs = NOTHING) -> Actor:
        """Starts an actor that holds `kind()`, on `node` if one is given. It may not be ready yet.

        It waits while no machine has free what it needs, also for ever.
        """
        strategy: Any = "SPREAD"
        if node is not None:
            strategies = require("ray.util.scheduling_strategies", "ray", "a run on a cluster (--ray)")
            strategy = strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        # Three threads: a question about an actor is answered while it works, and while other work waits there.
        remote = self.ray.remote(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            memory=needs.memory or None,
            max_concurrency=3,
            max_restarts=0,
            scheduling_strategy=strategy,
        )
        return Actor(self.ray, remote(kind).remote())

    def close(self) -> None:
        """Leaves the cluster. One that was started here ends."""
        self.ray.shutdown()


@dataclass(slots=True)
class Pending:
    """The result of a call that may not have ended. It can be an argument of another call, wherever that runs."""

    ray: Any
    reference: Any

    @property
    def ready(self) -> bool:
        """Whether `get` would not wait."""
        done, _ = self.ray.wait([self.reference], timeout=0)
        return bool(done)

    def wait(self, seconds: float) -> None:
        """Waits until there is a result or an error, at most so long."""
        self.ray.wait([self.reference], timeout=seconds)

    def get(self) -> Any:
        """Waits for the result. Raises what the call raised, or LostError."""
        with _errors(self.ray):
            return self.ray.get(self.reference)


class Actor:
    """An object in a process somewhere in the cluster."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self.ray = ray
        self.handle = handle

    def call(self, method: str, *arguments: Any, **named: Any) -> Pending:
        """Calls a method and returns at once. A `Pending` among the arguments stands for its result."""
        values = [argument.reference if isinstance(argument, Pending) else argument for argument in arguments]
        return Pending(self.ray, getattr(self.handle, method).remote(*values, **named))

    def call_split(self, method: str, parts: int, *arguments: Any) -> list[Pending]:
        """Calls a method that returns a tuple of `parts`, and returns each: one that is not asked for never travels."""
        references = getattr(self.handle, method).options(num_returns=parts).remote(*arguments)
        return [Pending(self.ray, reference) for reference in references]

    def stream(self, method: str, *arguments: Any) -> Any:
        """Calls a method that yields, and returns what `next_of` reads."""
        return getattr(self.handle, method).options(num_returns="streaming").remote(*arguments)

    def kill(self) -> None:
        with contextlib.suppress(Exception):
            self.ray.kill(self.handle)


def put(cluster: Cluster, value: Any) -> Pending:
    """Puts a value where every machine can read it, so that it travels to each of them once."""
    return Pending(cluster.ray, cluster.ray.put(value))


def first_ready(cluster: Cluster, streams: Sequence[Any]) -> Any:
    """Waits until one of the streams has something, or has ended, and returns it."""
    ready, _ = cluster.ray.wait(list(streams), num_returns=1)
    return ready[0]


def next_of(cluster: Cluster, stream: Any) -> Any | None:
    """Returns the next item of a stream, None at its end. Raises what its method raised, or LostError."""
    with _errors(cluster.ray):
        try:
            return cluster.ray.get(next(stream))
        except StopIteration:
            return None


def reason(error: Exception) -> str:
    """Returns in a line what a call raised. Ray's own text begins with where that was."""
    cause = getattr(error, "cause", error)
    text = next(iter(str(cause).strip().splitlines()), "")
    return text if isinstance(cause, UserError) else f"{type(cause).__name__}: {text}"


@contextlib.contextmanager
def _errors(ray: Any) -> Iterator[None]:
    """Turns Ray's errors into ours."""
    errors = ray.exceptions
    lost = (
        errors.RayActorError,
        errors.ObjectLostError,
        errors.NodeDiedError,
        errors.WorkerCrashedError,
        # Ray ends a process where memory runs out, and cannot start one whose node has gone before.
        errors.OutOfMemoryError,
        errors.ActorUnschedulableError,
    )
    try:
        yield
    except errors.RayTaskError as error:
        # Our own errors keep their type, because the command line prints their message alone.
        if isinstance(error.cause, UserError):
            raise error.cause from None
        # What another actor was to return is an argument here, and that actor is lost.
        if isinstance(error.cause, lost):
            raise LostError(str(error.cause).partition("\n")[0]) from error
        raise
    except lost as error:
        raise LostError(str(error).partition("\n")[0]) from error
