"""Opens vLLM as what samples: in processes of the run's own, or a server that runs already."""

from __future__ import annotations

from redqueen.config import SamplingConfig
from redqueen.engine.executor import Executor
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.extras.vllm.adapter_versions import adapter_bytes
from redqueen.extras.vllm.engine import Engine
from redqueen.extras.vllm.executor import VllmExecutor
from redqueen.extras.vllm.server import Server


def open_executor(
    base: Base, bank: AdapterBank, capacity: int, rank: int, sampling: SamplingConfig, learning: Executor
) -> VllmExecutor:
    """Returns an executor that samples with vLLM. If vLLM does not start or answer, `learning` is closed."""
    try:
        # One more than there are members: a new version is loaded before the old one is unloaded.
        adapters = capacity + 1
        url = sampling.vllm_url
        size = adapters * adapter_bytes(bank, base.decoder.dtype)
        engine = Server(base, url, size) if url else Engine(base, adapters, rank, sampling)
    except BaseException:
        learning.close()
        raise
    return VllmExecutor(base, bank, engine, learning)
