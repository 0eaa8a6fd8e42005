"""Adapters on disk: plain PEFT folders, readable by PEFT, transformers and vLLM."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from redqueen.engine.adapters.factors import Adapter, Factors, fresh_columns
from redqueen.errors import AdapterError

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_A = ".lora_A.weight"
_B = ".lora_B.weight"
# Options of PEFT whose update is not s·B·A with one rank and scale everywhere. Such an adapter would load and be wrong.
_VARIANTS = (
    "use_dora",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "fan_in_fan_out",
    "modules_to_save",
    "layer_replication",
    "use_qalora",
    "alora_invocation_tokens",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
)
# Starts of PEFT that leave the base's weights as they are. All others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA, ...) take
# something off them, so that the adapter belongs to weights that members do not share. One that is not known here is
# refused, since a wrong result would not show.
_PLAIN_STARTS = ("none", "true", "false", "gaussian", "eva", "mica", "orthogonal")


def save_adapter(
    folder: Path,
    adapter: Adapter,
    *,
    alpha: float,
    base: str,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Writes `adapter` as a PEFT folder, which is made if needed. Raises OSError if that fails.

    The tensors are stored as `dtype`; `base` is the base model's name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name, factors in adapter.items():
        # safetensors refuses tensors that are not contiguous, and a transposed one is not.
        tensors[f"{_PREFIX}{name}{_A}"] = factors.a.T.to(dtype).contiguous()
        tensors[f"{_PREFIX}{name}{_B}"] = factors.b.T.to(dtype).contiguous()
    # Imported here, because it takes seconds and only writing an adapter needs it.
    peft = importlib.import_module("peft")
    config = peft.LoraConfig(
        r=next(iter(adapter.values())).a.shape[1],
        # vLLM refuses a float even if it is whole.
        lora_alpha=int(alpha) if alpha == int(alpha) else alpha,
        target_modules=_target_modules(adapter),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        inference_mode=True,
    )
    write_tensors(folder / WEIGHTS, tensors)
    # PEFT holds some fields as sets, whose order differs between processes. Equal adapters must give equal files.
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()}
    (folder / CONFIG).write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")


def _target_modules(names: Iterable[str]) -> list[str]:
    """Returns by what names PEFT finds the adapted layers: their last parts, or in full where these are ambiguous."""
    names = sorted(names)
    # What reads pictures has layers of the same names as the language model beside it.
    if any(".language_model." in name for name in names):
        return names
    return sorted({name.rpartition(".")[2] for name in names})


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a safetensors file. Raises OSError if that fails."""
    # The library's own `save_file` makes a file that only its owner can read, whatever the umask says.
    path.write_bytes(save(dict(tensors), metadata={"format": "pt"}))


def load_adapter(folder: Path) -> tuple[dict[str, Factors], float]:
    """Returns the factors (fp32, sites in the order of their names) and the alpha of a PEFT folder.

    Raises AdapterError, which names the folder, if it cannot be read, is not plain LoRA, has pairs that do not fit, or
    numbers that are not finite.
    """
    try:
        config: dict[str, Any] = dict(json.loads((folder / CONFIG).read_bytes()))
        alpha = float(config["lora_alpha"])
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError, SafetensorError) as error:
        raise AdapterError(f"{folder} is not a readable PEFT adapter: {error}") from error
    used = [name for name in _VARIANTS if config.get(name)]
    start = str(config.get("init_lora_weights")).lower()
    used += [f"init_lora_weights={start}"] if start not in _PLAIN_STARTS else []
    if config.get("peft_type") != "LORA" or used:
        variant = ", ".join(used) or config.get("peft_type")
        raise AdapterError(f"{folder}: only plain LoRA is supported, this uses {variant}")
    sites = {key.removesuffix(_A) for key in tensors if key.endswith(_A)}
    # Every tensor must belong to a pair: a bias, or a B without its A, would otherwise be lost silently.
    pairs = {site + _A for site in sites} | {site + _B for site in sites}
    if odd := sorted(tensors.keys() ^ pairs):
        raise AdapterError(f"{folder}: only pairs of lora_A and lora_B are supported, see {odd[0]}")
    if not sites:
        raise AdapterError(f"{folder} holds no LoRA weights")
    if not 0 < alpha < math.inf:
        raise AdapterError(f"{folder}: lora_alpha is {alpha}, and must be a positive number")
    rank = config.get("r")
    adapter: dict[str, Factors] = {}
    for site in sorted(sites):
        if reason := _misfit(tensors[site + _A], tensors[site + _B], rank):
            raise AdapterError(f"{folder}: {site.removeprefix(_PREFIX)} is no LoRA pair: {reason}")
        a = tensors[site + _A].T.float().contiguous()
        b = tensors[site + _B].T.float().contiguous()
        adapter[site.removeprefix(_PREFIX)] = Factors(a, b)
    return adapter, alpha


def _misfit(a: Tensor, b: Tensor, rank: object) -> str:
    """Returns why two tensors, [r, in] and [out, r], are no pair of rank `rank`; "" if they are."""
    shapes = f"{list(a.shape)} and {list(b.shape)}"
    if a.dim() != 2 or b.dim() != 2 or 0 in (*a.shape, *b.shape):
        return f"the shapes {shapes} are not those of two matrices"
    if a.shape[0] != b.shape[1] or a.shape[0] != rank:
        return f"the shapes {shapes} do not have the rank of the configuration, {rank}"
    if not (a.is_floating_point() and b.is_floating_point()):
        return f"its numbers are {a.dtype} and {b.dtype}"
    if not (bool(a.isfinite().all()) and bool(b.isfinite().all())):
        return "it holds NaN or an infinity"
    return ""


def refit(
    adapter: Mapping[str, Factors], scale: float, rank: int, new_scale: float, generator: torch.Generator
) -> dict[str, Factors]:
    """Returns the same update ΔW at another rank and scale (s = alpha / rank).

    Raises AdapterError if `rank` is smaller than the adapter's.
    """
    fitted: dict[str, Factors] = {}
    for name, factors in adapter.items():
        spare = rank - factors.a.shape[1]
        if spare < 0:
            raise AdapterError(
                f"the adapter to start from has rank {factors.a.shape[1]}, model.rank is {rank}: "
                "raise model.rank, or use population.init=fresh"
            )
        fan_in, fan_out = factors.a.shape[0], factors.b.shape[1]
        # A spare component gets a random column of a and a zero row of b. With both at zero, neither would ever get a
        # gradient.
        noise = fresh_columns(fan_in, spare, generator)
        # The scale goes into b alone, so that old and new columns of a are of one size.
        b = factors.b * (scale / new_scale)
        fitted[name] = Factors(torch.cat([factors.a, noise], 1), torch.cat([b, torch.zeros(spare, fan_out)]))
    return fitted
