"""Writes a base with an adapter added to its weights: a plain model folder that needs no PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen.adapters.factors import Adapter
from redqueen.errors import AdapterError, ModelError
from redqueen.policy.model.base import location
from redqueen.policy.model.quantized import is_quantized


def write_merged(folder: Path, name: str, adapter: Adapter, scale: float) -> torch.dtype:
    """Writes the base called `name` with `scale` times the adapter's product added, and its tokenizer.

    Returns the dtype of the file, which is the one that the base is stored in.
    Raises ModelError if the base cannot be loaded, AdapterError if the adapter does not fit it, OSError if the folder
    cannot be written.
    """
    where = location(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        model: Any = AutoModelForCausalLM.from_pretrained(where, dtype="auto")
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{name}': {str(error).splitlines()[0]}") from error
    if is_quantized(model):
        raise ModelError(f"'{name}' is quantised, and a sum would have to be rounded again: merge into its original")
    modules: dict[str, Any] = dict(model.named_modules())
    missing = [site for site in adapter if site not in modules]
    if missing:
        raise AdapterError(f"the adapter does not fit '{name}', which has no layer {missing[0]}")
    with torch.no_grad():
        for site, factors in adapter.items():
            weight = modules[site].weight
            # The sum is made in fp32 and rounded once. A product that is rounded to bf16 first would lose more.
            update = scale * (factors.a @ factors.b).T
            weight.copy_((weight.float() + update).to(weight.dtype))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The library writes weights that only their owner can read, whatever the umask says.
    mode = (folder / "config.json").stat().st_mode
    for file in folder.glob("*.safetensors"):
        file.chmod(mode)
    return model.dtype
