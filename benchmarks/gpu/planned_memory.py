"""The memory that `redqueen.engine.memory` plans for the work of a GPU day, to stand beside the peak that was there."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks.gpu.shapes import Shape, config_of
from redqueen.config import Config
from redqueen.config.recipes import recipe
from redqueen.engine.memory.estimate import (
    gradients_item,
    held_items,
    items,
    sampling_items,
    total,
    training_items,
)
from redqueen.engine.memory.fit import fit
from redqueen.engine.memory.machine import Demand, Machine
from redqueen.engine.model.dimensions import shape_in
from redqueen.records import PromptLengths

_MOMENTS = "members: AdamW moments"

# The longest prompts of `paper_7b`, counted with a tokenizer of Hugging Face.
_PROPOSAL = 1102
_ATTEMPT = 203


def lengths(proposal_tokens: int) -> PromptLengths:
    """Returns what `redqueen.method.prompt_lengths` returns for `paper_7b` with such a limit of proposals."""
    return PromptLengths(proposal=_PROPOSAL, attempt=max(_ATTEMPT, proposal_tokens))


class PlannedMemory:
    """Plans in bytes for one GPU, which need not be here. The games are those of `paper_7b`."""

    def __init__(self, shape: Shape, members: int) -> None:
        asked = recipe("paper_7b").override(["model.device=cuda", "model.dtype=bfloat16", "model.workers=1"])
        self.config = asked.with_values("model", rank=shape.rank)
        dimensions = shape_in(config_of(shape), asked.model.targets)
        self.machine = Machine(device=torch.device("cuda"), dtype=torch.bfloat16, workers=1, shape=dimensions)
        self.members = members

    def fitted(self, free: int) -> tuple[Config, int, int]:
        """Returns a run's batches on a GPU with so many free bytes, the room of a row, and the bytes that it needs."""
        prompts = lengths(self.config.sampling.proposal_tokens)
        found = fit(self.config, replace(self.machine, free=free), prompts, self.members)
        return found.config, found.demand.longest_text, total(items(found.demand))

    def sampling(self, rows: int, prompt: int, sampled: int, prefill: int, *, moments: bool = False) -> int:
        """Returns the plan for rows of `prompt` and `sampled` tokens, with or without AdamW's moments.

        Passes over prompts have up to `prefill` tokens.
        """
        demand = self._demand(prompt, prompt).with_values(
            "sampling", batch_rows=rows, proposal_tokens=sampled, attempt_tokens=sampled, prefill_tokens=prefill
        )
        return self._held(moments=moments) + total(sampling_items(demand))

    def training(self, tokens: int, *, checkpointing: bool, moments: bool) -> int:
        """Returns the plan for micro-batches of so many tokens, with or without AdamW's moments."""
        gradients = gradients_item(self._demand(1, 1))
        return self._held(moments=moments) + gradients.total + self.micro_batch(tokens, checkpointing=checkpointing)

    def micro_batch(self, tokens: int, *, checkpointing: bool) -> int:
        """Returns what is planned for one micro-batch alone."""
        # No text is longer than a micro-batch, and those of a group are as long as attempts of `paper_7b` on average.
        demand = self._demand(1, min(tokens, 300)).with_values("sampling", proposal_tokens=1)
        return total(training_items(demand.with_values("learning", batch_tokens=tokens, checkpointing=checkpointing)))

    def _demand(self, proposal: int, attempt: int) -> Demand:
        """Returns what the run asks for with prompts of these lengths."""
        return Demand.of(self.config, self.machine, PromptLengths(proposal=proposal, attempt=attempt), self.members)

    def _held(self, *, moments: bool) -> int:
        """Returns what is there all the time: the base and its members."""
        held = held_items(self._demand(1, 1))
        return total([item for item in held if moments or item.name != _MOMENTS])
