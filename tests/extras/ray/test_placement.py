"""How many replicas a cluster holds follows from its machines: their cores, GPUs and memory."""

from __future__ import annotations

import pytest

from redqueen.config import Config
from redqueen.config.recipes import configure
from redqueen.extras.ray.ray_cluster import ClusterError, Needs, Node
from redqueen.extras.ray.replica import ReplicaSettings
from redqueen.extras.ray.replicas import count, needs_of
from redqueen.records import PromptLengths

GIB = 2**30
LENGTHS = PromptLengths(proposal=300, attempt=200)


def node(name: str, cpus: int, memory: float, gpus: int = 0) -> Node:
    return Node(id=name, address=name, has=Needs(cpus=cpus, gpus=gpus, memory=int(memory * GIB)))


ON_CPU = Needs(cpus=2, memory=3 * GIB)
ON_GPU = Needs(cpus=1, gpus=1, memory=20 * GIB)


@pytest.mark.parametrize(
    ("nodes", "needs", "asked", "expected"),
    [
        pytest.param([node("a", 8, 32), node("b", 8, 32)], ON_CPU, 0, 2, id="one a machine"),
        pytest.param([node("a", 8, 32), node("b", 8, 32)], ON_CPU, 5, 5, id="as many as asked for"),
        pytest.param([node("a", 8, 320, 4), node("b", 8, 320, 2)], ON_GPU, 0, 6, id="one a GPU"),
    ],
)
def test_replicas_follow_from_the_machines(nodes: list[Node], needs: Needs, asked: int, expected: int) -> None:
    lines: list[str] = []
    assert count(nodes, needs, asked, lines.append) == expected
    assert not lines


@pytest.mark.parametrize(
    ("machine", "replicas", "scarce"), [(node("a", 64, 128, 8), 6, "memory"), (node("a", 3, 320, 8), 3, "cores")]
)
def test_gpus_that_stay_idle_are_told_with_what_their_machine_lacks(machine: Node, replicas: int, scarce: str) -> None:
    lines: list[str] = []
    assert count([machine, node("b", 8, 32)], ON_GPU, 0, lines.append) == replicas
    (line,) = lines
    assert line.startswith(f"machine a uses {replicas} of 8 GPUs: its own {scarce} would have to be more, as it has 8 ")
    assert line.endswith("and each replica needs 1 GPU, 1 core and 20.0 GiB")


def test_a_machine_that_is_too_small_is_named_and_left_out() -> None:
    lines: list[str] = []
    assert count([node("large", 8, 32), node("small", 8, 2)], ON_CPU, 0, lines.append) == 1
    (line,) = lines
    assert line == "machine small has 8 cores and 2.0 GiB: too little for a replica, which needs 2 cores and 3.0 GiB"


@pytest.mark.parametrize("asked", [0, 2])
def test_a_cluster_without_room_says_what_it_has_and_what_is_needed(asked: int) -> None:
    with pytest.raises(ClusterError, match=r"not for [12], each with 2 cores and 3\.0 GiB: a has 1 core and 32\.0 GiB"):
        count([node("a", 1, 32)], ON_CPU, asked, print)


def settings(config: Config, capacity: int) -> ReplicaSettings:
    return ReplicaSettings(config=config, capacity=capacity, lengths=LENGTHS)


def test_a_replica_needs_memory_for_its_base_and_members() -> None:
    config = configure(["quickstart", "model.threads=3"])
    few, many = (needs_of(settings(config, capacity), gpus=False) for capacity in (4, 40))
    assert few.cpus == 3
    assert few.gpus == 0
    assert 0.3 * GIB < few.memory < many.memory
    few, many = (needs_of(settings(config, capacity), gpus=True) for capacity in (4, 4000))
    assert few.gpus == 1
    # With a GPU, the machine's own memory holds the members while they are saved.
    assert 0 < few.memory < many.memory
