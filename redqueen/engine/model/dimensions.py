"""Reads what the need of memory depends on: the base's dimensions, without its weights, and the tokens of a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.config import AUTO_TARGETS, ModelConfig
from redqueen.engine.adapters import check_targets
from redqueen.engine.model import check_quantized
from redqueen.engine.model.decoder import unsuited
from redqueen.engine.model.hosted import adaptable
from redqueen.engine.model.quantized import BITS, kind_of
from redqueen.engine.model.source import cannot_load, encode, read_config, read_tokenizer
from redqueen.errors import AdapterError
from redqueen.records import Prompt

# Sizes of the recipes' bases, so that a run on them can be planned where neither the base nor a network is.
#
# They are those of each model's config.json on the Hugging Face Hub, and of table 1 of the Qwen2.5-Coder technical
# report (Hui et al. 2024, arXiv:2409.12186).


@dataclass(frozen=True, slots=True)
class KnownBase:
    """The sizes of a base of the family qwen2."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    """Whether the output matrix is the embedding."""


SIZES = {
    "0.5B": KnownBase(896, 4864, 24, 14, 2, 151936, tied=True),
    "1.5B": KnownBase(1536, 8960, 28, 12, 2, 151936, tied=True),
    "3B": KnownBase(2048, 11008, 36, 16, 2, 151936, tied=True),
    "7B": KnownBase(3584, 18944, 28, 28, 4, 152064, tied=False),
    "14B": KnownBase(5120, 13824, 48, 40, 8, 152064, tied=False),
    "32B": KnownBase(5120, 27648, 64, 40, 8, 152064, tied=False),
}
"""Bases of Qwen2.5 by their size."""
KNOWN = {f"Qwen/Qwen2.5-Coder-{size}{tuning}": base for size, base in SIZES.items() for tuning in ("", "-Instruct")}
"""Bases by their id on the Hub."""

# A little below the shipped tokenizer's 2.25 to 2.6 characters a token (`tests/engine/model/test_known_bases.py`), so
# that lengths are estimated too high. Tokenizers of 150,000 tokens have more characters a token.
CHARACTERS_A_TOKEN = 2.2
"""Characters of a prompt that are taken to be one token where no tokenizer is at hand."""


def known_base(name: str) -> KnownBase | None:
    """Returns the sizes of the base called `name`; None if it is not one of these, or is a folder here."""
    return None if Path(name).expanduser().is_dir() else KNOWN.get(name)


# The layers that share a site with others, so that loading copies their weights into a stack.
_STACKED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")


@dataclass(frozen=True, slots=True)
class Shape:
    """A base's dimensions and numbers of weights."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    weights: int
    linear: int
    """Weights of the linear layers, the output matrix included."""
    stacked: int
    """Weights of the layers that share a site with others (q, k and v; gate and up)."""
    factors: int
    """One member's weights at rank 1."""
    inner: int
    """Adapted linear layers of one block."""
    head_norms: bool
    """Whether q and k have norms."""
    dtype: torch.dtype | None
    """The dtype in the base's file."""
    hosted: bool = False
    """Whether transformers' own modules compute it, and not our own forward pass."""
    quantized: str = "off"

    def stored(self, dtype: torch.dtype) -> int:
        """Returns the bytes of all weights, where those that are not quantised have this dtype."""
        if self.quantized == "off":
            return self.weights * dtype.itemsize
        blocks = self.linear - self.vocabulary * self.hidden
        return (self.weights - blocks) * dtype.itemsize + int(blocks * BITS[self.quantized] / 8)


def shape_of(config: ModelConfig) -> Shape:
    """Returns the dimensions of the base called `config.name`. Of a model of the Hub only its config.json is fetched.

    Of the recipes' bases nothing is. Raises ModelError if the base cannot be found or its family is not supported.
    """
    shell = transformers_config(config.name)
    # A known base is planned where the library that quantises it need not be.
    if known_base(config.name) is None:
        check_quantized(config, shell.to_dict())
    try:
        return shape_in(shell, config.targets, kind_of(shell, config))
    except AdapterError:
        raise
    except Exception as error:
        raise cannot_load(config.name, error) from error


def shape_in(shell: Any, targets: Collection[str], quantize: str = "off") -> Shape:
    """Returns the dimensions that a transformers configuration describes, with adapters at the layers of `targets`."""
    # On the meta device the modules have shapes but no memory, so even a large base is measured in a moment.
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(shell)
    modules = list(model.named_modules())
    text = shell.get_text_config()
    linears = [(name.rpartition(".")[2], module) for name, module in modules if isinstance(module, nn.Linear)]
    named = [(name.rpartition(".")[2], module) for name, module in adaptable(model)]
    adapted = [m for name, m in named if tuple(targets) == AUTO_TARGETS or name in targets]
    if tuple(targets) != AUTO_TARGETS:
        check_targets(targets, {name for name, _ in named})
    heads = int(text.num_attention_heads)
    hidden = int(text.hidden_size)
    return Shape(
        layers=int(text.num_hidden_layers),
        hidden=hidden,
        intermediate=int(getattr(text, "intermediate_size", None) or 4 * hidden),
        heads=heads,
        kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
        head_size=int(getattr(text, "head_dim", None) or hidden // heads),
        vocabulary=int(text.vocab_size),
        weights=sum(p.numel() for p in model.parameters()),
        linear=sum(m.weight.numel() for _, m in linears),
        stacked=sum(m.weight.numel() for name, m in linears if name in _STACKED),
        factors=sum(m.in_features + m.out_features for m in adapted),
        inner=len(adapted) // int(text.num_hidden_layers),
        head_norms=any(name.endswith("q_norm") for name, _ in modules),
        dtype=shell.dtype,
        hosted=quantize != "off" or bool(unsuited(model)),
        quantized=quantize,
    )


def transformers_config(name: str) -> Any:
    """Returns the transformers configuration of the base called `name`, of a known one without a network.

    Raises ModelError if it cannot be read.
    """
    base = known_base(name)
    if base is None:
        return read_config(name)
    return AutoConfig.for_model(
        "qwen2",
        vocab_size=base.vocabulary,
        hidden_size=base.hidden,
        intermediate_size=base.intermediate,
        num_hidden_layers=base.layers,
        num_attention_heads=base.heads,
        num_key_value_heads=base.kv_heads,
        tie_word_embeddings=base.tied,
        dtype="bfloat16",
    )


def rough_token_counter() -> Callable[[Prompt], int]:
    """Returns a function that says about how many tokens a prompt has, and seldom too few, without a tokenizer."""
    return lambda prompt: math.ceil(len(prompt.text + prompt.prefix) / CHARACTERS_A_TOKEN)


def token_counter(config: ModelConfig) -> Callable[[Prompt], int]:
    """Returns a function that counts a prompt's tokens. Of a model of the Hub only its tokenizer is fetched.

    Raises ModelError if the tokenizer cannot be loaded.
    """
    tokenizer = read_tokenizer(config)
    return lambda prompt: len(encode(tokenizer, prompt))
