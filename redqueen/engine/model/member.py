"""A member for others: as transformers and PEFT load it, and as a plain model folder that needs no PEFT."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen.engine.adapters import Adapter, save_adapter
from redqueen.engine.model.base import location
from redqueen.engine.model.quantized import is_quantized
from redqueen.errors import AdapterError, ModelError


def load_member(base: str, adapter: Adapter, alpha: float) -> tuple[Any, Any]:
    """Returns the base with the adapter in it as a `peft.PeftModel`, ready to generate, and its tokenizer.

    Raises ModelError if the base cannot be loaded.
    """
    model, tokenizer = _loaded(base)
    with tempfile.TemporaryDirectory() as folder:
        save_adapter(Path(folder), adapter, alpha=alpha, base=location(base))
        return PeftModel.from_pretrained(model, folder).eval(), tokenizer


def write_merged(folder: Path, name: str, adapter: Adapter, scale: float) -> torch.dtype:
    """Writes the base called `name` with `scale` times the adapter's product added, and its tokenizer.

    Returns the dtype of the file, which is the one that the base is stored in.
    Raises ModelError if the base cannot be loaded, AdapterError if the adapter does not fit it, OSError if the folder
    cannot be written.
    """
    model, tokenizer = _loaded(name)
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


def _loaded(base: str) -> tuple[Any, Any]:
    """Returns the base as its files are, and its tokenizer. Raises ModelError if it cannot be loaded."""
    where = location(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        return AutoModelForCausalLM.from_pretrained(where, dtype="auto"), tokenizer
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{base}': {str(error).splitlines()[0]}") from error
