"""The base model's forward pass over a flat batch of tokens, for sampling and for training alike.

A batch is one row a token, of any number of sequences, without padding; who attends to whom is the attention's
business. The weights are those of a transformers model, whose modules become views of the stacked ones here: nothing is
held twice, and the model still works by itself. Architectures: Llama, Mistral, Qwen2 and 2.5, Qwen3.

Shape suffixes: N rows (tokens), H hidden size, V vocabulary, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from redqueen.errors import AdapterError
from redqueen.policy.kernels.onednn import packed
from redqueen.policy.kernels.ops import Angles, Ops, ops_of
from redqueen.policy.lora.sites import Site
from redqueen.policy.lora.stacked_factors import Projection, RowAdapters

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
# rotary embeddings whose frequencies do not depend on the sequence
_ROPE = ("default", "linear", "llama3", "yarn")


class Attention(Protocol):
    """Who attends to whom in a batch. The keys are rotated already."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [N, heads, D], k and v [N, kv heads, D]; returns [N, heads, D]."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer block's weights."""

    qkv: Site
    o: Site
    gate_up: Site
    down: Site
    norm_in: Tensor
    norm_mlp: Tensor
    norm_q: Tensor | None
    norm_k: Tensor | None

    @property
    def sites(self) -> tuple[Site, Site, Site, Site]:
        return self.qkv, self.o, self.gate_up, self.down


@dataclass(frozen=True, slots=True)
class Decoder:
    """A frozen decoder-only transformer. `window` is the longest sequence that it computes rightly (0: any)."""

    embed_VH: Tensor
    head: Site
    norm_H: Tensor
    layers: tuple[Layer, ...]
    inv_freq: Tensor
    rope_scale: float
    heads: int
    kv_heads: int
    eps: float
    window: int

    @property
    def head_size(self) -> int:
        return 2 * len(self.inv_freq)

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(site for layer in self.layers for site in layer.sites)

    def hidden(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        attention: Attention,
        rows: RowAdapters | None = None,
        *,
        checkpointing: bool = False,
    ) -> Tensor:
        """The last hidden states [N, H], after the final norm. Where gradients are on they flow to the adapters."""
        x_NH = F.embedding(ids_N, self.embed_VH)
        if torch.is_grad_enabled():
            x_NH.requires_grad_()  # without any input that takes one, no layer would be asked for a gradient
        ops = ops_of(x_NH, self.angles(position_N), self.eps)
        x_NH, unit_NH = ops.norm(x_NH, None, self.layers[0].norm_in)
        for index in range(len(self.layers)):
            if checkpointing:
                x_NH, unit_NH = checkpoint(self._block_of, index, x_NH, ops, attention, rows, use_reentrant=False)
            else:
                x_NH, unit_NH = self._block(index, x_NH, unit_NH, ops, attention, rows)
        return unit_NH

    def angles(self, position_N: Tensor) -> Angles:
        """The rotary embeddings of these positions."""
        angle = torch.outer(position_N.float(), self.inv_freq)
        return Angles(angle.cos() * self.rope_scale, angle.sin() * self.rope_scale)

    def norm_after(self, index: int) -> Tensor:
        """The weight [H] of the norm that follows layer `index`."""
        return self.layers[index + 1].norm_in if index + 1 < len(self.layers) else self.norm_H

    def _block_of(
        self, index: int, x_NH: Tensor, ops: Ops, attention: Attention, rows: RowAdapters | None
    ) -> tuple[Tensor, Tensor]:
        """The same of the residual stream alone: all that a checkpoint should keep."""
        x_NH, unit_NH = ops.norm(x_NH, None, self.layers[index].norm_in)
        return self._block(index, x_NH, unit_NH, ops, attention, rows)

    def _block(
        self, index: int, x_NH: Tensor, unit_NH: Tensor, ops: Ops, attention: Attention, rows: RowAdapters | None
    ) -> tuple[Tensor, Tensor]:
        """The residual stream after layer `index`, and after the norm that follows; from both before it."""
        layer = self.layers[index]
        qkv_NHD = layer.qkv(unit_NH, rows).unflatten(1, (-1, self.head_size))
        mixed = attention(index, *ops.heads(qkv_NHD, self.kv_heads, layer.norm_q, layer.norm_k))
        x_NH, unit_NH = ops.norm(x_NH, layer.o(mixed.flatten(1), rows), layer.norm_mlp)
        gated_NF = ops.swiglu(layer.gate_up(unit_NH, rows))
        return ops.norm(x_NH, layer.down(gated_NF, rows), self.norm_after(index))


Keep = Callable[[Tensor], Tensor]


def decoder_of(model: Any, keep: Keep = lambda tensor: tensor, *, pack: bool = True) -> Decoder:
    """The decoder of a transformers causal LM, whose linear layers become views of the stacked weights.

    `keep` says where each weight is to lie, e.g. copies it into shared memory; `pack` makes the packed weights that
    sampling in this process wants.
    Raises AdapterError for an architecture that this forward pass does not compute.
    """
    config: Any = model.config
    if config.model_type not in FAMILIES:
        raise AdapterError(f"model family '{config.model_type}' is not supported: choose one of {', '.join(FAMILIES)}")
    rope: Any = model.model.rotary_emb
    if rope.rope_type not in _ROPE:
        raise AdapterError(f"rotary embeddings of type '{rope.rope_type}' are not supported: {', '.join(_ROPE)} are")
    if config.hidden_act != "silu":
        raise AdapterError(f"the activation '{config.hidden_act}' is not supported, only silu")
    layers: list[Layer] = []
    for index, block in enumerate(model.model.layers):
        name, attention = f"model.layers.{index}", block.self_attn
        layers.append(
            Layer(
                _stack(attention, f"{name}.self_attn", ("q_proj", "k_proj", "v_proj"), keep, pack),
                _stack(attention, f"{name}.self_attn", ("o_proj",), keep, pack),
                _stack(block.mlp, f"{name}.mlp", ("gate_proj", "up_proj"), keep, pack),
                _stack(block.mlp, f"{name}.mlp", ("down_proj",), keep, pack),
                _kept(block.input_layernorm, keep),
                _kept(block.post_attention_layernorm, keep),
                _kept(attention.q_norm, keep) if hasattr(attention, "q_norm") else None,
                _kept(attention.k_norm, keep) if hasattr(attention, "k_norm") else None,
            )
        )
    tied = model.lm_head.weight is model.model.embed_tokens.weight
    embed_VH = _kept(model.model.embed_tokens, keep)
    head_VH = embed_VH if tied else _kept(model.lm_head, keep)
    return Decoder(
        embed_VH,
        Site("lm_head", head_VH, None, (), packed(head_VH) if pack else None),
        _kept(model.model.norm, keep),
        tuple(layers),
        rope.inv_freq.float(),
        float(rope.attention_scaling),
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
        getattr(config, "sliding_window", None) or 0,
    )


def _kept(module: Any, keep: Keep) -> Tensor:
    module.weight.data = keep(module.weight.data)
    return module.weight.data


def _stack(module: nn.Module, prefix: str, names: Sequence[str], keep: Keep, pack: bool) -> Site:
    """One site from the linear layers `names` of `module`."""
    linears: list[Any] = [getattr(module, name) for name in names]
    weights = [linear.weight.data for linear in linears]
    weight = keep(torch.cat(weights) if len(weights) > 1 else weights[0])
    biases = [linear.bias.data for linear in linears if linear.bias is not None]
    bias = keep(torch.cat(biases)) if biases else None
    if biases and len(biases) < len(linears):
        raise AdapterError(f"{prefix}: a bias on some of {', '.join(names)} only is not supported")
    projections: list[Projection] = []
    start = 0
    for name, linear in zip(names, linears, strict=True):
        end = start + linear.out_features
        linear.weight.data = weight[start:end]
        if bias is not None:
            linear.bias.data = bias[start:end]
        projections.append(Projection(f"{prefix}.{name}", start, end))
        start = end
    return Site(f"{prefix}.{'+'.join(names)}", weight, bias, tuple(projections), packed(weight) if pack else None)
