"""What a command does before it loads a base: quieter libraries, a look at the memory, a record of the environment."""

from __future__ import annotations

import logging
import platform
from importlib.metadata import version

import torch
import transformers
from rich.console import Console

from redqueen import __version__
from redqueen.config import BUNDLED, Config, ModelConfig
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.machine import cores
from redqueen.policy.memory.estimate import check_fit
from redqueen.policy.model.base import Base
from redqueen.policy.model.bundled import cache_root, cached
from redqueen.policy.model.dimensions import token_counter

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


def check_memory(config: Config, members: int, console: Console) -> None:
    """Prints a warning if `members` adapters may need more memory than there is.

    Raises ModelError, before anything is loaded, if they need more in any case.
    """
    quiet_libraries()
    announce_conversion(config.model, console)
    warning = check_fit(config, prompt_lengths(config, token_counter(config.model, download=True)), members)
    if warning:
        console.print(f"warning: {warning}", markup=False)


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
