"""Which models can be a base, by their config.json alone: no weight is read, and no library that needs seconds.

Families that our own forward pass computes are in `redqueen.engine.model.decoder`. Every other causal decoder of
transformers is hosted. What is refused is refused here, with its reason and what is near.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redqueen.base.optional import is_installed, missing
from redqueen.config import ModelConfig
from redqueen.errors import ModelError

_NEAR = "choose a causal decoder, e.g. of Llama, Mistral, Qwen, Gemma, Phi, OLMo, SmolLM or Granite"
# fmt: off
_ENCODERS = frozenset(
    (
        "albert", "bart", "bert", "bigbird_pegasus", "blenderbot", "camembert", "deberta", "deberta-v2",
        "distilbert", "electra", "fsmt", "longformer", "led", "longt5", "m2m_100", "marian", "mbart",
        "modernbert", "mpnet", "mt5", "mvp", "pegasus", "plbart", "prophetnet", "roberta",
        "switch_transformers", "t5", "t5gemma", "umt5", "whisper", "xlm-roberta",
    )
)
# What these keep of a text is a state, and a batch cannot take states of rows of different lengths.
_STATES = frozenset(
    (
        "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "lfm2_moe",
        "mamba", "mamba2", "minimax", "nemotron_h", "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_text",
        "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2",
    )
)
# fmt: on
_CONVOLUTIONS = frozenset({"gpt2", "imagegpt", "openai-gpt"})
_ATTENTION = frozenset({"full_attention", "sliding_attention"})
_HEADS = ("Classification", "QuestionAnswering", "MaskedLM", "RewardModel", "MultipleChoice")
_QUANTIZED = {
    "gptq": "GPTQ",
    "awq": "AWQ",
    "fp8": "FP8",
    "fbgemm_fp8": "FP8",
    "compressed-tensors": "compressed-tensors",
    "mxfp4": "MXFP4",
    "hqq": "HQQ",
    "aqlm": "AQLM",
    "bitnet": "BitNet",
    "quanto": "Quanto",
    "modelopt": "ModelOpt",
    "auto-round": "AutoRound",
}
# What a tokenizer is read from; the second file alone says only how the first is used.
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
# The libraries whose quantised weights pass a gradient on, and the package's extras that install them.
_EXTRAS = {"bitsandbytes": "bnb", "torchao": "torchao"}
_LIBRARIES = {"nf4": "bitsandbytes", "int8": "bitsandbytes", "torchao_int8": "torchao", "torchao_fp8": "torchao"}


def hosted_positions(config: Any) -> int:
    """Returns the most tokens of a text that transformers' modules compute rightly, 0 if any number of them.

    `config` is a transformers configuration. LongRoPE has two sets of frequencies, and transformers chooses by the
    longest text of a batch: a short text would depend on its neighbours. So only texts for which it is the first set
    are allowed.
    """
    text = config.get_text_config()
    positions = int(getattr(text, "max_position_embeddings", None) or 0)
    rotary = getattr(text, "rope_parameters", None) or {}
    if rotary.get("rope_type") == "longrope":
        return int(rotary["original_max_position_embeddings"])
    return positions


def check_model(model: ModelConfig) -> None:
    """Raises ModelError or MissingLibraryError if what is on this machine shows that a base cannot be trained on.

    Only a folder's config.json is read; of a model of the Hub nothing is known here.
    """
    try:
        config: Any = json.loads((Path(model.name).expanduser() / "config.json").read_bytes())
    # The next reader of the file says what is wrong with it.
    except (OSError, ValueError):
        config = None
    if isinstance(config, dict):
        check_config(model.name, config)
        check_quantized(model, config)
    else:
        check_library(model.quantize)


def check_files(model: ModelConfig) -> None:
    """Raises ModelError if the base is a folder with a config.json that has no tokenizer or no weights."""
    folder = Path(model.name).expanduser()
    if not (folder / "config.json").is_file():
        return
    names = [file.name for file in folder.iterdir()]
    if not set(_TOKENIZERS) & set(names):
        raise ModelError(f"the folder {model.name} has no tokenizer: copy {' or '.join(_TOKENIZERS[:2])} into it")
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        raise ModelError(f"the folder {model.name} has no weights: neither *.safetensors nor pytorch_model.bin")


def check_quantized(model: ModelConfig, config: Mapping[str, Any]) -> None:
    """Raises ModelError if quantised weights are to be quantised again, MissingLibraryError without their library."""
    method = quantized_by(config)
    if method and model.quantize != "off":
        raise ModelError(f"{model.name} is quantised already, by {method}: leave out model.quantize")
    check_library(method or model.quantize, f"'{model.name}'" if method else "")


def check_library(kind: str, of_what: str = "") -> None:
    """Raises MissingLibraryError if the library is not installed that quantises so; `of_what` is what needs it."""
    library = _LIBRARIES.get(kind, kind)
    if library in _EXTRAS and not is_installed(library):
        raise missing(library, _EXTRAS[library], of_what or f"model.quantize={kind}")


def check_config(name: str, config: Mapping[str, Any]) -> None:
    """Raises ModelError, with what is near, if a model with this config.json cannot be a base."""
    if reason := refusal(config):
        raise ModelError(f"{name}: {reason}")


def refusal(config: Mapping[str, Any]) -> str:
    """Returns why a model with this config.json cannot be a base; empty if it is to be tried."""
    family = config.get("model_type")
    if not isinstance(family, str):
        return f"model family '{family}' is not supported: its config.json names no model_type that is text"
    named = f"model family '{family}' is not supported"
    if config.get("is_encoder_decoder") or family in _ENCODERS:
        return f"{named}: it has an encoder, and members continue texts: {_NEAR}"
    layers = config.get("layer_types")
    odd = sorted(set(layers) - _ATTENTION) if isinstance(layers, list) else []
    if family in _STATES or odd:
        what = f"layers of type {odd[0]}" if odd else "layers with a state"
        return f"{named}: it has {what}, and every layer must have attention over keys and values: {_NEAR}"
    if family in _CONVOLUTIONS:
        return f"{named}: its layers are Conv1D and not Linear: {_NEAR}"
    heads = [head for head in config.get("architectures") or () if isinstance(head, str)]
    if heads and all(any(kind in head for kind in _HEADS) for head in heads):
        return f"its head is {heads[0]}, which gives no next token: choose the model it was made from"
    return _quantized_refusal(config)


def _quantized_refusal(config: Mapping[str, Any]) -> str:
    """Returns why the quantised weights of a folder cannot be trained on; empty if they can, or are not quantised."""
    method = quantized_by(config)
    if not method or method in _EXTRAS:
        return ""
    return (
        f"its weights are quantised by {_QUANTIZED.get(method, method)}, whose products pass no gradient on: choose "
        "the model that it was made from, with model.quantize=nf4 or int8"
    )


def quantized_by(config: Mapping[str, Any]) -> str:
    """Returns what the weights of a folder are quantised by, e.g. bitsandbytes; empty if by nothing."""
    quantization = config.get("quantization_config")
    if not quantization:
        return ""
    return str(quantization.get("quant_method") or "bitsandbytes") if isinstance(quantization, Mapping) else "?"
