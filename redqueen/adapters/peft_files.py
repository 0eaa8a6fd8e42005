"""Adapters on disk: plain PEFT folders, readable by PEFT, transformers and vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from redqueen.adapters.factors import Adapter, Factors
from redqueen.adapters.initialisation import fresh_columns
from redqueen.errors import AdapterError

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
# PEFT variants whose update is not s·B·A with one rank and scale everywhere.
_VARIANTS = (
    "use_dora",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "fan_in_fan_out",
    "modules_to_save",
    "layer_replication",
)


def save_adapter(
    folder: Path,
    adapter: Adapter,
    *,
    alpha: float,
    base: str,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Writes `adapter` as a PEFT folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name, factors in adapter.items():
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = factors.a.T.to(dtype).contiguous()
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = factors.b.T.to(dtype).contiguous()
    config = LoraConfig(
        r=next(iter(adapter.values())).a.shape[1],
        # PEFT's annotation says int, and vLLM refuses a float even where it is whole.
        lora_alpha=int(alpha) if alpha == int(alpha) else alpha,  # pyright: ignore[reportArgumentType]
        target_modules=sorted({name.rpartition(".")[2] for name in adapter}),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        inference_mode=True,
    )
    write_tensors(folder / WEIGHTS, tensors)
    # PEFT holds some fields as sets, whose order differs between processes; equal adapters must make equal files.
    plain = {k: sorted(v) if isinstance(v, set) else v for k, v in config.to_dict().items()}
    (folder / CONFIG).write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a safetensors file. Raises OSError, also where the library raises an error of its own (a full disk)."""
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from error


def load_adapter(folder: Path) -> tuple[dict[str, Factors], float]:
    """Returns the fp32 factors and alpha of a PEFT folder.

    Raises AdapterError, naming the folder, if it cannot be read or is not plain LoRA.
    """
    try:
        config: dict[str, Any] = dict(json.loads((folder / CONFIG).read_text()))
        alpha = float(config["lora_alpha"])
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise AdapterError(f"{folder} is not a readable PEFT adapter: {error}") from error
    used = [name for name in _VARIANTS if config.get(name)]
    if config.get("peft_type") != "LORA" or used:
        variant = ", ".join(used) or config.get("peft_type")
        raise AdapterError(f"{folder}: only plain LoRA is supported, this uses {variant}")
    sites = {key.removesuffix(_A) for key in tensors if key.endswith(_A)}
    # Every tensor must have its place: a bias, or a B without its A, would otherwise be lost silently.
    if odd := sorted(tensors.keys() ^ {site + end for site in sites for end in (_A, _B)}):
        raise AdapterError(f"{folder}: only pairs of lora_A and lora_B are supported, see {odd[0]}")
    if not sites:
        raise AdapterError(f"{folder} holds no LoRA weights")
    return {
        site.removeprefix(_PREFIX): Factors(
            tensors[site + _A].T.float().contiguous(), tensors[site + _B].T.float().contiguous()
        )
        for site in sorted(sites)
    }, alpha


def refit(
    adapter: Mapping[str, Factors], scale: float, rank: int, new_scale: float, generator: torch.Generator
) -> dict[str, Factors]:
    """The same update ΔW at another rank and scale: spare components get a random A column and a zero B row.

    Raises AdapterError if `rank` is too small to hold it.
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
        noise = fresh_columns(fan_in, spare, generator)
        b = factors.b * (scale / new_scale)
        fitted[name] = Factors(torch.cat([factors.a, noise], 1), torch.cat([b, torch.zeros(spare, fan_out)]))
    return fitted
