"""The record of a run's environment, and quieter logging of third-party libraries."""

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
    """Turns off progress bars and advice of the libraries: our own progress says what happens."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("torch").setLevel(logging.ERROR)


def announce_conversion(model: ModelConfig, console: Console) -> None:
    """Prints a line if the first use of the bundled model is about to convert it, which takes a while."""
    if model.name == BUNDLED and cached() is None:
        console.print(f"converting the bundled model into {cache_root()}, once: about 15 seconds ...")


def environment(base: Base, base_fingerprint: str, tier: str) -> dict[str, object]:
    """Returns the content of environment.json: where and with what the run was made."""
    # It is for people who compare runs. No command reads it, so a run can be resumed on another machine.
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
