"""Where replicas find room: what one needs of a machine, and how many a cluster can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch

from redqueen.config import Config
from redqueen.engine.memory.fit import least_memory
from redqueen.engine.memory.machine import other_machine
from redqueen.extras.ray.ray_cluster import Actor, ClusterError, LostError, Needs, Node
from redqueen.records import PromptLengths

_PATIENCE = 60.0
"""Seconds after which a replica that has no machine yet is spoken of."""


def needs_of(config: Config, lengths: PromptLengths, capacity: int, *, gpus: bool) -> Needs:
    """Returns what a replica with `capacity` members takes of a machine, in a cluster with or without GPUs.

    Its batches are made to fit when it has a machine, so this is the least memory that it can do with.
    """
    alone = config.override(["model.workers=1"])
    machine = other_machine(alone.model, torch.device("cuda" if gpus else "cpu"))
    return Needs(
        cpus=config.model.threads or 1,
        gpus=1 if gpus else 0,
        memory=least_memory(alone, machine, lengths, capacity),
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
