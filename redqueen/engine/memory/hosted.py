"""What hosted models need: transformers' modules are run on tensors without memory, and what they save is counted.

Shape suffixes: B sequences, T tokens.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from transformers import AutoModelForCausalLM

from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.dimensions import transformers_config
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.model.source import cannot_load
from redqueen.errors import UserError

# What exists beside saved tensors at the peak: results that no backward pass needs, gradients of one layer, dequantised
# weights of one layer. A margin, not a measurement.
_MARGIN = 1.3
# Where a family cannot be run without memory: numbers per token and layer, in multiples of the hidden size. About twice
# of what Llama saves.
_TYPICAL = 64

LOGITS_SCRATCH = 4 * 4
"""Bytes per logit of a chunk, besides the logits: in fp32, divided, normalised, and their gradient."""


@cache
def saved_per_token(name: str, targets: tuple[str, ...], rank: int, dtype: torch.dtype, length: int) -> int:
    """Returns how many bytes the model called `name` keeps for the backward pass of a token of a text of `length`.

    Raises ModelError if the model cannot be made.
    """
    shell = transformers_config(name)
    # Experts are multiplied in bf16 alone where tensors have no memory. Twice the bytes of bf16 are enough for fp32.
    for counted in (dtype, torch.bfloat16):
        if saved := _counted(name, shell, targets, rank, counted, length):
            return int(_MARGIN * saved * dtype.itemsize / counted.itemsize / length)
    text = shell.get_text_config()
    return _TYPICAL * int(text.hidden_size) * int(text.num_hidden_layers) * dtype.itemsize


def _counted(name: str, shell: Any, targets: tuple[str, ...], rank: int, dtype: torch.dtype, length: int) -> int:
    """Returns `saved_bytes` of the model that `shell` describes; 0 if it does not run without memory."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silent = log.disabled
    log.disabled = True
    try:
        # Fake tensors have shapes and no memory, and transformers takes them for a trace, in which it reads no number.
        with FakeTensorMode():
            try:
                model: Any = AutoModelForCausalLM.from_config(shell, dtype=dtype).eval().requires_grad_(False)
            except Exception as error:
                raise cannot_load(name, error) from error
            return saved_bytes(model, targets, rank, length)
    except UserError:
        raise
    # Some models read numbers in spite of that. What fails then is of many kinds, and a rule takes its place.
    except Exception:  # noqa: BLE001
        return 0
    finally:
        log.disabled = silent


def saved_bytes(model: Any, targets: tuple[str, ...], rank: int, length: int) -> int:
    """Returns the bytes that one pass over a text saves for its backward pass, without the weights."""
    decoder = HostedDecoder(model, check=False)
    bank = AdapterBank(decoder.sites, 1, rank, 1.0, targets)
    adapters = bank.rows([0], [length], bank.gradients())
    weights = {_memory_of(tensor) for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        # Tensors that share memory count once. They are kept here, so that no other takes a number that was counted.
        saved.setdefault(_memory_of(tensor), tensor)
        return tensor

    ids_BT = torch.zeros(1, length, dtype=torch.long)
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        decoder.run(adapters, input_ids=ids_BT, use_cache=False)
    return sum(tensor.untyped_storage().nbytes() for key, tensor in saved.items() if key not in weights)


def _memory_of(tensor: Any) -> int:
    """Returns a number that tensors share if they share memory. Those without memory have no address."""
    return tensor.untyped_storage()._cdata
