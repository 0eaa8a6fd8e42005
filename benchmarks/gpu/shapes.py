"""A base of random weights with the shape of Qwen2.5-7B, and members on it: nothing has to be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from redqueen.config import LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.executor import InlineExecutor
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import Decoder, decoder_of
from redqueen.engine.policy import Policy
from redqueen.engine.sampling.continuous_batch import RowGroup
from redqueen.records import Sample


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a base and of its adapters."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    rank: int
    family: Literal["qwen2", "qwen3", "llama"] = "qwen2"
    """Those of Qwen2 have biases of q, k and v, those of Qwen3 norms of the heads of q and k."""

    def with_layers(self, layers: int) -> Shape:
        """Returns the same shape with another number of layers."""
        return replace(self, layers=layers)


SEVEN_B = Shape(layers=28, hidden=3584, intermediate=18944, heads=28, kv_heads=4, vocabulary=152064, rank=32)
"""Qwen2.5-7B, and the adapters of `paper_7b`."""
BUNDLED = Shape(layers=30, hidden=576, intermediate=1536, heads=9, kv_heads=3, vocabulary=49152, rank=8, family="llama")
"""The bundled model, and the adapters of `overnight`."""
TINY = Shape(layers=2, hidden=64, intermediate=96, heads=4, kv_heads=2, vocabulary=512, rank=8)
"""For a run of the same code that takes seconds on a CPU."""


def config_of(shape: Shape) -> PreTrainedConfig:
    """Returns the configuration of a base of that shape."""
    families: dict[str, Callable[..., PreTrainedConfig]] = {
        "qwen2": Qwen2Config,
        "qwen3": partial(Qwen3Config, head_dim=shape.hidden // shape.heads),
        "llama": LlamaConfig,
    }
    return families[shape.family](
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
    )


def random_model(shape: Shape, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Returns transformers' model of that shape; on the meta device it takes no memory."""
    torch.manual_seed(0)
    with device:
        model: Any = AutoModelForCausalLM.from_config(config_of(shape), dtype=dtype)
    return model.requires_grad_(False).eval()


def random_decoder(shape: Shape, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> Decoder:
    """Returns a base of that shape."""
    return decoder_of(random_model(shape, device, dtype), pack=False)


def random_members(decoder: Decoder, shape: Shape, count: int, std: float = 0.02) -> AdapterBank:
    """Returns a bank with the members "m0", "m1", ... in its slots, as after some training: no factor is zero."""
    bank = AdapterBank(decoder.sites, count, shape.rank, 2.0 * shape.rank, ModelConfig().targets)
    bank.masters.normal_(std=std)
    for slot in range(count):
        bank.slots[f"m{slot}"] = slot
    bank.free.clear()
    bank.refresh(*bank.slots)
    return bank


class Letters:
    """A tokenizer whose tokens are letters. Decoding costs about what it costs with a real one."""

    def __init__(self) -> None:
        self.backend_tokenizer = self
        self.eos_token_id = None
        self.chat_template = None

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Returns a letter for each token."""
        del skip_special_tokens
        return "".join(map(chr, ids))


def random_policy(
    decoder: Decoder, bank: AdapterBank, learning: LearningConfig, sampling: SamplingConfig | None = None
) -> Policy:
    """Returns a policy of the bank's members. No token ends a row, so every completion has its full length."""
    model: Any = type("Model", (), {"generation_config": type("Config", (), {"eos_token_id": None})})
    tokenizer: Any = Letters()
    base = Base("random weights", model, tokenizer, decoder.embed_VH.device, decoder)
    executor = InlineExecutor(base, bank)
    policy = Policy(base, bank, executor, sampling or SamplingConfig(), learning, 1.0)
    for member in bank.slots:
        policy.learner.load_state(member, {})
    return policy


def samples_of(groups: Sequence[RowGroup]) -> list[Sample]:
    """Returns the rows as samples, every second one bad."""
    samples: list[Sample] = []
    for group in groups:
        for row in group.rows:
            samples.append(
                Sample(
                    member=f"m{group.slot}",
                    prompt_ids=group.prompt_ids,
                    token_ids=tuple(row.token_ids),
                    logprobs=tuple(row.logprobs),
                    advantage=1.0 - 2 * (row.index % 2),
                )
            )
    return samples
