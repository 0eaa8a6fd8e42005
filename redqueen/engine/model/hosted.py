"""The forward pass of any causal decoder of transformers, with members' updates added in its linear layers.

transformers' own modules compute everything else, so this pass is right wherever they are, and slower than our own:
every continuation is computed with its prompt, padded to the longest of the batch.

Shape suffixes: N rows of the flat batch, B sequences, T tokens of the longest, C rows of a chunk, S scored tokens, H
hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput

from redqueen.engine.kernels.dispatch import kernels_of
from redqueen.engine.lora.products import HostedLinear
from redqueen.engine.lora.sites import RowAdapters
from redqueen.engine.model import hosted_positions
from redqueen.engine.model.attention import SharedPrefix
from redqueen.engine.model.forward import MemberRows
from redqueen.engine.model.quantized import rounds_inputs
from redqueen.engine.tensor_memory import to_device
from redqueen.errors import ModelError

# Parts of a layer's name that are no linear layer of every token: what routes tokens to experts, and experts.
_ROUTING = frozenset({"gate", "router", "shared_expert_gate", "experts"})
# How far the parts of a pass and the whole one may differ, as a share of the largest logit.
_TOLERANCE = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
_COARSE = 0.3
_PROBE = 6


class HostedDecoder:
    """A frozen transformers model whose linear layers add the updates of a batch's members (see `Forward`)."""

    padded = True

    def __init__(self, model: Any, *, check: bool = True) -> None:
        """`model` is a causal LM in eval mode. Only a model that has memory can be checked.

        Raises ModelError if it has no linear layers to adapt, or if its parts do not compute what the whole one does.
        """
        self.model = model
        self.text: Any = model.get_decoder()
        embedding: Any = model.get_input_embeddings()
        self.dtype: torch.dtype = embedding.weight.dtype
        self.device: torch.device = embedding.weight.device
        head: Any = model.get_output_embeddings()
        self.vocabulary = int(head.out_features)
        self.hidden_size = int(head.in_features)
        self.head_weights = self.vocabulary * self.hidden_size
        # Masks of sliding windows are transformers' own, so that any length is right that its positions reach.
        self.window = hosted_positions(model.config)
        self._head = _without(model, self.text)
        # The adapters of the batch that is being computed. Otherwise the model is the base alone.
        self._adapters: RowAdapters | None = None
        self._checkpointing = False

        embedding.register_forward_hook(_require_grad)
        sites: list[HostedLinear] = []
        for name, module in adaptable(model):
            site = HostedLinear(name, int(module.in_features), int(module.out_features), self.dtype, self.device)
            module.register_forward_hook(self._hook(site))
            sites.append(site)
        self.sites = tuple(sites)
        if not sites:
            raise ModelError(
                f"model family '{model.config.model_type}' has no linear layers that adapters could change"
            )
        for module in self.text.modules():
            # Loaded here: a second that a plan, which imports this module, does without.
            if isinstance(module, transformers.GradientCheckpointingLayer):
                self._recompute(module)
        if check:
            try:
                self._check()
            # What modules of a family raise that takes or gives other things.
            except (AttributeError, LookupError, NotImplementedError, TypeError, ValueError) as error:
                family = model.config.model_type
                raise ModelError(
                    f"model family '{family}' is not supported: {type(error).__name__}: {error}"
                ) from error

    def states(
        self,
        ids_N: Tensor,
        position_N: Tensor,
        prefixes: Sequence[SharedPrefix],
        rows: MemberRows | None = None,
        *,
        checkpointing: bool = False,
    ) -> Tensor:
        # Positions follow from the sequences' order.
        del position_N
        padded = _padded(prefixes, self.device)
        length = padded.row_BT.shape[1]
        self._checkpointing = checkpointing
        adapters = rows([length * count for count in padded.sequences]) if rows else None
        hidden_BTH = self.run(adapters, input_ids=ids_N[padded.row_BT], use_cache=False)
        return kernels_of(hidden_BTH).take(hidden_BTH.flatten(0, 1), padded.place_N)

    def run(self, adapters: RowAdapters | None, **inputs: Any) -> Tensor:
        """Returns the last hidden states [B, T, H] of what transformers' text model computes from `inputs`."""
        with self._applying(adapters):
            return self.text(**inputs).last_hidden_state

    @contextmanager
    def _applying(self, adapters: RowAdapters | None) -> Generator[None]:
        """Lets the layers add the updates of `adapters` meanwhile."""
        before = self._adapters
        self._adapters = adapters
        try:
            yield
        finally:
            self._adapters = before

    def logits(self, hidden_NH: Tensor) -> Tensor:
        """Returns the logits [N, V] of hidden states, as the model defines them: with caps and scales."""
        return self._head(inputs_embeds=hidden_NH[None], use_cache=False).logits[0]

    def score(self, hidden_SH: Tensor, target_S: Tensor, temperature: float) -> Tensor:
        return _Scores.apply(hidden_SH, self.logits, target_S, temperature)

    def _hook(self, site: HostedLinear) -> Callable[..., Tensor | None]:
        """Returns what adds the current batch's updates to the output of a layer."""

        def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            del module
            return site.update(inputs[0], output, self._adapters) if self._adapters else None

        return add

    def _recompute(self, layer: Any) -> None:
        """Lets a layer be recomputed in the backward pass where checkpointing is asked for."""
        # transformers recomputes in training mode only, in which some models would drop numbers at random.
        forward = layer.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            if not self._checkpointing or not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            adapters = self._adapters

            def compute(*args: Any, **kwargs: Any) -> Any:
                # In the backward pass the batch's own pass has ended.
                with self._applying(adapters):
                    return forward(*args, **kwargs)

            return checkpoint(compute, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

        layer.forward = run

    @torch.no_grad()
    def _check(self) -> None:
        """Raises ModelError unless each site is given every token, and states and logits compose to the whole pass."""
        calls: dict[str, int] = {}
        hooks: list[Any] = []
        for site in self.sites:

            def count(module: Any, inputs: tuple[Tensor, ...], output: Any, site: HostedLinear = site) -> None:
                del module, output
                calls[site.name] = inputs[0].numel() // site.fan_in

            hooks.append(self.model.get_submodule(site.name).register_forward_hook(count))
        ids_T = torch.arange(_PROBE, device=self.device) % self.vocabulary
        ours_TV = self.logits(self.states(ids_T, ids_T, [SharedPrefix(0, _PROBE)]))
        for hook in hooks:
            hook.remove()
        family = self.model.config.model_type
        odd = [site.name for site in self.sites if calls.get(site.name) != _PROBE]
        if odd:
            raise ModelError(f"model family '{family}' cannot be adapted: {odd[0]} does not compute every token")
        whole_TV = self.model(input_ids=ids_T[None], use_cache=False).logits[0]
        bound = float(whole_TV.abs().max()) * (_COARSE if rounds_inputs(self.model) else _TOLERANCE[self.dtype])
        # A comparison with NaN is false, so that NaN is refused as well.
        if not (ours_TV - whole_TV).abs().max() <= bound:
            raise ModelError(f"model family '{family}' is not supported: its parts do not compute what the whole does")
        if not (self._decoded(ids_T) - whole_TV[-1]).abs().max() <= bound:
            raise ModelError(
                f"model family '{family}' is not supported: it keeps more of a text than keys and values, so that its "
                "texts cannot be sampled in one batch"
            )

    def _decoded(self, ids_T: Tensor) -> Tensor:
        """Returns the last token's logits [V], from a cache of the others, which begin with a place that is hidden."""
        cache = transformers.DynamicCache()
        position_T = torch.arange(-1, _PROBE, device=self.device).clamp(min=0)
        seen_T = torch.ones_like(position_T)
        seen_T[0] = 0
        padded_T = torch.cat([ids_T[-1:], ids_T])
        for span in (slice(0, _PROBE), slice(_PROBE, None)):
            hidden_1TH = self.run(
                None,
                input_ids=padded_T[None, span],
                attention_mask=seen_T[None, : span.stop],
                position_ids=position_T[None, span],
                past_key_values=cache,
                use_cache=True,
            )
        return self.logits(hidden_1TH[0, -1:])[0]


def adaptable(model: Any) -> list[tuple[str, Any]]:
    """Returns the linear layers that adapters can change, by name: those of the decoder's blocks, without routers."""
    text: Any = model.get_decoder()
    start = next(name for name, module in model.named_modules() if module is text)
    count = int(model.config.get_text_config().num_hidden_layers)
    layers: list[tuple[str, Any]] = []
    for list_name, blocks in text.named_modules():
        if not isinstance(blocks, nn.ModuleList) or len(blocks) != count or "." in list_name:
            continue
        for name, module in blocks.named_modules():
            if is_linear(module) and not _ROUTING.intersection(name.split(".")):
                layers.append((f"{start}.{list_name}.{name}", module))
    return layers


def is_linear(module: Any) -> bool:
    """Returns whether a module is a linear layer, of torch or of a library that quantises."""
    sizes = (getattr(module, "in_features", None), getattr(module, "out_features", None))
    return all(isinstance(size, int) for size in sizes)


class _Padded(NamedTuple):
    """The sequences of a flat batch, each a prompt with one continuation, padded at their ends."""

    row_BT: Tensor
    """The flat batch's row at each place; any row at a place behind the end, which no other place sees."""
    place_N: Tensor
    """A place, of all B x T, at which each row is."""
    sequences: list[int]
    """How many sequences each prefix has."""


def _padded(prefixes: Iterable[SharedPrefix], device: torch.device) -> _Padded:
    """Returns where the rows of these prefixes are in a padded batch."""
    sequences: list[list[int]] = []
    counts: list[int] = []
    for prefix in prefixes:
        prompt = range(prefix.start, prefix.start + prefix.prompt)
        start = prompt.stop
        for length in prefix.suffix_lengths or (0,):
            sequences.append([*prompt, *range(start, start + length)])
            start += length
        counts.append(max(1, len(prefix.suffix_lengths)))
    longest = max(map(len, sequences))
    places: dict[int, int] = {}
    for index, rows in enumerate(sequences):
        for at, row in enumerate(rows):
            # A prompt's rows are computed once for each continuation, all alike; the first ones are read.
            places.setdefault(row, index * longest + at)
    row_BT = torch.tensor([rows + rows[:1] * (longest - len(rows)) for rows in sequences])
    place_N = torch.tensor([places[row] for row in range(len(places))])
    return _Padded(to_device(row_BT, device), to_device(place_N, device), counts)


@dataclass
class _States(ModelOutput):
    """What text models return, with all fields that some family's head reads."""

    last_hidden_state: Tensor
    past_key_values: None = None
    hidden_states: None = None
    attentions: None = None
    cross_attentions: None = None
    router_logits: None = None


class _StateSource(nn.Module):
    """Takes the place of a text model, and returns the states that it is given."""

    def forward(self, *others: Any, inputs_embeds: Tensor, **named: Any) -> _States:
        del others, named
        return _States(inputs_embeds)


def _without(model: Any, text: Any) -> Any:
    """Returns a copy of `model` that shares its modules and takes hidden states in place of the text model's.

    What a model does between hidden states and logits differs by family; this way its own code does it.
    """
    path = next(name for name, module in model.named_modules() if module is text).split(".")
    copied = _shallow(model)
    parent = copied
    for name in path[:-1]:
        child = _shallow(parent.get_submodule(name))
        setattr(parent, name, child)
        parent = child
    setattr(parent, path[-1], _StateSource())
    return copied


def _shallow(module: Any) -> Any:
    """Returns a copy of a module that shares its children, but not the list of them."""
    copied = copy.copy(module)
    copied.__dict__["_modules"] = dict(module._modules)
    return copied


def _require_grad(module: nn.Module, inputs: Any, output: Tensor) -> None:
    """Lets the output of a frozen embedding require a gradient."""
    # Autograd skips a layer unless an input requires grad, and the adapters' gradients are computed inside it.
    del module, inputs
    if torch.is_grad_enabled():
        output.requires_grad_()


class _Scores(torch.autograd.Function):
    """Computes log p(target | hidden) in chunks, so that no tensor of [S, V] exists, and keeps its gradient [S, H]."""

    @staticmethod
    def forward(
        ctx: Any, hidden_SH: Tensor, logits: Callable[[Tensor], Tensor], target_S: Tensor, temperature: float
    ) -> Tensor:
        logp_S = hidden_SH.new_empty(len(target_S), dtype=torch.float32)
        slope_SH = torch.empty_like(hidden_SH)
        rows = kernels_of(hidden_SH).logit_rows
        for start in range(0, len(target_S), rows):
            chunk = slice(start, start + rows)
            with torch.enable_grad():
                hidden_CH = hidden_SH[chunk].detach().requires_grad_()
                logp_CV = (logits(hidden_CH).float() / temperature).log_softmax(-1)
                logp_C = logp_CV.gather(1, target_S[chunk, None])[:, 0]
                (slope_SH[chunk],) = torch.autograd.grad(logp_C.sum(), hidden_CH)
            logp_S[chunk] = logp_C.detach()
        ctx.save_for_backward(slope_SH)
        return logp_S

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope_SH,) = ctx.saved_tensors
        return (grads[0][:, None] * slope_SH).to(slope_SH.dtype), None, None, None
