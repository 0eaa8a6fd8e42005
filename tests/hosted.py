"""Tiny random models of families that transformers' own modules compute, and PEFT as their oracle."""

from __future__ import annotations

from typing import Any

import peft
import torch
from peft.utils import set_peft_model_state_dict
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.engine.lora.adapter_bank import AdapterBank

_COMMON = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
    # The usual 0.02 makes logits of so small a model too flat to tell two right ways from a wrong one.
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}
WINDOW = 6
_SLIDING: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
    "head_dim": 8,
    "tie_word_embeddings": True,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
_SMALL = {"query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0, "attn_logit_softcapping": 5.0}
_ROTARY = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
_LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "factor": 4.0,
}

# A decoder inside a model that also takes pictures, which members never see.
_WITH_PICTURES: dict[str, Any] = {
    "text_config": _COMMON | _SLIDING | {"model_type": "gemma3_text"},
    "vision_config": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    },
    "mm_tokens_per_image": 4,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2": ("gemma2", _SLIDING | _SMALL),
    "gemma3": ("gemma3_text", _SLIDING),
    "gemma3_pictures": ("gemma3", _WITH_PICTURES),
    "phi3": ("phi3", {"sliding_window": None}),
    "phi3_window": ("phi3", {"sliding_window": WINDOW}),
    "phi4": ("phi3", {"rope_parameters": _ROTARY, "num_key_value_heads": 1}),
    "phi3_long": ("phi3", {"rope_parameters": _LONG, "original_max_position_embeddings": 64}),
    "olmo2": ("olmo2", {}),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 0]}),
    "granite": ("granite", {"logits_scaling": 4.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}),
    "qwen3_moe": ("qwen3_moe", _EXPERTS),
    "llama": ("llama", {}),
    "qwen2": ("qwen2", {}),
}
"""The model type of each family and the options that show what is its own."""


def tiny_model(family: str, **options: Any) -> Any:
    """Returns a causal LM of a few thousand random weights in fp32, in eval mode."""
    model_type, own = FAMILIES[family]
    common = {} if "text_config" in own else _COMMON
    config = AutoConfig.for_model(model_type, **(common | own | options))
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(config)
    return model.eval().requires_grad_(False)


def peft_of(model: Any, bank: AdapterBank, member: str) -> Any:
    """Returns PEFT's model of `model` with `member`'s adapter, whose factors take gradients."""
    adapter = bank.read(member)
    rank = next(iter(adapter.values())).a.shape[1]
    config = peft.LoraConfig(r=rank, lora_alpha=bank.alpha, target_modules=list(bank.targets), task_type="CAUSAL_LM")
    wrapped: Any = peft.get_peft_model(model, config)
    state: dict[str, Tensor] = {}
    for name, factors in adapter.items():
        state[f"base_model.model.{name}.lora_A.weight"] = factors.a.T.contiguous()
        state[f"base_model.model.{name}.lora_B.weight"] = factors.b.T.contiguous()
    answer = set_peft_model_state_dict(wrapped, state)
    assert not answer.unexpected_keys
    return wrapped.eval()


def peft_gradient(wrapped: Any, bank: AdapterBank) -> Tensor:
    """Returns the gradients of PEFT's factors as a vector [P] of the bank."""
    from redqueen.engine.adapters import Factors

    gradients: dict[str, Factors] = {}
    for name in bank.places:
        layer = wrapped.base_model.model.get_submodule(name)
        gradients[name] = Factors(layer.lora_A.default.weight.grad.T, layer.lora_B.default.weight.grad.T)
    return bank.pack(gradients)
