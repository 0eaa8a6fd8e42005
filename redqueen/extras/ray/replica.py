"""A replica: one process of a cluster with a base and a copy of every member, which it samples from.

It also trains the members that it owns. Ray runs it as an actor (`redqueen.extras.ray.ray_cluster`), but nothing here
knows Ray. Weights travel as NumPy arrays, which Ray passes through shared memory without a copy.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redqueen.base.machine import machine_id, set_library_defaults
from redqueen.config import Config, ModelConfig
from redqueen.engine.adapters import Adapter, Factors
from redqueen.engine.memory.fit import fit
from redqueen.engine.memory.machine import Machine, this_machine
from redqueen.engine.model.base import Base, BaseFacts, facts_of, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.errors import ModelError
from redqueen.records import Completion, MemberUpdate, PromptLengths, Request, Sample

# Seconds in which a GPU is free again of a process that has ended.
_LINGERS_S = 10.0

Arrays = Mapping[str, NDArray[Any]]
"""Tensors by name, as they travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Everything that a replica needs to hold a member, or to train it."""

    name: str
    weights: Arrays
    """The factors, `LAYER.a` and `LAYER.b`."""
    version: int
    slot: int
    optimizer: Arrays | None
    """The optimizer's state, empty before the first update; None where it is not told, or the member is not trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update did to a member."""

    update: MemberUpdate
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What every replica of a run is opened with."""

    config: Config
    capacity: int
    """How many adapters there are at most."""
    lengths: PromptLengths

    @property
    def alone(self) -> Config:
        """The configuration of one replica, which has no worker processes."""
        return self.config.override(["model.workers=1"])


class Replica:
    """A policy with all members, of which it trains some."""

    base: Base
    policy: Policy
    _finish: Callable[[], list[MemberUpdate]]
    """Ends the update that has begun."""

    def __init__(self) -> None:
        # Ray calls two methods at once, so that a replica can be asked whether it is there while it works.
        self._lock = threading.Lock()
        # Always the same thread: the memory that one has used is not used again by the next.
        self._sampling = ThreadPoolExecutor(1, "redqueen-sampling")
        # States of members that another replica trains: if it is lost, they can be trained from here on.
        self._kept: dict[str, MemberState] = {}

    def open(self, settings: ReplicaSettings, sharing: int) -> BaseFacts:
        """Loads the base, and makes batches as large as the memory allows that is free here.

        So many replicas are opened on this machine at once, this one included, and each takes its share.
        Returns what there is to know of the base: all replicas must agree. Raises UserError. (A constructor's error
        would come back from Ray as text.)
        """
        set_library_defaults()
        try:
            fitted = fitted_here(settings, sharing)
            self.base = load(fitted.model)
        except ModelError as error:
            raise ModelError(f"machine {socket.gethostname()}: {error}") from error
        self.policy = open_policy(self.base, fitted.engine_settings, settings.capacity)
        return facts_of(self.base)

    def close(self) -> None:
        """Ends what the policy has started, also while it works. It may be called before `open` has ended."""
        # No lock: no caller waits for the work that goes on.
        if hasattr(self, "policy"):
            self.policy.close()

    def machine(self) -> str:
        """Returns a name of the machine, at once: replicas with the same one share its memory."""
        return machine_id()

    def pid(self) -> int:
        """Returns the number of the process, at once."""
        return os.getpid()

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Returns (inputs, outputs) of each layer that an adapter changes."""
        return dict(self.policy.shapes())

    def join(self, member: MemberState, *, owned: bool) -> None:
        """Adds a member, or replaces what is here of it. An `owned` member with an optimizer is trained here."""
        with self._lock:
            self._join(member, owned=owned)

    def _join(self, member: MemberState, *, owned: bool) -> None:
        if member.name in self.policy.members:
            self.policy.leave(member.name)
        trained = owned and member.optimizer is not None
        self.policy.join(
            member.name,
            adapter_of(member.weights),
            trained=trained,
            state=tensors_of(member.optimizer or {}) if trained else None,
            version=member.version,
            slot=member.slot,
        )

    def accept(self, members: Sequence[MemberState]) -> None:
        """Takes the new weights of members that another replica trains."""
        with self._lock:
            for member in members:
                self._join(member, owned=False)

    def keep(self, members: Sequence[MemberState]) -> None:
        """Keeps the states of members that another replica trains, in place of older ones."""
        with self._lock:
            self._kept |= {member.name: member for member in members}

    def adopt(self, names: Sequence[str]) -> dict[str, int]:
        """Trains these members from now on, with the states that were kept. Returns the versions of those it has."""
        with self._lock:
            members = [self._kept.pop(name) for name in names if name in self._kept]
            for member in members:
                self._join(member, owned=True)
        return {member.name: member.version for member in members}

    def leave(self, name: str) -> None:
        with self._lock:
            self._kept.pop(name, None)
            self.policy.leave(name)

    def states(self, names: Sequence[str]) -> list[MemberState]:
        """Returns the present states of members; those that are not trained here come without an optimizer."""
        with self._lock:
            return [self._state(name) for name in names]

    def weights(self, names: Sequence[str]) -> list[MemberState]:
        return [replace(state, optimizer=None) for state in self.states(names)]

    def sample(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Completion]]]:
        """Yields completions with the place of their request, some at a time, as they end."""
        ended: SimpleQueue[tuple[int, Completion] | Exception | None] = SimpleQueue()

        def run() -> None:
            try:
                with self._lock:
                    self.policy.sample(requests, lambda index, completion: ended.put((index, completion)))
                ended.put(None)
            except Exception as error:  # noqa: BLE001 - raised where the completions are read
                ended.put(error)

        self._sampling.submit(run)
        while True:
            batch: list[tuple[int, Completion]] = []
            item = ended.get()
            # What has ended meanwhile travels with it: a message for each text would cost more than the text.
            while isinstance(item, tuple):
                batch.append(item)
                if ended.empty():
                    break
                item = ended.get()
            if batch:
                yield batch
            if isinstance(item, Exception):
                raise item
            if item is None:
                return

    def learn(
        self, samples: Sequence[Sample], lr: float | None
    ) -> tuple[list[UpdateResult], list[MemberState], list[MemberState]]:
        """Updates the members of these samples, which must be owned.

        Returns what was learned, the members' new weights, and their new states.
        """
        with self._lock:
            return self._learned(self.policy.update(samples, lr=lr))

    def begin(self, samples: Sequence[Sample]) -> None:
        """Computes the gradients of an update, which `finish` makes."""
        with self._lock:
            self._finish = self.policy.begin_update(samples)

    def finish(self) -> tuple[list[UpdateResult], list[MemberState], list[MemberState]]:
        """Makes the update that has begun; returns what `learn` does."""
        with self._lock:
            return self._learned(self._finish())

    def _learned(
        self, updates: Sequence[MemberUpdate]
    ) -> tuple[list[UpdateResult], list[MemberState], list[MemberState]]:
        learned = [UpdateResult(update=update, version=self.policy.version(update.member)) for update in updates]
        states = [self._state(update.member) for update in updates]
        return learned, [replace(state, optimizer=None) for state in states], states

    def _state(self, name: str) -> MemberState:
        trained = name in self.policy.learner.optimizers
        return MemberState(
            name=name,
            weights=arrays_of(self.policy.adapter(name)),
            version=self.policy.version(name),
            slot=self.policy.slot(name),
            optimizer={key: tensor.numpy() for key, tensor in self.policy.state(name).items()} if trained else None,
        )


def fitted_here(
    settings: ReplicaSettings, sharing: int, look: Callable[[ModelConfig], Machine] = this_machine
) -> Config:
    """Returns a configuration that fits into a replica's share of this machine. Raises ModelError if none does."""
    config = settings.alone
    machine = look(config.model)
    if machine.on_gpu:
        try:
            return fit(config, machine.shared(sharing), settings.lengths, settings.capacity).config
        except ModelError:
            # The GPU may still hold what a replica had that has just been killed.
            time.sleep(_LINGERS_S)
    return fit(config, look(config.model).shared(sharing), settings.lengths, settings.capacity).config


def arrays_of(adapter: Adapter) -> dict[str, NDArray[Any]]:
    """Returns an adapter's factors as they travel."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, factors in adapter.items():
        arrays[f"{name}.a"] = factors.a.detach().cpu().numpy()
        arrays[f"{name}.b"] = factors.b.detach().cpu().numpy()
    return arrays


def adapter_of(arrays: Arrays) -> dict[str, Factors]:
    """Returns the factors that travelled as these arrays."""
    tensors = tensors_of(arrays)
    layers = dict.fromkeys(name[:-2] for name in tensors)
    return {layer: Factors(tensors[f"{layer}.a"], tensors[f"{layer}.b"]) for layer in layers}


def tensors_of(arrays: Arrays) -> dict[str, Tensor]:
    """Returns copies of these arrays as tensors."""
    # Arrays that came through shared memory are read-only, and torch wants to write.
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
