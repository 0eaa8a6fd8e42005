"""What a run may ask of vLLM: known before it is imported."""

from __future__ import annotations

from redqueen import extras
from redqueen.base.optional import is_installed, missing
from redqueen.config import Config, ConfigError
from redqueen.errors import AdapterError

# The ranks that vLLM allocates memory for.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


def largest_rank(rank: int) -> int:
    """Returns the rank that vLLM allocates memory for if adapters have this one. Raises AdapterError if it cannot."""
    if rank > _RANKS[-1]:
        raise AdapterError(f"vLLM's adapters have ranks up to {_RANKS[-1]}: lower model.rank={rank}")
    return next(step for step in _RANKS if step >= rank)


def check_engine(config: Config) -> None:
    """Raises MissingLibraryError, before anything is loaded, if the engine's library is not installed.

    Raises ConfigError if a step shall be sampled while another one learns, and one process does both.
    """
    if config.learning.max_staleness and config.sampling.engine != "vllm" and not config.cluster.address:
        raise ConfigError(
            "learning.max_staleness=1 needs something that samples while this process learns: sampling.engine=vllm, or "
            "--ray (docs/SCALING.md)"
        )
    if config.sampling.engine == "vllm" and config.model.quantize != "off":
        raise ConfigError(
            f"vLLM would sample from a base that is not quantised by model.quantize={config.model.quantize}: use "
            "sampling.engine=embedded"
        )
    if config.sampling.engine == "vllm":
        extras.require("sampler", "vllm")
        if not is_installed("vllm"):
            raise missing("vllm", "vllm", "sampling.engine=vllm")
