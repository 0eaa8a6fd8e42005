"""What a command does before it loads a base: quieter libraries, a look at the memory, a record of the environment."""

from __future__ import annotations

import logging
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from pathlib import Path

import torch
import transformers
from rich.console import Console

import redqueen
from redqueen import __version__
from redqueen.config import BUNDLED, Config, ModelConfig
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.machine import cache_root, cores, now, processor
from redqueen.policy.memory.fit import fit
from redqueen.policy.model.base import BaseFacts, device_of, dtype_of, workers_of
from redqueen.policy.model.bundled import cached
from redqueen.policy.model.dimensions import token_counter
from redqueen.policy.model.source import read_config
from redqueen.runs.directory import FITTED

LIBRARIES = ("torch", "transformers", "peft", "safetensors", "tokenizers", "numpy", "numba", "pydantic")


def quiet_libraries() -> None:
    """Turns off progress bars and advice of the libraries: our own progress says what happens."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in ("torch", "huggingface_hub"):
        logging.getLogger(name).setLevel(logging.ERROR)


def announce_conversion(model: ModelConfig, console: Console) -> None:
    """Prints a line if the first use of the bundled model is about to convert it, which takes a while."""
    if model.name == BUNDLED and cached() is None:
        console.print(
            f"converting the bundled model into {cache_root()}, once: about 15 seconds ...", markup=False, emoji=False
        )


def check_memory(config: Config, members: int, console: Console) -> Config:
    """Returns `config` as it fits in free memory with `members` adapters, and prints what was made smaller for it.

    Raises ModelError, before anything is loaded, if it cannot fit, or if the base cannot be found or is not supported.
    """
    quiet_libraries()
    announce_conversion(config.model, console)
    # A replica of a cluster makes its batches fit by itself, into the memory of its own machine.
    if config.cluster.address:
        return config
    # What is quickly known comes first: a base that is not supported should cost no download.
    workers_of(config.model)
    dtype_of(config.model, device_of(config.model))
    read_config(config.model.name)
    found = fit(config, prompt_lengths(config, token_counter(config.model)), members)
    if found.changes:
        console.print(
            f"memory: {found.free / 2**30:.1f} GiB is free, so this runs with {' '.join(found.changes)}", markup=False
        )
    if found.warning:
        console.print(f"warning: {found.warning}", markup=False)
    return found.config


def session(config: Config) -> dict[str, object]:
    """Returns when, by which command and code, and on what a run was started or resumed. `config` is as it fits."""
    return {
        "date": now(),
        "command": shlex.join(["redqueen", *sys.argv[1:]]),
        "redqueen": __version__,
        "commit": _commit(),
        "processor": processor(),
        "cores": cores(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        # A resumed run takes the same values if they fit: other ones round differently.
        "fitted": {key: attrgetter(key)(config) for key in FITTED},
    }


def environment(config: Config, base: BaseFacts, tier: str) -> dict[str, object]:
    """Returns the content of environment.json: when, where and with what the run was made."""
    return {
        **session(config),
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": versions(),
        "device": base.device,
        "dtype": base.dtype,
        "threads": torch.get_num_threads(),
        "isolation": tier,
        "base": base.name,
        "base_fingerprint": base.fingerprint,
    }


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that decide about a run's numbers. A GPU needs no numba, for example."""
    found: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def _commit() -> str | None:
    """Returns the commit of this checkout, with "-dirty" if files differ; None if the package is installed."""
    folder = Path(redqueen.__file__).parent
    if not (folder.parent / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
