"""`redqueen doctor`: what works on this machine and what does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version

import psutil
import torch
from rich.console import Console

from redqueen import __version__
from redqueen.commands.environment import LIBRARIES
from redqueen.config import ModelConfig
from redqueen.machine import cores
from redqueen.policy.model.base import device_of, dtype_of
from redqueen.policy.model.bundled import PACKAGE, cache_root, cached, installed, verify
from redqueen.sandbox import PROCESS, probe

_NEEDED_DISK_GB = 1.0
Check = Callable[[str, bool, str], None]


def run_doctor() -> int:
    """Prints every check; 0 if all passed."""
    console = Console()
    failed = 0

    def check(name: str, ok: bool, detail: str) -> None:
        nonlocal failed
        failed += not ok
        mark = "[green]ok[/]    " if ok else "[red]FAILED[/]"
        console.print(f"{mark} {name:<10} {detail}", soft_wrap=True, highlight=False)

    check("redqueen", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    check("python", (3, 11) <= sys.version_info < (3, 14), "3.11 to 3.13 is supported")
    check("libraries", True, ", ".join(f"{name} {version(name)}" for name in LIBRARIES))
    device = device_of(ModelConfig())
    what = torch.cuda.get_device_name() if device.type == "cuda" else f"{cores()} CPU cores"
    check("device", True, f"{what}, {str(dtype_of(ModelConfig(), device)).removeprefix('torch.')}")
    memory = psutil.virtual_memory()
    check("memory", True, f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free")
    free = shutil.disk_usage(os.getcwd()).free / 1e9
    check(
        "disk",
        free > _NEEDED_DISK_GB,
        f"{free:.1f} GB free here; a run's checkpoints need about {_NEEDED_DISK_GB:.0f}",
    )
    _check_model(check)
    tier, probes = probe()
    for each in probes:
        # what only adds a second wall may be missing; the tier says so
        note = each.detail if each.ok or each.required else f"absent ({each.detail}); the others hold without it"
        check("sandbox", each.ok or not each.required, f"{each.name}: {note}" if note else each.name)
    check("isolation", tier != PROCESS, f"tier '{tier}'")
    return 1 if failed else 0


def _check_model(check: Check) -> None:
    folder = cached()
    if folder is not None:
        damaged = verify(folder)
        check(
            "model",
            not damaged,
            f"{folder}" + (f": {', '.join(damaged)} damaged, delete the folder" if damaged else ""),
        )
    elif installed():
        check("model", True, f"not converted yet; the first run does it (in {cache_root()})")
    else:
        check("model", False, f"package {PACKAGE} is missing: run `make setup`")
