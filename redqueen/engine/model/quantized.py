"""Frozen bases in 4 or 8 bits, by bitsandbytes or torchao: how they are loaded, and what of them is frozen.

Only the linear layers of the decoder's blocks are quantised; embeddings, norms and the output matrix stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from redqueen.base.optional import require
from redqueen.config import ModelConfig

BITS = {
    # A scale of 8 bits for each 64 weights, and one of 32 bits for each 256 of those.
    "nf4": 4 + 8 / 64 + 32 / (64 * 256),
    # The scales of whole rows are not counted.
    "int8": 8.0,
    "torchao_int8": 8.0,
    "torchao_fp8": 8.0,
}
"""Bits of a quantised weight with its scales, by the kind."""


def options(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Returns what `from_pretrained` needs to quantise a base while it loads it; nothing if it is not to."""
    if config.quantize == "off":
        return {}
    return {"quantization_config": _configuration(config.quantize, dtype), "device_map": {"": device}}


def _configuration(kind: str, dtype: torch.dtype) -> Any:
    """Returns transformers' configuration of one kind of quantisation; products are computed in `dtype`."""
    if kind == "nf4":
        # As in QLoRA (Dettmers et al. 2023): normal floats, whose scales are quantised as well.
        return transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=dtype,
            bnb_4bit_use_double_quant=True,
        )
    if kind == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    torchao = require("torchao.quantization", "torchao", f"model.quantize={kind}")
    # Weights alone: their products are computed in the dtype of the inputs, and a gradient passes through them.
    weights = torchao.Int8WeightOnlyConfig() if kind == "torchao_int8" else torchao.Float8WeightOnlyConfig()
    return transformers.TorchAoConfig(weights)


def is_quantized(model: Any) -> bool:
    """Returns whether a loaded model holds quantised weights."""
    return getattr(model.config, "quantization_config", None) is not None


def rounds_inputs(model: nn.Module) -> bool:
    """Returns whether inputs of layers are rounded as well, in a way that depends on all rows of a batch."""
    # LLM.int8 (Dettmers et al. 2022) leaves out the columns in which any row has an outlier.
    return any(type(module).__name__ == "Linear8bitLt" for module in model.modules())


def prepare(model: nn.Module) -> None:
    """Makes a quantised model fit for gradients that pass through it. Call it before its first forward pass."""
    # It says at every product that it casts.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    for module in model.modules():
        # On processors with AVX512-BF16 a 4-bit layer in eval mode lays its weights out anew at the first pass without
        # gradients. From then on it passes no gradient on, silently. In training mode it computes the same and does
        # not. It has no children and drops nothing.
        if type(module).__name__ == "Linear4bit":
            module.training = True


def frozen_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yields the name and the numbers of everything that a quantised model saves: packed weights, scales, the rest."""
    state: dict[str, Any] = model.state_dict()
    for name in sorted(state):
        if isinstance(state[name], Tensor):
            yield from _plain(name, state[name])


def _plain(name: str, tensor: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the plain tensors that a tensor consists of: torchao's are made of several."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield name, tensor
        return
    attributes, _ = tensor.__tensor_flatten__()
    for attribute in attributes:
        inner = getattr(tensor, attribute)
        if inner is not None:
            yield from _plain(f"{name}.{attribute}", inner)


def kind_of(shell: Any, config: ModelConfig) -> str:
    """Returns how a base is quantised: as asked, or as the files of `shell`, a configuration, are; off if not."""
    files: Any = getattr(shell, "quantization_config", None)
    if not files:
        return config.quantize
    plain: dict[str, Any] = files if isinstance(files, dict) else files.to_dict()
    if plain.get("load_in_4bit"):
        return "nf4"
    return "torchao_int8" if plain.get("quant_method") == "torchao" else "int8"
