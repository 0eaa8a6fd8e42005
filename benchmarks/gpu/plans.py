"""What fits on which GPU: the batches that `redqueen.policy.memory` plans for bases of three sizes. None is needed."""

from __future__ import annotations

from typing import Any
from unittest import mock

from transformers import Qwen2Config

from redqueen.config import Config
from redqueen.errors import ModelError
from redqueen.policy.memory import fit as fitting
from redqueen.policy.memory.estimate import items, total
from redqueen.policy.memory.fit import fit, memory_of_a_gpu
from redqueen.policy.model.dimensions import Shape, shape_in
from redqueen.recipes import recipe
from redqueen.records import PromptLengths
from redqueen.train import capacity

# The shapes of Qwen2.5's bases: hidden size, layers, heads, kv heads, intermediate size.
BASES = {
    "7B": (3584, 28, 28, 4, 18944),
    "14B": (5120, 48, 40, 8, 13824),
    "32B": (5120, 64, 40, 8, 27648),
}
CARDS = (24, 48, 80, 141)
"""GPUs by their memory in GB, of which about 2 % are never free."""
LENGTHS = PromptLengths(proposal=1102, attempt=203)
"""The longest prompts of `paper_7b`, counted with a tokenizer of Hugging Face."""
_FREE = 0.98


def shape(name: str) -> Shape:
    """Returns the dimensions of a base of Qwen2.5."""
    hidden, layers, heads, kv_heads, intermediate = BASES[name]
    shell = Qwen2Config(
        vocab_size=152064,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        tie_word_embeddings=False,
    )
    return shape_in(shell, recipe("paper_7b").model.targets)


def table() -> list[dict[str, Any]]:
    """Returns a row for each base and card: the plan of `paper_7b` and what it needs, or of a smaller rank."""
    asked = recipe("paper_7b").override(["model.device=cuda", "model.dtype=bfloat16"])
    rows: list[dict[str, Any]] = []
    for name in BASES:
        dimensions = shape(name)
        for card in CARDS:
            found = [_row(asked.override([f"model.rank={rank}"]), dimensions, card) for rank in (32, 16, 8)]
            fits = [row for row in found if row]
            rows.append({"base": name, "card": card, **(fits[0] if fits else {"rank": None})})
    return rows


def _row(config: Config, dimensions: Shape, card: int) -> dict[str, Any]:
    """Returns the plan for one base on one card; nothing if it does not fit."""
    memory = memory_of_a_gpu(int(card * 1e9 * _FREE))
    count = capacity(config)
    with mock.patch.object(fitting, "shape_of", return_value=dimensions):
        try:
            plan = fit(config, LENGTHS, count, memory)
        except ModelError:
            return {}
    batches = plan.config
    return {
        "rank": config.model.rank,
        "rows": batches.sampling.batch_rows,
        "prefill": batches.sampling.prefill_tokens,
        "batch_tokens": batches.learning.batch_tokens,
        "recomputes": batches.learning.checkpointing,
        "needs_gb": round(total(items(batches, dimensions, LENGTHS, count, memory.device)) / 1e9, 1),
        "at_most": not plan.warning,
    }
