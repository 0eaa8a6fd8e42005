"""Other people's ways to put adapters on a base: PEFT, and populora where it is installed. Same base, same factors."""

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
from redqueen.adapters.factors import Adapter
from redqueen.config import LearningConfig

Attention = Literal["eager", "sdpa"]
ATTENTIONS: tuple[Attention, ...] = ("eager", "sdpa")


class Missing(Exception):  # noqa: N818 - not an error: a peer that is not here is a line in the report
    """A peer that cannot take part; the message says why, and what to install."""


def require(module: str) -> None:
    """Raises Missing if `module` is not installed."""
    if importlib.util.find_spec(module) is None:
        raise Missing("not installed: pip install redqueen[bench]")


def optional(module: str) -> Any:
    """The module called `module`. Raises Missing if it is not installed."""
    require(module)
    return importlib.import_module(module)


def plain(config: BenchmarkConfig, attention: Attention = "sdpa") -> Any:
    """The base alone, as transformers loads it."""
    model = quiet_base(config).model
    model.set_attn_implementation(attention)
    return model


def generate(model: Any, ids_RT: Tensor, new_tokens: int, **extra: Any) -> Timing:
    """transformers' `generate`: exactly `new_tokens` for each row, sampled at temperature 1."""
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
    """What suits `generate` best with so many rows, by two short turns each."""

    def seconds(kind: Attention) -> float:
        model.set_attn_implementation(kind)
        return min(generate(model, ids_RT, max(2, new_tokens // 8)).cpu_s for _ in range(2))

    return min(ATTENTIONS, key=seconds)


class Peft:
    """A base with one PEFT adapter for each of `adapters`, in the base's dtype (PEFT's fastest config: by default it
    would keep adapters in fp32 and convert activations back and forth).
    """

    def __init__(self, config: BenchmarkConfig, adapters: Mapping[str, Adapter]) -> None:
        lora_config = LoraConfig(
            r=config.rank,
            lora_alpha=config.rank,
            target_modules=list(config.model_config.targets),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )
        names = list(adapters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT reads a name that transformers has renamed
            self.model: Any = get_peft_model(plain(config), lora_config, names[0], autocast_adapter_dtype=False)
            for name in names[1:]:
                self.model.add_adapter(name, lora_config, autocast_adapter_dtype=False)
        inner = self.model.get_base_model()
        self.backbone, self.head_VH = inner.base_model, inner.get_output_embeddings().weight
        self.weights: list[torch.nn.Parameter] = []
        for name, adapter in adapters.items():
            for site, factors in adapter.items():
                layer = inner.get_submodule(site)
                self._fill(layer.lora_A[name].weight, factors.a)
                self._fill(layer.lora_B[name].weight, factors.b)
        self.trainable()
        self.optimizer = _adamw(self.weights)
        self.model.eval()  # there is no dropout, and PEFT refuses mixed batches in training mode

    def trainable(self) -> None:
        """Makes all adapters trainable, for a mixed batch: PEFT leaves only the active one so."""
        for weight in self.weights:
            weight.requires_grad_(True)

    def _fill(self, weight: torch.nn.Parameter, factor: Tensor) -> None:
        with torch.no_grad():
            weight.copy_(factor.T)
        self.weights.append(weight)

    def attention(self, attention: Attention) -> None:
        self.model.set_attn_implementation(attention)

    def mixed(self, members: Sequence[str], **inputs: Any) -> Any:
        """The backbone's output, row i by adapter `members[i]`, through PEFT's hooks for mixed batches."""
        with self.model.base_model._enable_peft_forward_hooks(adapter_names=list(members)):
            return self.backbone(**inputs)


class Populora:
    """A base under populora's forward hooks, one individual for each of `adapters`. Raises Missing."""

    def __init__(self, config: BenchmarkConfig, adapters: Mapping[str, Adapter]) -> None:
        library = optional("populora")
        self.model = plain(config)
        self.backbone, self.head_VH = self.model.base_model, self.model.get_output_embeddings().weight
        self.population: Any = library.Population(
            self.model,
            pop_size=len(adapters),
            low_rank=config.rank,
            lora_targets=list(next(iter(adapters.values()))),
            requires_grad=True,
            dtype=getattr(torch, config.dtype),
        )
        self.index = {name: i for i, name in enumerate(adapters)}
        down, up = self.population.weight_down, self.population.weight_up
        with torch.no_grad():
            for name, adapter in adapters.items():
                # its keys are the sites' names, in the order given
                for key, factors in zip(down, adapter.values(), strict=True):
                    down[key][self.index[name]].copy_(factors.a)
                    up[key][self.index[name]].copy_(factors.b.T)
        self.optimizer = _adamw([*down.values(), *up.values()])

    def everyone(self) -> Any:
        """Routes a batch of as many rows for each individual, in order."""
        return self.population.route(all_individuals=True)

    def rows(self, members: Sequence[str]) -> Any:
        """Routes a batch whose row i belongs to `members[i]`."""
        return self.population.route(individuals=torch.tensor([self.index[m] for m in members]))


def _adamw(weights: list[torch.nn.Parameter]) -> torch.optim.AdamW:
    """As our learner's defaults."""
    learning = LearningConfig()
    return torch.optim.AdamW(
        weights, lr=learning.lr, betas=(learning.beta1, learning.beta2), weight_decay=0.0, fused=True
    )
