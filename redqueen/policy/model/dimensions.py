"""The sizes that memory depends on: of the base, without its weights, and of the texts that a run begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from redqueen import streams
from redqueen.config import Config, ModelConfig
from redqueen.errors import ModelError
from redqueen.game.prompts import prompts
from redqueen.game.seeds import AUTHOR, seeds
from redqueen.policy.model.base import location
from redqueen.policy.sampling.sampler import encode
from redqueen.records import Kind, Pair, Prompt, Task

_DRAWN, _LONG = 100, 0.95
_STACKED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")


@dataclass(frozen=True, slots=True)
class Shape:
    """A base's numbers. `weights` are all, `linear` those of its layers' products and the head, `stacked` those that
    are laid together (q, k and v; gate and up); `factors` is one member's weights at rank 1, `inner` the adapted layers
    of one block; `head_norms`: q and k have norms. `dtype` is that of its file.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    weights: int
    linear: int
    stacked: int
    factors: int
    inner: int
    head_norms: bool
    dtype: torch.dtype | None


def shape_of(config: ModelConfig, *, download: bool) -> Shape:
    """The shape of the base that `config.name` means. Without `download` only what is on this machine is looked at.

    Raises ModelError in one line.
    """
    try:
        shell: Any = AutoConfig.from_pretrained(location(config.name), local_files_only=not download)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(shell)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{config.name}': {str(error).splitlines()[0]}") from error
    linears = [(n.rpartition(".")[2], m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    adapted = [m for name, m in linears if name in config.targets]
    heads, hidden = int(shell.num_attention_heads), int(shell.hidden_size)
    return Shape(
        layers=int(shell.num_hidden_layers),
        hidden=hidden,
        intermediate=int(shell.intermediate_size),
        heads=heads,
        kv_heads=int(getattr(shell, "num_key_value_heads", None) or heads),
        head_size=int(getattr(shell, "head_dim", None) or hidden // heads),
        vocabulary=int(shell.vocab_size),
        weights=sum(p.numel() for p in model.parameters()),
        linear=sum(m.weight.numel() for _, m in linears),
        stacked=sum(m.weight.numel() for name, m in linears if name in _STACKED),
        factors=sum(m.in_features + m.out_features for m in adapted),
        inner=len(adapted) // int(shell.num_hidden_layers),
        head_norms=any(name.endswith("q_norm") for name, _ in model.named_modules()),
        dtype=shell.dtype,
    )


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest prompts of a batch, in tokens: a teacher's and a student's."""

    proposal: int
    attempt: int


def first_lengths(config: Config, *, download: bool) -> Lengths:
    """What the seed programs make: of each kind `_DRAWN` prompts as the first step draws them, of which 5 in 100 are
    longer than these.

    Outputs, which only the sandbox knows, are taken to be as long as inputs, and a task that a teacher wrote to be as
    long as the teacher's limit. Programs that grow in a run make longer prompts. Raises ModelError.
    """
    try:
        where = location(config.model.name)
        tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=not download)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{config.model.name}': {str(error).splitlines()[0]}") from error
    form, game = prompts(config.model.prompts, config.game), config.game
    proposals: list[int] = []
    attempts: list[int] = []

    def long(asked: Sequence[Prompt]) -> int:
        return sorted(len(encode(tokenizer, prompt)) for prompt in asked)[int(_LONG * len(asked))]

    for kind in game.kinds:
        rng, tasks = streams.python(config.run.seed, "lengths", kind), _tasks(kind)
        starts = [t for t in tasks if not game.start_lines or len(t.program.splitlines()) <= game.start_lines]
        drawn = [rng.sample(tasks, min(game.references, len(tasks))) for _ in range(_DRAWN)]
        proposals.append(
            long([form.propose(kind, own, rng.choice(starts) if kind == "code_f" else None) for own in drawn])
        )
        attempts.append(long([form.attempt(task, rng.sample(tasks, min(game.shots, len(tasks)))) for task in tasks]))
    return Lengths(max(proposals), max(*attempts, config.sampling.proposal_tokens))


def _tasks(kind: Kind) -> list[Task]:
    tasks: list[Task] = []
    for number, draft in enumerate(seeds()):
        pairs = tuple(Pair(text, text) for text in draft.inputs)
        own = pairs if kind == "code_f" else pairs[:1]
        tasks.append(
            Task(
                id=f"seed-{number}",
                kind=kind,
                author=AUTHOR,
                step=-1,
                program=draft.program,
                pairs=own,
                message=draft.message,
            )
        )
    return tasks
