"""The policy holds one frozen base and the members' adapters on it, and samples from the members or trains them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from torch import Tensor

from redqueen import extras
from redqueen.base.closing import Closing
from redqueen.base.request_stream import Follow
from redqueen.config import EngineSettings, LearningConfig, SamplingConfig
from redqueen.engine.adapters import Adapter, Factors
from redqueen.engine.executor import Executor, InlineExecutor
from redqueen.engine.learning.learner import LocalLearner
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.meter import Meter
from redqueen.engine.model.base import Base, workers_of
from redqueen.engine.sampling.continuous_batch import BatchLimits
from redqueen.engine.sampling.sampler import LocalSampler
from redqueen.engine.work import Work
from redqueen.engine.workers.pool import WorkerPool, shared_bank
from redqueen.jail.probes import cores
from redqueen.records import Completion, MemberUpdate, Progress, Request, Sample

# The step count and the moments of a member's optimizer, by name; empty before its first update.
OptimizerState = Mapping[str, Tensor]


class MemberPolicy(Closing, ABC):
    """What a run asks of its members, whose weights are in this process (`Policy`) or on many machines.

    A member is known by its name from `join` to `leave`.
    """

    def __init__(self) -> None:
        # An entry stays after its member has left: if the name joins again, its version still rises. A server that
        # caches by name alone returns the old weights' results after such a change (vLLM issue 42125).
        self._versions: dict[str, int] = {}

    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """Returns (inputs, outputs) of each layer that an adapter changes, by the layer's name."""

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
        """Adds a member with these weights. A member that is not `trained` has no optimizer: it can only sample.

        `state` is a saved optimizer state (default: a fresh optimizer). `version` is a saved version (default: one
        more than the last member of that name had, or 1). `slot` is a saved slot (default: the first free one).
        Raises AdapterError if the name is taken, if no slot is free or if the adapter does not fit the base.
        """
        number = self._versions.get(name, 0) + 1 if version is None else version
        self._place(name, adapter, (state or {}) if trained else None, number, slot)
        self._versions[name] = number

    @abstractmethod
    def _place(self, name: str, adapter: Adapter, state: OptimizerState | None, version: int, slot: int | None) -> None:
        """Puts a member's weights where they are used, with its optimizer if it has a `state`.

        Raises what `join` does, before anything has changed.
        """

    @abstractmethod
    def leave(self, name: str) -> None:
        """Removes a member and its optimizer. Raises KeyError if the member is unknown."""

    @abstractmethod
    def adapter(self, name: str) -> dict[str, Factors]:
        """Returns a copy of a member's fp32 factors, on the CPU. Raises KeyError if the member is unknown."""

    @abstractmethod
    def state(self, name: str) -> dict[str, Tensor]:
        """Returns a copy of a member's optimizer state, on the CPU. Raises KeyError if the member is not trained."""

    def version(self, name: str) -> int:
        """Returns the version of a member's weights: 1 at the name's first join, +1 on every further join and update.

        A cache of what these weights computed (a prefix cache, a remote copy) is stale if its version differs.
        Raises KeyError if the name never joined.
        """
        return self._versions[name]

    @abstractmethod
    def slot(self, name: str) -> int:
        """Returns the place of a member's weights in the adapter bank. Raises KeyError if the member is unknown.

        It decides in which row of a batch the member is computed, and so how products round.
        """

    @abstractmethod
    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Returns completions in the order of `requests`, and calls `on_completion(index, completion)` as each ends.

        Raises KeyError if a member is unknown, PromptError if a prompt is empty or too long for the base.
        """

    @abstractmethod
    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        """Takes one optimizer step for every member that has samples; the version of each member that moved rises.

        `lr` replaces the configured learning rate for this update. Samples with advantage 0 count in the loss's
        normalisation and cost nothing. Raises KeyError if a member is unknown or not trained.
        """

    @abstractmethod
    def begin_update(self, samples: Sequence[Sample]) -> Callable[[], list[MemberUpdate]]:
        """Begins an update, and returns what ends it: until that is called, members sample as they are.

        At most one update may be in progress. This call, or the one that ends it, raises what `update` raises.
        """

    @abstractmethod
    def take_work(self) -> Work:
        """Returns what was computed since the last call."""


class Policy(MemberPolicy):
    """Owns a base, its adapter bank, the executor, the sampler, the learner and the version of each member.

    A policy is a `redqueen.records.Sampler`. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        base: Base,
        adapters: AdapterBank,
        executor: Executor,
        sampling: SamplingConfig,
        learning: LearningConfig,
        temperature: float,
    ) -> None:
        super().__init__()
        self.base = base
        self.adapters = adapters
        self.executor = executor
        self.meter = Meter(base.decoder)
        # Always the same thread: the memory that one has used is not used again by the next.
        self._computing = ThreadPoolExecutor(1, "redqueen-learner")
        limits = BatchLimits(sampling.batch_rows, sampling.prefill_tokens, sampling.cache_tokens)
        self.sampler = LocalSampler(base, adapters, limits, executor, self._versions, self.meter)
        # What truncated sampling can never draw is missing from its probabilities, so that their gap is no sign of a
        # fault.
        if sampling.truncates:
            learning = learning.model_copy(update={"max_logprob_gap": math.inf})
        self.learner = LocalLearner(adapters, learning, temperature, executor, self.meter)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the present members, trained or not, in the order in which they joined."""
        return tuple(self.adapters.slots)

    def shapes(self) -> Mapping[str, tuple[int, int]]:
        return self.adapters.shapes()

    def _place(self, name: str, adapter: Adapter, state: OptimizerState | None, version: int, slot: int | None) -> None:
        # The bank raises all these errors, so it comes first: a refused member leaves no optimizer and no version.
        self.adapters.add(name, adapter, slot)
        if state is not None:
            self.learner.load_state(name, state)

    def leave(self, name: str) -> None:
        self.adapters.retire(name)
        self.learner.forget(name)

    def adapter(self, name: str) -> dict[str, Factors]:
        return self.adapters.read(name)

    def state(self, name: str) -> dict[str, Tensor]:
        return self.learner.state(name)

    def slot(self, name: str) -> int:
        return self.adapters.slots[name]

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        return self.sampler.sample(requests, on_completion)

    def stream(self, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
        """Samples requests and the further ones that they lead to (`redqueen.base.request_stream.StreamSampler`)."""
        return self.sampler.stream(requests, follow, max_further)

    def update(
        self, samples: Sequence[Sample], progress: Progress | None = None, *, lr: float | None = None
    ) -> list[MemberUpdate]:
        return self._moved(self.learner.update(samples, progress, lr=lr))

    def begin_update(self, samples: Sequence[Sample]) -> Callable[[], list[MemberUpdate]]:
        # Gradients are computed now; in a thread if others sample, who can go on meanwhile.
        if self.executor.samples_apart:
            computing = self._computing.submit(self.learner.compute, samples)
            return lambda: self._moved(self.learner.apply(computing.result()))
        computed = self.learner.compute(samples)
        return lambda: self._moved(self.learner.apply(computed))

    def _moved(self, updates: list[MemberUpdate]) -> list[MemberUpdate]:
        """Raises the versions of the members that moved."""
        # The weights of a skipped member are the same as before, so what was computed with them stays valid.
        for update in updates:
            if not update.skipped:
                self._versions[update.member] += 1
        return updates

    def take_work(self) -> Work:
        return self.meter.take()

    def close(self) -> None:
        self._computing.shutdown(wait=False)
        self.executor.close()


def open_policy(base: Base, settings: EngineSettings, capacity: int, *, temperature: float | None = None) -> Policy:
    """Returns a policy without members, with room for `capacity` of them. A shared base gets worker processes.

    Only the limits of `settings.sampling` are used here: each request carries its own sampling parameters. The learner
    trains the distribution at `temperature` (default: the temperature of `settings.sampling`).
    Raises WorkerError if a process of a worker or of vLLM does not start, MissingLibraryError if vLLM is asked for and
    not installed.
    """
    model = settings.model
    shape = (base.decoder.sites, capacity, model.rank, model.alpha, model.targets)

    # Worker processes read the base and the bank in shared memory. A base on a GPU, and one that a single process
    # uses, is in ordinary memory.
    workers = workers_of(model)
    executor: Executor
    if base.block is None or workers == 1:
        adapters = AdapterBank(*shape)
        executor = InlineExecutor(base, adapters)
    else:
        adapters, block = shared_bank(*shape)
        threads = model.threads or max(1, cores() // workers)
        executor = WorkerPool(base, adapters, block, workers, threads)

    sampling = settings.sampling
    if sampling.engine == "vllm":
        executor = extras.find("sampler", "vllm")(base, adapters, capacity, model.rank, sampling, executor)

    if temperature is None:
        temperature = sampling.temperature
    return Policy(base, adapters, executor, sampling, settings.learning, temperature)
