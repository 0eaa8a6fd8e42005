"""What a run computes with, resolved once at its start: a device, the base as it is held there, free memory.

A `Demand` is what a run asks of such a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from redqueen import extras
from redqueen.base.machine import free_memory
from redqueen.base.optional import is_installed, missing
from redqueen.config import (
    ClusterConfig,
    Config,
    ConfigError,
    GameConfig,
    LearningConfig,
    ModelConfig,
    PopulationConfig,
    SamplingConfig,
)
from redqueen.engine.model.base import can_share, device_of, dtype_of, workers_of
from redqueen.engine.model.dimensions import Shape, shape_of
from redqueen.engine.sampling.kv_cache import pages_suit
from redqueen.errors import AdapterError
from redqueen.jail.probes import cores
from redqueen.records import PromptLengths

# What a run may ask of vLLM: known before it is imported.

VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM allocates memory for."""


def largest_rank(rank: int) -> int:
    """Returns the rank that vLLM allocates memory for if adapters have this one. Raises AdapterError if it cannot."""
    if rank > VLLM_RANKS[-1]:
        raise AdapterError(f"vLLM's adapters have ranks up to {VLLM_RANKS[-1]}: lower model.rank={rank}")
    return next(step for step in VLLM_RANKS if step >= rank)


def check_engine(
    model: ModelConfig, sampling: SamplingConfig, learning: LearningConfig, cluster: ClusterConfig
) -> None:
    """Raises MissingLibraryError, before anything is loaded, if the engine's library is not installed.

    Raises ConfigError if a step shall be sampled while another one learns, and one process does both.
    """
    if learning.max_staleness and sampling.engine != "vllm" and not cluster.address:
        raise ConfigError(
            "learning.max_staleness=1 needs something that samples while this process learns: sampling.engine=vllm, or "
            "--ray (docs/SCALING.md)"
        )
    if sampling.engine == "vllm" and model.quantize != "off":
        raise ConfigError(
            f"vLLM would sample from a base that is not quantised by model.quantize={model.quantize}: use "
            "sampling.engine=embedded"
        )
    if sampling.engine == "vllm":
        extras.require("sampler", "vllm")
        if not is_installed("vllm"):
            raise missing("vllm", "vllm", "sampling.engine=vllm")


FREE_SHARE = 0.98
"""The share of a GPU's memory that is free before a run: its driver takes the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine, which need not be here, and a base on it."""

    device: torch.device
    dtype: torch.dtype
    workers: int
    """The most processes that sample and train."""
    shape: Shape
    free: int = 0
    """Free bytes of the device."""
    host: int | None = None
    """Free bytes of the machine itself if the device is a GPU; None if it is unknown."""

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def token_bytes(self) -> int:
        """The bytes of the keys and values of one token of a row."""
        return 2 * self.shape.layers * self.shape.kv_heads * self.shape.head_size * self.dtype.itemsize

    @property
    def pages(self) -> bool:
        """Whether rows take pages of keys and values as they grow, instead of the room that they may need."""
        # transformers' cache has a room for each row.
        if not self.on_gpu or self.shape.hosted:
            return False
        return pages_suit(torch.empty(0, self.shape.head_size, dtype=self.dtype, device="meta"))

    def shared(self, processes: int) -> Machine:
        """Returns the share of one of several processes on this machine, each with a GPU of its own if it has any."""
        if self.on_gpu:
            return replace(self, host=None if self.host is None else self.host // processes)
        return replace(self, free=self.free // processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a run asks of a machine: the settings that its memory and its time depend on."""

    model: ModelConfig
    population: PopulationConfig
    game: GameConfig
    sampling: SamplingConfig
    learning: LearningConfig
    machine: Machine
    lengths: PromptLengths
    """Tokens of the longest prompts."""
    members: int
    """How many adapters there are."""
    hall_matches: float
    """The fraction of matches that become two, against champions."""

    @classmethod
    def of(cls, config: Config, machine: Machine, lengths: PromptLengths, members: int) -> Demand:
        """Returns what a run with this configuration asks of a machine."""
        return cls(
            model=config.model,
            population=config.population,
            game=config.game,
            sampling=config.sampling,
            learning=config.learning,
            machine=machine,
            lengths=lengths,
            members=members,
            hall_matches=config.league.hall_matches,
        )

    def with_values(self, section: str, **values: object) -> Demand:
        """Returns a copy with other values in one section, which are not checked."""
        return replace(self, **{section: getattr(self, section).model_copy(update=values)})

    @property
    def longest_text(self) -> int:
        """The most tokens of a prompt and its completion."""
        return longest_text(self.sampling, self.lengths)

    @property
    def matches(self) -> int:
        """How many matches a step draws. Those against champions become two each."""
        return self.game.matches or max(self.population.teachers, self.population.students)

    @property
    def most_matches(self) -> int:
        """How many matches a step may have: with champions each may become two."""
        return 2 * self.matches if self.hall_matches else self.matches

    @property
    def processes(self) -> int:
        """How many processes sample and train. A plan says how many; what is not a plan yet takes the most."""
        return 1 if self.machine.on_gpu else self.model.workers or self.machine.workers


def longest_text(sampling: SamplingConfig, lengths: PromptLengths) -> int:
    """Returns the most tokens of a prompt and its completion."""
    return max(lengths.proposal + sampling.proposal_tokens, lengths.attempt + sampling.attempt_tokens)


def this_machine(config: ModelConfig) -> Machine:
    """Returns the machine that this process is on. Of a model of the Hub only config.json is fetched.

    Raises ModelError if it lacks what is asked for, or if the base cannot be found or is not supported.
    """
    device = device_of(config)
    workers_of(config)
    machine = other_machine(config, device)
    if machine.on_gpu:
        return replace(machine, free=torch.cuda.mem_get_info()[0], host=free_memory())
    return replace(machine, free=free_memory())


def gpu_machine(config: ModelConfig, size: int) -> Machine:
    """Returns a machine with a GPU of `size` bytes. Raises ModelError as `this_machine` does for the base."""
    return replace(other_machine(config, torch.device("cuda")), free=int(FREE_SHARE * size))


def other_machine(config: ModelConfig, device: torch.device) -> Machine:
    """Returns a machine with such a device, of whose memory nothing is known. Raises ModelError as `gpu_machine`."""
    dtype = dtype_of(config, device)
    shape = shape_of(config)
    sharing = can_share(device) and not shape.hosted
    return Machine(device=device, dtype=dtype, workers=(config.workers or cores()) if sharing else 1, shape=shape)
