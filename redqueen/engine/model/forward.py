"""The protocol of a base's forward pass, which sampling, training and the adapter bank use.

Two implementations fill it: `redqueen.engine.model.decoder.Decoder`, our own pass for four families, and
`redqueen.engine.model.hosted.HostedDecoder`, which runs transformers' modules of any other.

Shape suffixes: N rows (tokens), S scored tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.lora.products import AdaptedSite
from redqueen.engine.lora.sites import RowAdapters
from redqueen.engine.model.attention import SharedPrefix

MemberRows = Callable[[Sequence[int]], RowAdapters]
"""Returns the adapters of a batch in which the tokens of prefix i take so many rows. A forward pass that pads calls it
with more rows than there are tokens."""


class Forward(Protocol):
    """A frozen decoder, with members' low-rank updates in its linear layers."""

    @property
    def sites(self) -> Sequence[AdaptedSite]:
        """The linear layers that can be adapted."""
        ...

    @property
    def window(self) -> int:
        """The longest text that is computed as the base defines it; 0: any."""
        ...

    @property
    def vocabulary(self) -> int:
        """V, the number of logits."""
        ...

    @property
    def hidden_size(self) -> int:
        """H."""
        ...

    @property
    def head_weights(self) -> int:
        """The number of weights of the output matrix."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the hidden states."""
        ...

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        ...

    @property
    def padded(self) -> bool:
        """Whether each continuation is computed with its prompt, all padded to the longest."""
        ...

    def states(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        prefixes: Sequence[SharedPrefix],
        rows: MemberRows | None = None,
        *,
        checkpointing: bool = False,
    ) -> Tensor:
        """Returns the last hidden states [N, H] of a flat batch, after the final norm.

        If gradients are on, a backward pass adds the members' gradients to the tensors that `rows` names.
        """
        ...

    def logits(self, hidden_NH: Tensor) -> Tensor:
        """Returns the logits [N, V] of hidden states, without a gradient."""
        ...

    def score(self, hidden_SH: Tensor, target_S: Tensor, temperature: float) -> Tensor:
        """Returns the log-probabilities [S] of tokens, in fp32, with a gradient for the hidden states."""
        ...


# Log-probabilities of tokens, computed in chunks so that no tensor of [tokens, vocabulary] exists.
#
# Shape suffixes: N scored tokens, H hidden size, V vocabulary.


class TokenLogprobs(torch.autograd.Function):
    """Computes log p(target | hidden) under a frozen output matrix.

    The forward pass keeps d logp / d hidden. That costs [N, H] and saves the second product with the vocabulary matrix
    that recomputing would need.
    """

    @staticmethod
    def forward(ctx: Any, hidden_NH: Tensor, weight_VH: Tensor, target_N: Tensor, temperature: float) -> Tensor:
        kernels = kernels_of(weight_VH)
        logp_N = hidden_NH.new_empty(len(target_N), dtype=torch.float32)
        slope_NH = torch.empty_like(hidden_NH)
        rows = min(kernels.logit_rows, len(target_N))
        memory = kernels.score_memory(weight_VH, rows)
        for start in range(0, len(target_N), kernels.logit_rows):
            chunk = slice(start, start + kernels.logit_rows)
            kernels.score_(
                hidden_NH[chunk], weight_VH, target_N[chunk], temperature, logp_N[chunk], slope_NH[chunk], memory
            )
        ctx.save_for_backward(slope_NH)
        return logp_N

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope_NH,) = ctx.saved_tensors
        return (grads[0][:, None] * slope_NH).to(slope_NH.dtype), None, None, None
