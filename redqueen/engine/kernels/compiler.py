"""Whether kernels for a GPU can be compiled on this machine."""

from __future__ import annotations

import functools
import os
import shutil
import sysconfig
from pathlib import Path

from redqueen.base.optional import is_installed


@functools.cache
def can_compile() -> bool:
    """Returns whether Triton's kernels, and with them those of `torch.compile`, can be compiled for a GPU here."""
    return not missing_for_kernels()


def missing_for_kernels() -> list[str]:
    """Returns what is missing to compile kernels for a GPU, e.g. ["triton", "a C compiler (gcc or clang)"]."""
    # Triton builds its launchers as C modules of Python when a kernel is first launched. Without a compiler or Python's
    # headers that launch would fail, in the first step of a run.
    missing: list[str] = []
    if not is_installed("triton"):
        missing.append("triton")
    if not _compiler():
        missing.append("a C compiler (gcc or clang)")
    if not _header().is_file():
        missing.append(f"Python's headers ({_header()})")
    return missing


def _compiler() -> str | None:
    """Returns the C compiler that Triton would call, if it is there."""
    if chosen := os.environ.get("CC"):
        return shutil.which(chosen)
    return shutil.which("gcc") or shutil.which("clang")


def _header() -> Path:
    """Returns the header of Python's C interface, where Triton looks for it."""
    # Debian has a scheme of its own for what the administrator installs; the headers are in the usual one.
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme
    return Path(sysconfig.get_paths(scheme)["include"]) / "Python.h"
