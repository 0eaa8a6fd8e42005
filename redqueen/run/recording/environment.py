"""When, where, by what and with what a run was made: the content of environment.json."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import redqueen
from redqueen import __version__
from redqueen.base.machine import now, processor
from redqueen.engine.model.base import BaseFacts
from redqueen.jail.probes import cores
from redqueen.run.recording.metrics import own_metrics

LIBRARIES = ("torch", "transformers", "peft", "safetensors", "tokenizers", "numpy", "numba", "pydantic")


def session(fitted: Mapping[str, object], command: str, tier: str) -> dict[str, object]:
    """Returns when, by which command and code, and on what a run was started or resumed.

    `fitted` are the settings that memory decides about, as they fit; `tier` is how well the sandbox isolates.
    """
    return {
        "date": now(),
        "command": command,
        "redqueen": __version__,
        "commit": _commit(),
        "processor": processor(),
        "cores": cores(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "fitted": dict(fitted),
        "isolation": tier,
    }


def environment(
    fitted: Mapping[str, object], metrics: Sequence[str], base: BaseFacts, command: str, tier: str
) -> dict[str, object]:
    """Returns the content of environment.json of a new run."""
    own = [asdict(metric) for metric in own_metrics(metrics)]
    return {
        **session(fitted, command, tier),
        **({"metrics": own} if own else {}),
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": versions(),
        "device": base.device,
        "dtype": base.dtype,
        "threads": torch.get_num_threads(),
        "base": base.name,
        "base_fingerprint": base.fingerprint,
    }


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that decide about a run's numbers. A GPU needs no numba, for example."""
    by_library: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            by_library[name] = version(name)
        except PackageNotFoundError:
            by_library[name] = "absent"
    return by_library


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
