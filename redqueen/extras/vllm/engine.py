"""vLLM's engine, started by the run: tokens in, tokens out, adapters come and go.

vLLM computes in processes of its own. It is imported when an engine is started, which takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from redqueen.base.machine import without_allocator_defaults
from redqueen.base.optional import require
from redqueen.config import SamplingConfig
from redqueen.engine.memory.machine import largest_rank
from redqueen.engine.model.base import Base
from redqueen.engine.model.source import source
from redqueen.errors import WorkerError
from redqueen.records import SamplingParams

# vLLM refuses to start unless this share of a GPU is free. How much it takes for its cache is said in bytes, so the
# share has no other meaning here; the base of the learner is on the GPU already.
_FREE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Piece:
    """What was sampled for one request since its last piece."""

    request: str
    token_ids: list[int]
    logprobs: list[float]
    ended: Literal["", "stop", "length", "abort", "error", "repetition"]
    """Why vLLM ended the request; "" while it goes on."""


def sampling_options(sampling: SamplingParams, seed: int, end_ids: Sequence[int]) -> dict[str, Any]:
    """Returns vLLM's sampling parameters of a request that ends at these tokens."""
    return {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": seed,
        # No other token's probability is wanted beside that of the sampled one.
        "logprobs": 0,
        # The base's end tokens are ours, which may be more than the one that vLLM reads from the model's files.
        "stop_token_ids": end_ids,
        "ignore_eos": True,
        "detokenize": False,
    }


class Engine:
    """A running vLLM engine with one base and room for several adapters.

    Its methods raise WorkerError when vLLM has ended.
    """

    def __init__(self, base: Base, adapters: int, rank: int, sampling: SamplingConfig) -> None:
        """`adapters` is how many adapters are loaded at once, `rank` the largest rank of one.

        Raises MissingLibraryError without vLLM, WorkerError if it does not start.
        """
        allocated = largest_rank(rank)
        origin = source(base.name)
        _set_environment(origin.local)
        self._vllm = _import("vllm")
        self._inputs = _import("vllm.inputs.engine")
        self._lora = _import("vllm.lora.request")
        config = base.model.config.get_text_config()
        self.longest: int = min(config.max_position_embeddings, base.decoder.window or config.max_position_embeddings)
        """The most tokens that a prompt and its completion have together."""
        self._end_ids = sorted(base.end_ids)
        arguments = _import("vllm.engine.arg_utils").EngineArgs(
            model=origin.where,
            dtype=str(base.model.dtype).removeprefix("torch."),
            max_model_len=self.longest,
            max_num_seqs=sampling.batch_rows,
            max_num_batched_tokens=max(sampling.prefill_tokens, sampling.batch_rows),
            kv_cache_memory_bytes=int(sampling.vllm_cache_gb * 2**30),
            gpu_memory_utilization=_FREE_SHARE,
            # Texts share whole blocks of their prompt. On a CPU vLLM's own choice is longer than most prompts are.
            block_size=32 if base.device.type == "cpu" else None,
            enable_lora=True,
            max_loras=adapters,
            max_cpu_loras=adapters,
            max_lora_rank=allocated,
            # The probabilities that tokens were drawn with: after temperature, top-k and top-p.
            logprobs_mode="processed_logprobs",
            # Texts are decoded and cut where those of the embedded sampler are.
            skip_tokenizer_init=True,
            # Otherwise the model's own file would change sampling parameters that a request leaves at their defaults.
            generation_config="vllm",
            disable_log_stats=True,
            use_tqdm_on_load=False,
        )
        try:
            self._engine: Any = _import("vllm.v1.engine.llm_engine").LLMEngine.from_engine_args(arguments)
        # Whatever it is, vLLM has written it to the terminal in full.
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise WorkerError(f"vLLM did not start: {reason}; its own report is above") from error
        Thread(target=watch, args=(self._engine.engine_core,), name="redqueen-vllm", daemon=True).start()

    def load(self, name: str, number: int, folder: Path) -> Any:
        """Loads the PEFT folder under a name and a number that were never used; returns the handle for `add`."""
        adapter = self._lora.LoRARequest(name, number, str(folder))
        with self._living():
            self._engine.add_lora(adapter)
        return adapter

    def unload(self, number: int) -> None:
        """Unloads an adapter that no request uses."""
        with self._living():
            self._engine.remove_lora(number)

    def add(self, request: str, prompt_ids: Collection[int], sampling: SamplingParams, seed: int, adapter: Any) -> None:
        """Adds a request, which is sampled from the next `step` on."""
        kind = _import("vllm.sampling_params").RequestOutputKind.DELTA
        params = self._vllm.SamplingParams(**sampling_options(sampling, seed, self._end_ids), output_kind=kind)
        with self._living():
            self._engine.add_request(request, self._inputs.tokens_input(list(prompt_ids)), params, lora_request=adapter)

    def step(self) -> list[Piece]:
        """Waits for the next tokens, of any requests."""
        with self._living():
            outputs = self._engine.step()
        pieces: list[Piece] = []
        for output in outputs:
            (sampled,) = output.outputs
            tokens = list(sampled.token_ids)
            logprobs: list[float] = []
            for token, entry in zip(tokens, sampled.logprobs or (), strict=True):
                logprobs.append(entry[token].logprob)
            pieces.append(Piece(output.request_id, tokens, logprobs, sampled.finish_reason or ""))
        return pieces

    def abort(self, requests: Collection[str]) -> None:
        """Ends requests; pieces of them that are on their way may still come."""
        if requests:
            with self._living():
                self._engine.abort_request(list(requests))

    def close(self) -> None:
        """Ends vLLM's processes. It may be called twice."""
        self._engine.engine_core.shutdown()

    @contextmanager
    def _living(self) -> Generator[None]:
        """Turns an error of an engine that has died into one line."""
        try:
            yield
        except Exception as error:
            # vLLM's own thread closes the sockets when it notices the death, so a call may raise anything.
            if self._engine.engine_core.resources.engine_dead:
                raise WorkerError(
                    "the vLLM engine ended; if memory ran out, lower sampling.vllm_cache_gb or sampling.batch_rows. "
                    "The unfinished step is lost: resume from the last checkpoint"
                ) from error
            raise


def watch(core: Any) -> None:
    """Waits until vLLM's process ends, and then ends the calls that wait for its answers."""
    # vLLM 0.32 only notes the death: a call that waits for tokens, or for an adapter, would wait for ever.
    processes = core.resources.engine_manager.processes
    connection.wait([process.sentinel for process in processes])
    core.resources.engine_dead = True
    error = WorkerError("vLLM's process ended")
    core.outputs_queue.put_nowait(error)
    for answer in list(core.utility_results.values()):
        if not answer.done():
            answer.set_exception(error)


def _import(module: str) -> Any:
    """Returns a module of vLLM. Raises MissingLibraryError if vLLM is not installed."""
    return require(module, "vllm", "sampling.engine=vllm")


def _set_environment(local: bool) -> None:
    """Sets variables that vLLM reads when it is imported, here and in its processes. Values of the user stay."""
    # The terminal belongs to the run.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # Nothing about a run is sent to anybody.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # This process has threads, and a process that is forked from it could wait for ever for a lock that one held.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    # torch has read its own setting in this process, as the base is loaded; vLLM manages memory in its own way.
    without_allocator_defaults()
    if local:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
