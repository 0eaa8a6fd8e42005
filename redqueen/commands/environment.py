"""The surroundings of a run: versions and machine, and libraries that talk too much."""

from __future__ import annotations

import logging
import platform
from importlib.metadata import version

import torch
import transformers
from rich.console import Console

from redqueen import __version__
from redqueen.config import BUNDLED, ModelConfig
from redqueen.machine import cores
from redqueen.policy.model.base import Base
from redqueen.policy.model.bundled import cache_root, cached

LIBRARIES = ("torch", "transformers", "peft", "safetensors", "tokenizers", "numpy", "numba", "pydantic")


def quiet_libraries() -> None:
    """No progress bars or advice from libraries: our own progress says what happens."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("torch").setLevel(logging.ERROR)


def announce_conversion(model: ModelConfig, console: Console) -> None:
    """Says so before the bundled model is converted: it happens at the first use, wherever that is."""
    if model.name == BUNDLED and cached() is None:
        console.print(f"converting the bundled model into {cache_root()}, once: about 15 seconds ...")


def environment(base: Base, base_fingerprint: str, tier: str) -> dict[str, object]:
    """What a run's record says about where it was made."""
    return {
        "redqueen": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "device": str(base.device),
        "dtype": str(base.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "cores": cores(),
        "isolation": tier,
        "base": base.name,
        "base_fingerprint": base_fingerprint,
    }
