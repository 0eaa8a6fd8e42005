"""A member as transformers and PEFT load it: for what others do with a model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen.adapters.factors import Adapter
from redqueen.adapters.peft_files import save_adapter
from redqueen.errors import ModelError
from redqueen.policy.model.base import location


def load_member(base: str, adapter: Adapter, alpha: float) -> tuple[Any, Any]:
    """Returns the base with the adapter in it as a `peft.PeftModel`, ready to generate, and its tokenizer.

    Raises ModelError if the base cannot be loaded.
    """
    where = location(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        model: Any = AutoModelForCausalLM.from_pretrained(where, dtype="auto")
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{base}': {str(error).splitlines()[0]}") from error
    with tempfile.TemporaryDirectory() as folder:
        save_adapter(Path(folder), adapter, alpha=alpha, base=where)
        return PeftModel.from_pretrained(model, folder).eval(), tokenizer
