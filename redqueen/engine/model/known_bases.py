"""Sizes of the recipes' bases, so that a run on them can be planned where neither the base nor a network is.

They are those of each model's config.json on the Hugging Face Hub, and of table 1 of the Qwen2.5-Coder technical report
(Hui et al. 2024, arXiv:2409.12186).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownBase:
    """The sizes of a base of the family qwen2."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    """Whether the output matrix is the embedding."""


_SIZES = {
    "0.5B": KnownBase(896, 4864, 24, 14, 2, 151936, tied=True),
    "1.5B": KnownBase(1536, 8960, 28, 12, 2, 151936, tied=True),
    "3B": KnownBase(2048, 11008, 36, 16, 2, 151936, tied=True),
    "7B": KnownBase(3584, 18944, 28, 28, 4, 152064, tied=False),
    "14B": KnownBase(5120, 13824, 48, 40, 8, 152064, tied=False),
    "32B": KnownBase(5120, 27648, 64, 40, 8, 152064, tied=False),
}
KNOWN = {f"Qwen/Qwen2.5-Coder-{size}{tuning}": base for size, base in _SIZES.items() for tuning in ("", "-Instruct")}
"""Bases by their id on the Hub."""

# A lower bound for tokenizers of 150,000 tokens: the shipped one of 49,152 makes of the recipes' prompts a token of 2.3
# to 2.6 characters (`tests/engine/model/test_known_bases.py`).
CHARACTERS_A_TOKEN = 2.3
"""Characters of a prompt that are taken to be one token where no tokenizer is at hand."""


def known_base(name: str) -> KnownBase | None:
    """Returns the sizes of the base called `name`; None if it is none of these, or a folder here."""
    return None if Path(name).expanduser().is_dir() else KNOWN.get(name)
