"""Other libraries that put adapters on a base: PEFT, and populora where it is installed. Base and factors are ours."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor

from benchmarks.system import BenchmarkConfig, quiet_base
from benchmarks.timing import Stopwatch, Timing
from redqueen.base.optional import how_to_install
from redqueen.config import LearningConfig
from redqueen.engine.adapters import Adapter

Attention = Literal["eager", "sdpa"]
ATTENTIONS: tuple[Attention, ...] = ("eager", "sdpa")


class Missing(Exception):  # noqa: N818 - not an error: a missing peer is a line in the report
    """A peer that cannot take part; the message says why, and what to install."""


def require(module: str) -> None:
    """Raises Missing if `module` is not installed."""
    if importlib.util.find_spec(module) is None:
        raise Missing(f"not installed: {how_to_install('bench')}")


def optional(module: str) -> Any:
    """Returns the module called `module`. Raises Missing if it is not installed."""
    require(module)
    return importlib.import_module(module)


def plain(config: BenchmarkConfig, attention: Attention = "sdpa") -> Any:
    """Returns the base alone, as transformers loads it."""
    model = quiet_base(config).model
    model.set_attn_implementation(attention)
    return model


def generate(model: Any, ids_RT: Tensor, new_tokens: int, **extra: Any) -> Timing:
    """Times transformers' `generate`: exactly `new_tokens` for each row, sampled at temperature 1."""
    # All contenders write the same number of tokens. `min_new_tokens` bars an early end, and top-k and top-p are off,
    # as in our sampler.
    with Stopwatch() as watch, torch.no_grad():
        out = model.generate(
            input_ids=ids_RT,
            attention_mask=torch.ones_like(ids_RT),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            **extra,
        )
    return Timing(watch.cpu_s, watch.wall_s, (out.shape[1] - ids_RT.shape[1]) * out.shape[0])


def faster_attention(model: Any, ids_RT: Tensor, new_tokens: int) -> Attention:
    """Returns the attention with which `generate` is faster for these rows, by two short turns each.

    Which one wins depends on rows and lengths, and a peer is measured at its best.
    """

    def seconds(kind: Attention) -> float:
        model.set_attn_implementation(kind)
        return min(generate(model, ids_RT, max(2, new_tokens // 8)).cpu_s for _ in range(2))

    return min(ATTENTIONS, key=seconds)


class Peft:
    """A base with one PEFT adapter for each of `adapters`, in the base's dtype."""

    def __init__(self, config: BenchmarkConfig, adapters: Mapping[str, Adapter]) -> None:
        lora_config = LoraConfig(
            r=config.rank,
            lora_alpha=config.rank,
            target_modules="all-linear",
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        # By default PEFT keeps adapters in fp32 and converts activations to it and back at every site. With adapters in
        # the base's dtype it is fastest, and a peer is measured at its best.
        names = list(adapters)
        with warnings.catch_warnings():
            # PEFT reads a name that transformers has renamed
            warnings.simplefilter("ignore", FutureWarning)
            self.model: Any = get_peft_model(plain(config), lora_config, names[0], autocast_adapter_dtype=False)
            for name in names[1:]:
                self.model.add_adapter(name, lora_config, autocast_adapter_dtype=False)
        inner = self.model.get_base_model()
        self.backbone = inner.base_model
        self.head_VH = inner.get_output_embeddings().weight
        # The peers start from our factors: the same products, and losses that can be compared.
        self.weights: list[torch.nn.Parameter] = []
        for name, adapter in adapters.items():
            for site, factors in adapter.items():
                layer = inner.get_submodule(site)
                self._fill(layer.lora_A[name].weight, factors.a)
                self._fill(layer.lora_B[name].weight, factors.b)
        self.trainable()
        self.optimizer = _adamw(self.weights)
        # PEFT refuses mixed batches in training mode; without dropout the modes compute the same.
        self.model.eval()

    def trainable(self) -> None:
        """Makes all adapters trainable, as a mixed batch needs them; PEFT freezes all but the active one."""
        for weight in self.weights:
            weight.requires_grad_(True)

    def _fill(self, weight: torch.nn.Parameter, factor: Tensor) -> None:
        with torch.no_grad():
            weight.copy_(factor.T)
        self.weights.append(weight)

    def attention(self, attention: Attention) -> None:
        """Chooses the attention of the base."""
        self.model.set_attn_implementation(attention)

    def mixed(self, members: Sequence[str], **inputs: Any) -> Any:
        """Returns the backbone's output, row i by adapter `members[i]`, through PEFT's hooks for mixed batches."""
        # PEFT offers mixed batches for inference only. Its public `forward` also computes logits of every token, which
        # no other contender does, so the hooks are set here.
        with self.model.base_model._enable_peft_forward_hooks(adapter_names=list(members)):
            return self.backbone(**inputs)


class Populora:
    """A base under populora's forward hooks, one individual for each of `adapters`.

    Raises Missing if populora is not installed.
    """

    def __init__(self, config: BenchmarkConfig, adapters: Mapping[str, Adapter]) -> None:
        library = optional("populora")
        self.model = plain(config)
        self.backbone = self.model.base_model
        self.head_VH = self.model.get_output_embeddings().weight
        # its factors are in the base's dtype, as PEFT's are: with fp32 ones it would convert at every site
        self.population: Any = library.Population(
            self.model,
            pop_size=len(adapters),
            low_rank=config.rank,
            lora_targets=list(next(iter(adapters.values()))),
            requires_grad=True,
            dtype=getattr(torch, config.dtype),
        )
        self.index = {name: i for i, name in enumerate(adapters)}
        down = self.population.weight_down
        up = self.population.weight_up
        with torch.no_grad():
            for name, adapter in adapters.items():
                # its keys are the sites' names, in the order given
                for key, factors in zip(down, adapter.values(), strict=True):
                    down[key][self.index[name]].copy_(factors.a)
                    up[key][self.index[name]].copy_(factors.b.T)
        self.optimizer = _adamw([*down.values(), *up.values()])

    def everyone(self) -> Any:
        """Routes a batch in which every individual has as many rows, in order of the individuals."""
        return self.population.route(all_individuals=True)

    def rows(self, members: Sequence[str]) -> Any:
        """Routes a batch whose row i belongs to `members[i]`."""
        return self.population.route(individuals=torch.tensor([self.index[m] for m in members]))


def _adamw(weights: list[torch.nn.Parameter]) -> torch.optim.AdamW:
    """Returns an optimizer with our learner's default settings."""
    learning = LearningConfig()
    return torch.optim.AdamW(
        weights, lr=learning.lr, betas=(learning.beta1, learning.beta2), weight_decay=0.0, fused=True
    )
