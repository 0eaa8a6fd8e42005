"""The shared, frozen base: loading it, its tokenizer and its fingerprint."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import psutil
import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from redqueen.base.optional import is_installed
from redqueen.config import BUNDLED, ModelConfig
from redqueen.engine.model import check_quantized, quantized
from redqueen.engine.model.decoder import decoder_of, unsuited
from redqueen.engine.model.forward import Forward
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.model.source import cannot_load, end_of_turn, obtain, read_config, read_tokenizer, source
from redqueen.engine.tensor_memory import SharedBlock, padded
from redqueen.errors import ModelError, UserError
from redqueen.jail.probes import cores

# Finds scripts that start a run when they are imported.
#
# A worker process imports the script that started it (that is how Python's "spawn" works). A script without
# `if __name__ == "__main__":` starts another run in each worker, which loads a model and starts workers of its own.

NO_GUARD = 77
"""The exit code of a worker whose script has no guard."""


def check_main_guard() -> None:
    """Ends this process if it is a worker that is still importing the script. The parent then says what is wrong."""
    # multiprocessing sets the mark while a new process imports its parent's script, and refuses to start processes as
    # long as it is there. To raise an error here would print a traceback from each worker, and the script may catch it.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(NO_GUARD)


# The weights of a base as its files hold them, read without a GPU.

_ONE_FILE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def digest_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Returns the SHA-256 of weights, which must come sorted by name."""
    digest = hashlib.sha256()
    for name, weight in weights:
        digest.update(name.encode())
        # The bytes are hashed, because NumPy has no bf16 that could be hashed as numbers.
        digest.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def digest_of_files(where: str, parameters: Iterable[tuple[str, Tensor]]) -> str | None:
    """Returns `digest_of` these parameters, with the values that the files of the base at `where` have.

    Returns None if the base is not in safetensors files that name each parameter as the model does.
    """
    wanted = sorted(parameters)
    places = _places(where)
    if not all(name in places for name, _ in wanted):
        return None
    return digest_of(_read(places, wanted))


def _places(where: str) -> dict[str, Path]:
    """Returns the file of each weight."""
    index = _file(where, _INDEX)
    if index is not None:
        files: dict[str, str] = json.loads(index.read_text())["weight_map"]
        # All files of an index lie beside it.
        return {name: index.parent / file for name, file in files.items()}
    single = _file(where, _ONE_FILE)
    if single is None:
        return {}
    with safe_open(single, "pt") as file:
        return dict.fromkeys(file.keys(), single)


def _read(places: dict[str, Path], wanted: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights in the dtypes of the parameters."""
    opened: dict[Path, Any] = {}
    with ExitStack() as stack:
        for name, parameter in wanted:
            path = places[name]
            if path not in opened:
                opened[path] = stack.enter_context(safe_open(path, "pt"))
            yield name, opened[path].get_tensor(name).to(parameter.dtype)


def _file(where: str, name: str) -> Path | None:
    """Returns a file of a base that is here; None if it has none of that name."""
    if Path(where).is_dir():
        path = Path(where) / name
        return path if path.is_file() else None
    cached = huggingface_hub.try_to_load_from_cache(where, name)
    return Path(cached) if isinstance(cached, str) else None


# What a worker process may need: its libraries, packed weights, KV cache and activations.
_WORKER_BYTES = 3 << 30


@dataclass(frozen=True, slots=True)
class Base:
    """A loaded base."""

    name: str
    model: Any
    """A transformers causal LM in eval mode, whose parameters take no gradient."""
    tokenizer: Any
    device: torch.device
    decoder: Forward
    """The forward pass over the same weights that applies members' adapters. Sampling and training use it."""
    block: SharedBlock | None = None
    """The shared memory that holds the weights; None if one process uses them."""

    @property
    def end_ids(self) -> frozenset[int]:
        # A model may name several end tokens, its tokenizer another one, and its chat template one more: any of them
        # ends a completion.
        ids: set[int] = set()
        for end in (self.model.generation_config.eos_token_id, self.tokenizer.eos_token_id):
            ids |= {end} if isinstance(end, int) else set(end or ())
        turn = end_of_turn(self.tokenizer)
        return frozenset(ids if turn is None else ids | {turn})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """What a run records of its base."""

    name: str
    fingerprint: str
    """The SHA-256 of its weights."""
    device: str
    dtype: str


def facts_of(base: Base) -> BaseFacts:
    """Returns what a run records of `base`. It reads all weights, which takes seconds for a large base."""
    return BaseFacts(
        name=base.name,
        fingerprint=fingerprint_of(base),
        device=str(base.device),
        dtype=str(base.model.dtype).removeprefix("torch."),
    )


def device_of(config: ModelConfig) -> torch.device:
    """Returns the device of the base. Raises ModelError if CUDA is asked for and absent."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ModelError("model.device=cuda, but torch sees no CUDA device: use model.device=cpu")
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if cuda else "cpu")


def dtype_of(config: ModelConfig, device: torch.device) -> torch.dtype:
    """Returns the dtype of the base's weights.

    "auto" is bf16 on CUDA and on CPUs that multiply it faster than fp32, elsewhere fp32. The environment variable
    REDQUEEN_DTYPE overrides "auto", so that a machine with fast bf16 can test what others run.
    Raises ModelError if the variable holds anything else.
    """
    if config.dtype != "auto":
        return getattr(torch, config.dtype)
    override = os.environ.get("REDQUEEN_DTYPE", "")
    if override in ("bfloat16", "float32"):
        return getattr(torch, override)
    if override:
        raise ModelError(f"REDQUEEN_DTYPE={override}: set it to bfloat16 or float32, or leave it unset")
    return torch.bfloat16 if device.type == "cuda" or _has_fast_bf16() else torch.float32


def _has_fast_bf16() -> bool:
    """Returns whether this processor multiplies bf16 faster than fp32: with AMX, as Arm does, and as AMD does."""
    cpu = torch.cpu.get_capabilities()
    if cpu.get("amx_bf16") or cpu.get("bf16"):
        return True
    # Intel's unit for bf16 is AMX, which virtual machines may hide. Without it AVX512-BF16 takes twice as long as fp32.
    return bool(cpu.get("avx512_bf16")) and "Intel" not in cpu.get("cpu_name", "")


def load(config: ModelConfig) -> Base:
    """Loads the base called `config.name`. Raises ModelError if it cannot be loaded or is not supported."""
    check_main_guard()
    device = device_of(config)
    if device.type == "cpu":
        torch.set_num_threads(config.threads or cores())
    check_quantized(config, read_config(config.name).to_dict())
    tokenizer = read_tokenizer(config)
    origin = source(config.name)
    dtype = dtype_of(config, device)
    placement = {"device_map": {"": device}} if streams_to(device) else {}
    try:
        # With the loading info the call returns a pair, which its type does not say.
        answer: Any = AutoModelForCausalLM.from_pretrained(
            origin.where,
            dtype=dtype,
            local_files_only=origin.local,
            output_loading_info=True,
            **(placement | quantized.options(config, dtype, device)),
        )
    except UserError:
        raise
    except Exception as error:
        raise cannot_load(config.name, error) from error
    model, loaded = answer
    # transformers fills missing weights with random numbers and only logs it.
    if loaded["missing_keys"]:
        raise ModelError(
            f"cannot load '{config.name}': no file has its weights {sorted(loaded['missing_keys'])[0]}, ..."
        )
    module: Any = model.requires_grad_(False)
    module = module.eval()
    if quantized.is_quantized(module):
        quantized.prepare(module)
    else:
        module = module.to(device)
    # Our own pass is the faster one. What it does not compute is left to transformers' own modules.
    if quantized.is_quantized(module) or unsuited(module):
        check_workers(config)
        return Base(config.name, module, tokenizer, device, HostedDecoder(module))
    if workers_of(config) == 1:
        return Base(config.name, module, tokenizer, device, decoder_of(module))
    # Worker processes map this block, so all of them together hold the weights once. Packed weights are opaque oneDNN
    # tensors that cannot lie in it, so each worker packs its own.
    block = SharedBlock(sum(padded(p.numel() * p.element_size()) for p in module.parameters()))
    return Base(config.name, module, tokenizer, device, decoder_of(module, block.store, pack=False), block)


def streams_to(device: torch.device) -> bool:
    """Returns whether weights go from their files to the device one by one, so that they never are in host memory."""
    return device.type == "cuda" and is_installed("accelerate")


def workers_of(config: ModelConfig) -> int:
    """Returns how many processes sample and train; 1 means this process alone.

    Raises ModelError if several are asked for where they cannot share memory.
    """
    sharing = can_share(device_of(config))
    if config.workers > 1 and not sharing:
        raise ModelError("model.workers above 1 needs Linux and model.device=cpu: use model.workers=1")
    if config.workers or not sharing:
        return config.workers or 1
    # By default there is one worker per core, as far as memory allows. A machine with one core needs no second process.
    # The commands know how much a run needs, and choose by that instead (`redqueen.engine.memory`).
    return max(1, min(cores(), psutil.virtual_memory().total // _WORKER_BYTES))


def check_workers(config: ModelConfig) -> None:
    """Raises ModelError if several processes are asked for on a model that transformers' own modules compute."""
    if config.workers > 1:
        raise ModelError(
            f"'{config.name}' is computed by transformers' own modules, in one process: use model.workers=1, or leave "
            "it out (docs/RUNS.md)"
        )


def can_share(device: torch.device) -> bool:
    """Returns whether several processes can share a base on this device."""
    return hasattr(os, "memfd_create") and device.type == "cpu"


def location(name: str) -> str:
    """Returns the id or path by which `from_pretrained` finds the model called `name`.

    Raises ModelError if the bundled model is asked for and cannot be converted.
    """
    return str(obtain()) if name == BUNDLED else name


def fingerprint_of(base: Base) -> str:
    """Returns `fingerprint` of a base that has just been loaded."""
    # What lies on a GPU was read from files a moment ago. To read these again is cheaper than to copy it back.
    if base.device.type == "cuda" and not quantized.is_quantized(base.model):
        digest = digest_of_files(source(base.name).where, base.model.named_parameters())
        if digest is not None:
            return digest
    return fingerprint(base.model)


def fingerprint(model: nn.Module) -> str:
    """Returns the SHA-256 of the base's parameters. Equal values prove that a run did not change them."""
    if quantized.is_quantized(model):
        return digest_of(quantized.frozen_tensors(model))
    return digest_of(sorted(model.named_parameters()))
