"""What `sampling.engine=auto` chooses."""

from __future__ import annotations

from redqueen.base.optional import is_installed
from redqueen.config import Config, SamplingConfig
from redqueen.policy.memory.machine import Machine

_SHARE = 0.2
"""The largest share of a GPU's free memory that vLLM's copy of the base may take, and what its cache gets."""


def with_engine(config: Config, machine: Machine) -> Config:
    """Returns `config` with the embedded sampler or vLLM in place of auto.

    vLLM samples on a GPU where it is installed and where its copy of the base takes less than a fifth of what is free.
    It then gets as much for its keys and values, unless the configuration says how much.
    """
    if config.sampling.engine != "auto":
        return config
    # A second copy of a base that takes more would leave too little to rows and to training, whoever samples faster.
    copy = machine.shape.weights * machine.dtype.itemsize
    suits = machine.on_gpu and copy < _SHARE * machine.free and is_installed("vllm")
    chosen: dict[str, object] = {"engine": "vllm" if suits else "embedded"}
    if suits and config.sampling.vllm_cache_gb == SamplingConfig().vllm_cache_gb:
        chosen["vllm_cache_gb"] = round(_SHARE * machine.free / 2**30, 1)
    return config.model_copy(update={"sampling": config.sampling.model_copy(update=chosen)})
