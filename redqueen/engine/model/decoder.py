"""The base model's forward pass over a flat batch of tokens, for sampling and for training.

A batch has one row per token, from any number of sequences, without padding; an `Attention` knows which rows see which.
The weights are those of a transformers model, whose modules become views of the stacked weights here: nothing is held
twice, and the model still works by itself. Architectures: Llama, Mistral, Qwen2 and 2.5, Qwen3.

Shape suffixes: N rows (tokens), H hidden size, V vocabulary, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from redqueen import plugins
from redqueen.engine.kernels import Kernels, Rotation
from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.kernels.torch_ops import HeadNorms, packed
from redqueen.engine.lora.sites import Projection, RowAdapters, Site
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.forward import MemberRows, TokenLogprobs
from redqueen.errors import ModelError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
# Types of rotary embeddings whose frequencies do not depend on the sequence.
_ROPE = ("default", "linear", "llama3", "yarn")


class Attention(Protocol):
    """Attention over one batch, which knows which rows see which. The keys are rotated already."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Returns the mixed values [N, heads, D] for q [N, heads, D], k and v [N, kv heads, D]."""
        ...


@runtime_checkable
class AttentionOfHeads(Protocol):
    """Attention that also norms and rotates the heads: in decoding one kernel does both and writes to the cache."""

    def of_heads(self, layer: int, qkv_NHD: Tensor, norms: HeadNorms | None, rotation: Rotation) -> Tensor:
        """Returns the mixed values [N, heads, D]; the arguments are those of `Kernels.heads`."""
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
    head_norms: HeadNorms | None

    @property
    def sites(self) -> tuple[Site, Site, Site, Site]:
        """The block's linear layers, in the order in which the forward pass uses them."""
        return self.qkv, self.o, self.gate_up, self.down


@dataclass(frozen=True, slots=True)
class Decoder:
    """A frozen decoder-only transformer (see `Forward`)."""

    embed_VH: Tensor
    head: Site
    norm_H: Tensor
    layers: tuple[Layer, ...]
    inv_freq: Tensor
    """Frequencies of the rotary embeddings [D/2], in fp32."""
    rope_scale: float
    heads: int
    kv_heads: int
    eps: float
    window: int
    """The longest sequence whose attention this forward pass computes exactly; 0: any."""

    @property
    def head_size(self) -> int:
        """D, the numbers in one head."""
        return 2 * len(self.inv_freq)

    @property
    def vocabulary(self) -> int:
        return len(self.head.weight)

    @property
    def hidden_size(self) -> int:
        return self.embed_VH.shape[1]

    @property
    def head_weights(self) -> int:
        return self.head.weights

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_VH.dtype

    @property
    def device(self) -> torch.device:
        return self.embed_VH.device

    @property
    def padded(self) -> bool:
        """Nothing is padded: continuations share the rows of their prompt."""
        return False

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of all layers, in order; the output matrix is not among them."""
        sites: list[Site] = []
        for layer in self.layers:
            sites.extend(layer.sites)
        return tuple(sites)

    def hidden(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        attention: Attention | AttentionOfHeads,
        adapters: RowAdapters | None = None,
        *,
        checkpointing: bool = False,
    ) -> Tensor:
        """Returns the last hidden states [N, H], after the final norm.

        If gradients are on, a backward pass adds the adapters' gradients to the tensors that `adapters` holds.
        """
        x_NH = F.embedding(ids_N, self.embed_VH)
        if torch.is_grad_enabled():
            # Autograd skips a layer unless an input requires grad, and the adapters' gradients are computed inside it.
            x_NH.requires_grad_()
        kernels = kernels_of(x_NH)
        # Angles depend on positions only, so they are prepared once for all layers.
        rotation = kernels.rotation(*self.angles(position_N), x_NH.dtype)
        batch = _Batch(kernels, rotation, attention, adapters)
        # A block returns the residual stream together with its norm for the next block: one kernel adds to the stream
        # and normalises it in a single pass over memory.
        x_NH, unit_NH = kernels.norm(x_NH, None, self.layers[0].norm_in, self.eps)
        for index in range(len(self.layers)):
            if checkpointing:
                x_NH, unit_NH = checkpoint(self._recomputed_block, index, x_NH, batch, use_reentrant=False)
            else:
                x_NH, unit_NH = self._block(index, x_NH, unit_NH, batch)
        return unit_NH

    def states(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        prefixes: Sequence[SharedPrefix],
        rows: MemberRows | None = None,
        *,
        checkpointing: bool = False,
    ) -> Tensor:
        adapters = rows([prefix.end - prefix.start for prefix in prefixes]) if rows else None
        attention = SharedPrefixAttention(prefixes, self.device)
        return self.hidden(ids_N, position_N, attention, adapters, checkpointing=checkpointing)

    def logits(self, hidden_NH: Tensor) -> Tensor:
        return self.head(hidden_NH)

    def score(self, hidden_SH: Tensor, target_S: Tensor, temperature: float) -> Tensor:
        return TokenLogprobs.apply(hidden_SH, self.head.weight, target_S, temperature)

    def angles(self, position_N: Tensor) -> Rotation:
        """Returns cos and sin [N, D/2] of these positions' rotary embeddings (Su et al. 2021), in fp32."""
        angle = torch.outer(position_N.float(), self.inv_freq)
        return angle.cos() * self.rope_scale, angle.sin() * self.rope_scale

    def norm_after(self, index: int) -> Tensor:
        """Returns the weight [H] of the norm that follows layer `index`."""
        return self.layers[index + 1].norm_in if index + 1 < len(self.layers) else self.norm_H

    def _recomputed_block(self, index: int, x_NH: Tensor, batch: _Batch) -> tuple[Tensor, Tensor]:
        """Does the same as `_block`, from the residual stream alone."""
        # A checkpoint keeps its inputs until the backward pass. Recomputing the norm makes the stream the only one.
        x_NH, unit_NH = batch.kernels.norm(x_NH, None, self.layers[index].norm_in, self.eps)
        return self._block(index, x_NH, unit_NH, batch)

    def _block(self, index: int, x_NH: Tensor, unit_NH: Tensor, batch: _Batch) -> tuple[Tensor, Tensor]:
        """Returns the residual stream and its norm after layer `index`, from those before it."""
        layer = self.layers[index]
        kernels, adapters = batch.kernels, batch.adapters
        qkv_NHD = layer.qkv(unit_NH, adapters).unflatten(1, (-1, self.head_size))
        if isinstance(batch.attention, AttentionOfHeads):
            mixed = batch.attention.of_heads(index, qkv_NHD, layer.head_norms, batch.rotation)
        else:
            qkv = kernels.heads(qkv_NHD, self.kv_heads, layer.head_norms, batch.rotation)
            mixed = batch.attention(index, *qkv)
        x_NH, unit_NH = kernels.norm(x_NH, layer.o(mixed.flatten(1), adapters), layer.norm_mlp, self.eps)
        gated_NF = kernels.swiglu(layer.gate_up(unit_NH, adapters))
        return kernels.norm(x_NH, layer.down(gated_NF, adapters), self.norm_after(index), self.eps)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What all layers of one forward pass share."""

    kernels: Kernels
    rotation: Rotation
    attention: Attention | AttentionOfHeads
    adapters: RowAdapters | None


Keep = Callable[[Tensor], Tensor]
"""Returns a weight at the place where it is to stay, e.g. a copy in shared memory."""


def decoder_of(model: Any, keep: Keep = lambda tensor: tensor, *, pack: bool = True) -> Decoder:
    """Returns the decoder of a transformers causal LM, whose linear layers become views of the stacked weights.

    `pack` also makes the packed weights, for sampling in this process.
    Raises ModelError if this forward pass does not compute the model's architecture.
    """
    config: Any = model.config
    if reason := unsuited(model):
        raise ModelError(reason)
    rope: Any = model.model.rotary_emb
    eps: float = config.rms_norm_eps
    layers = tuple(_layer(f"model.layers.{i}", block, keep, pack, eps) for i, block in enumerate(model.model.layers))
    # Tied weights have to stay one tensor: two calls of `keep` would copy the vocabulary matrix twice.
    tied = model.lm_head.weight is model.model.embed_tokens.weight
    embed_VH = _kept(model.model.embed_tokens, keep)
    head_VH = embed_VH if tied else _kept(model.lm_head, keep)
    return Decoder(
        embed_VH=embed_VH,
        head=Site("lm_head", head_VH, None, (), packed(head_VH) if pack else None),
        norm_H=_kept(model.model.norm, keep),
        layers=layers,
        inv_freq=rope.inv_freq.float(),
        rope_scale=float(rope.attention_scaling),
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        eps=eps,
        window=getattr(config, "sliding_window", None) or 0,
    )


def unsuited(model: Any) -> str:
    """Returns what of a transformers causal LM this forward pass does not compute; empty if it computes all."""
    config: Any = model.config
    families = (*FAMILIES, *plugins.names("model family"))
    if config.model_type not in families:
        return f"model family '{config.model_type}' is not supported: choose one of {', '.join(families)}"
    rope = model.model.rotary_emb.rope_type
    if rope not in _ROPE:
        return f"rotary embeddings of type '{rope}' are not supported: {', '.join(_ROPE)} are"
    if config.hidden_act != "silu":
        return f"the activation '{config.hidden_act}' is not supported, only silu"
    return ""


def _layer(name: str, block: Any, keep: Keep, pack: bool, eps: float) -> Layer:
    """Returns the weights of the transformers block called `name`; `eps` is that of its norms."""
    attention = block.self_attn
    has_norms = hasattr(attention, "q_norm")
    return Layer(
        qkv=_stack(attention, f"{name}.self_attn", ("q_proj", "k_proj", "v_proj"), keep, pack),
        o=_stack(attention, f"{name}.self_attn", ("o_proj",), keep, pack),
        gate_up=_stack(block.mlp, f"{name}.mlp", ("gate_proj", "up_proj"), keep, pack),
        down=_stack(block.mlp, f"{name}.mlp", ("down_proj",), keep, pack),
        norm_in=_kept(block.input_layernorm, keep),
        norm_mlp=_kept(block.post_attention_layernorm, keep),
        head_norms=HeadNorms(_kept(attention.q_norm, keep), _kept(attention.k_norm, keep), eps) if has_norms else None,
    )


def _kept(module: Any, keep: Keep) -> Tensor:
    """Moves a module's weight to where `keep` wants it; the module then reads it there."""
    module.weight.data = keep(module.weight.data)
    return module.weight.data


def _stack(module: nn.Module, prefix: str, names: Sequence[str], keep: Keep, pack: bool) -> Site:
    """Returns one site for the linear layers `names` of `module`.

    Raises ModelError if only some of them have a bias.
    """
    linears: list[Any] = [getattr(module, name) for name in names]
    weights = [linear.weight.data for linear in linears]
    # One stacked weight turns the layers over one input into one product. A single layer is used where it lies.
    weight = keep(torch.cat(weights) if len(weights) > 1 else weights[0])
    biases = [linear.bias.data for linear in linears if linear.bias is not None]
    bias = keep(torch.cat(biases)) if biases else None
    if biases and len(biases) < len(linears):
        raise ModelError(f"{prefix}: a bias on some of {', '.join(names)} only is not supported")
    projections: list[Projection] = []
    start = 0
    for name, linear in zip(names, linears, strict=True):
        # The layer's module becomes a view of the stack. Its old tensor is freed with the last reference to it.
        end = start + linear.out_features
        linear.weight.data = weight[start:end]
        if bias is not None:
            linear.bias.data = bias[start:end]
        projections.append(Projection(f"{prefix}.{name}", start, end))
        start = end
    return Site(f"{prefix}.{'+'.join(names)}", weight, bias, tuple(projections), packed(weight) if pack else None)
