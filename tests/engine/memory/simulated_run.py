"""Steps of a run on a GPU as its memory sees them: which tensors of which sizes begin and end, in which order.

The sizes are those of a plan (`redqueen.engine.memory`); what a stream of requests makes is computed as
`redqueen.engine.sampling.continuous_batch` does. Layers are taken four at a time, to save time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.config import Config
from redqueen.engine.memory.estimate import gradients_item, sampling_items, training_items
from redqueen.engine.memory.machine import Demand, Machine
from redqueen.engine.sampling.kv_cache import PAGE, batch_pages
from redqueen.records import PromptLengths
from tests.caching_allocator import CachingAllocator, OutOfMemoryError

_TOGETHER = 4
# A step's longest prompt and limit, as a share of the plan's. It differs from step to step.
_ROOMS = (1.0, 0.994, 0.999, 0.985, 1.0, 0.97, 0.992, 0.998, 0.98, 1.0)
# How full the micro-batches of an update are.
_FULL = (1.0, 0.98, 0.7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a run treats the memory of its GPU."""

    releases: bool = True
    """Whether unused memory goes back before a batch begins and when it ends."""
    expandable: bool = True
    """Whether segments can grow."""
    moments_at_join: bool = True
    """Whether AdamW's moments are there before the first step."""
    one_stream: bool = True
    """Whether all batches record on the same stream."""


AS_IT_WAS = Ways(releases=False, expandable=False, moments_at_join=False, one_stream=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A configuration that fits, for one base."""

    config: Config
    machine: Machine
    lengths: PromptLengths
    members: int

    @property
    def demand(self) -> Demand:
        return Demand.of(self.config, self.machine, self.lengths, self.members)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the steps."""

    steps: int
    """How many were finished."""
    reserved: int
    """The most bytes that were taken from the GPU at once."""
    error: str = ""


def cache_of_a_stream(plan: Plan, share: float = 1.0) -> tuple[int, int]:
    """Returns the rows of the KV cache and how many tokens it holds that a step's stream of requests makes.

    The step's longest request has this share of the plan's longest one.
    """
    config = plan.config
    game = config.game
    matches = game.matches or max(config.population.teachers, config.population.students)
    proposals = matches * len(game.kinds) * game.proposals
    # Every proposal may lead to attempts (`redqueen.method.self_play`).
    rows = min(config.sampling.batch_rows, proposals + proposals * game.attempts)
    # The room is that of the requests which are there at first; what is too long for it gets a batch of its own.
    room = int(share * (plan.lengths.proposal + config.sampling.proposal_tokens))
    if not plan.machine.pages:
        return rows, rows * room
    return rows, batch_pages(rows, room, config.sampling.cache_tokens) * PAGE


def simulate(plan: Plan, capacity: int, ways: Ways, steps: int = 10) -> Outcome:
    """Runs steps in `capacity` bytes of memory."""
    run = _Run(plan, CachingAllocator(capacity, expandable=ways.expandable), ways)
    done = 0
    try:
        run.begin()
        for step in range(steps):
            run.sample(step)
            run.learn(step)
            done += 1
    except OutOfMemoryError as error:
        return Outcome(done, run.most, f"step {done + 1}: {error}")
    return Outcome(done, run.most)


class _Run:
    """The tensors of one run."""

    def __init__(self, plan: Plan, memory: CachingAllocator, ways: Ways) -> None:
        self.plan = plan
        self.memory = memory
        self.ways = ways
        self.most = 0
        self.of_all_members = gradients_item(plan.demand).size
        self.parts = -(-plan.machine.shape.layers // _TOGETHER)

    def begin(self) -> None:
        """Loads the base, and lets the members join."""
        weights = 2 * self.plan.machine.shape.weights
        for part in range(self.parts):
            self._take(f"base {part}", weights / self.parts)
        self._take("masters", self.of_all_members)
        for part in range(self.parts):
            self._take(f"copies {part}", self.of_all_members / 2 / self.parts)
        if self.ways.moments_at_join:
            self._moments()

    def sample(self, step: int) -> None:
        """Samples proposals and attempts as one stream."""
        shape = self.plan.machine.shape
        rows, tokens = cache_of_a_stream(self.plan, _ROOMS[step % len(_ROOMS)])
        token = shape.layers * shape.kv_heads * shape.head_size * 2
        if self.ways.releases:
            self.memory.empty_cache()
        stream = "recorded" if self.ways.one_stream else f"recorded {step % 32}"
        batch = ["keys", "values", "fp32 logits"]
        for name in batch[:2]:
            self._take(name, tokens * token)
        self._take(batch[2], 4 * rows * shape.vocabulary)
        # Passes over prompts have nearly as many tokens as they may.
        _, prompts = sampling_items(self.plan.demand)
        for full in (1.0, 0.96, 0.99):
            self._pass(prompts.size * full)
        # The first step of each number of rows is done as it is, the second one is recorded in memory of its own.
        padded = -(-shape.vocabulary // 256) * 256
        for name, where in (("eager", stream), (f"graphs {step}", f"graphs {step}")):
            self._take(f"{name}: logits", 2 * rows * shape.vocabulary, where)
            if padded != shape.vocabulary:
                self._take(f"{name}: padded", 4 * rows * padded, where)
                self.memory.free(f"{name}: padded")
            self.memory.free(f"{name}: logits")
        self.memory.free(*batch)
        if self.ways.releases:
            self.memory.empty_cache()

    def learn(self, step: int) -> None:
        """Computes three micro-batches, and moves the members."""
        plan = self.plan
        self._take("gradients", self.of_all_members)
        activations, *others = training_items(plan.demand)
        checkpointing = plan.config.learning.checkpointing is True
        tokens = int(activations.name.split()[-2])
        streams = plan.machine.shape.layers * tokens * plan.machine.shape.hidden * 2
        for full in _FULL:
            kept: list[str] = []
            if checkpointing:
                kept += self._layers("stream", streams * full)
                self._pass((activations.size - streams) / 2 * full)
                self._pass((activations.size - streams) * full)
            else:
                kept += self._layers("kept", activations.size * full)
            for item in others:
                self._take(item.name, item.size)
            self.memory.free(*[item.name for item in others])
            # The backward pass frees the last layers first.
            for name in reversed(kept):
                self.memory.free(name)
        if step == 0 and not self.ways.moments_at_join:
            self._moments()
        self.memory.free("gradients")

    def _moments(self) -> None:
        for member in range(self.plan.members):
            for moment in ("mean", "square"):
                self._take(f"{moment} of {member}", self.of_all_members / self.plan.members)

    def _layers(self, name: str, size: float) -> list[str]:
        """Makes what the layers keep, and returns its names."""
        names: list[str] = []
        widths = self._widths()
        for part in range(self.parts):
            for index, width in enumerate(widths):
                names.append(f"{name} {part} {index}")
                self._take(names[-1], size / self.parts * width / sum(widths))
        return names

    def _widths(self) -> Sequence[int]:
        """Returns what a layer keeps for a token, in numbers."""
        shape = self.plan.machine.shape
        heads = shape.heads * shape.head_size
        qkv = heads + 2 * shape.kv_heads * shape.head_size
        return (shape.hidden, shape.hidden, qkv, heads, shape.hidden, 2 * shape.intermediate, shape.intermediate)

    def _pass(self, size: float) -> None:
        """Makes what a pass over one layer needs, and frees it."""
        names: list[str] = []
        widths = self._widths()
        for index, width in enumerate(widths):
            names.append(f"pass {index}")
            self._take(names[-1], size * width / sum(widths))
        self.memory.free(*names)

    def _take(self, name: str, size: float, stream: str = "main") -> None:
        self.memory.allocate(name, size, stream)
        self.most = max(self.most, self.memory.reserved)
