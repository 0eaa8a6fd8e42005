"""A decoder that was pickled for another process computes the same numbers from the same memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from redqueen.config import ModelConfig
from redqueen.engine.kernels.torch_ops import packed
from redqueen.engine.model.base import load
from redqueen.engine.model.decoder import FAMILIES
from redqueen.engine.tensor_memory import SharedBlock
from redqueen.engine.workers.worker import load_decoder, pickle_decoder
from tests.reference import logits


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_loaded_decoder_computes_the_same_from_the_same_memory(
    tiny_folder: Callable[[str], Path], family: str, dtype: str
) -> None:
    config = ModelConfig.model_validate(
        {"name": str(tiny_folder(family)), "dtype": dtype, "device": "cpu", "threads": 1, "workers": 2}
    )
    base = load(config)
    assert base.block is not None
    before = base.model(torch.tensor([[5, 6, 7]])).logits[0]
    (ours,) = logits(base.decoder, [[5, 6, 7]])
    torch.testing.assert_close(ours, before, atol=1e-4 if dtype == "float32" else 0.5, rtol=0)
    pickled = pickle_decoder(base.decoder, base.block)
    weights = sum(p.numel() * p.element_size() for p in base.model.parameters())
    assert len(pickled) < weights / 4, "places are pickled, not weights"
    other = load_decoder(pickled, SharedBlock(base.block.size, base.block.path))
    torch.testing.assert_close(logits(other, [[5, 6, 7]])[0], ours, atol=1e-6 if dtype == "float32" else 0.1, rtol=0)
    for mine, theirs in zip(base.decoder.sites, other.sites, strict=True):
        assert (mine.name, mine.projections) == (theirs.name, theirs.projections)
        assert mine.packed is None, "a process that shares its base computes nothing itself, so it packs no weights"
        assert (theirs.packed is None) == (packed(theirs.weight) is None)
    # The model's own layers are in this memory too: what is written through one is read through the others.
    name = base.decoder.layers[0].down.projections[0].name
    base.model.get_submodule(name).weight[0, 0] = 77.0
    assert other.layers[0].down.weight[0, 0] == base.decoder.layers[0].down.weight[0, 0] == 77
