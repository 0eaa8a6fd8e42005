"""Blanks what differs between two machines: install paths, versions, and a generator of random numbers without a seed.

A program reaches all this by introspection, and a task whose answer is a user's home folder is no task. Child-side,
standard library only.
"""

from __future__ import annotations

import gc
import random
import sys
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple

_PATHS = (
    "executable _base_executable prefix exec_prefix base_prefix base_exec_prefix _stdlib_dir _framework platlibdir "
    "pycache_prefix version copyright"
)
_MODULE_PATHS = ("__file__", "__cached__")


class VersionInfo(NamedTuple):
    """What programs that may import `sys` find in `sys.version_info`, whatever Python runs them."""

    major: int = 3
    minor: int = 11
    micro: int = 0
    releaselevel: str = "final"
    serial: int = 0


def forget_installation(*, shows_version: bool) -> None:
    """Blanks install paths and versions, or `shows_version` of one that is the same everywhere.

    Nothing can be imported from a file after this.
    """
    for name in _PATHS.split():
        if hasattr(sys, name):
            setattr(sys, name, "")
    sys.version_info = ()  # type: ignore[assignment]
    sys.hexversion = sys.api_version = 0
    if shows_version:
        sys.version_info = VersionInfo()  # type: ignore[assignment]
        sys.version = "3.11.0"
        sys.hexversion = 0x030B00F0
    sys.implementation = SimpleNamespace(name="cpython")  # type: ignore[assignment]
    sys.path.clear()
    sys.path_importer_cache.clear()
    for module in list(sys.modules.values()):
        _forget_paths(vars(module))
    for value in gc.get_objects():
        if type(value) is FunctionType:
            _forget_file(value.__code__)
    frame = sys._getframe()  # type: ignore[attr-defined]
    while frame is not None:
        _forget_file(frame.f_code)
        frame = frame.f_back


def _forget_paths(names: dict[str, Any]) -> None:
    for name in _MODULE_PATHS:
        if isinstance(names.get(name), str):
            names[name] = ""
    if isinstance(names.get("__path__"), list):
        names["__path__"].clear()
    spec: Any = names.get("__spec__")
    if getattr(spec, "has_location", False):
        spec.origin = ""
        spec.cached = ""
    loaders: list[Any] = [names.get("__loader__"), getattr(spec, "loader", None)]
    for loader in loaders:
        if hasattr(loader, "path"):
            loader.path = ""


def _forget_file(code: CodeType) -> None:
    if "/" in code.co_filename:
        _fix_co_filename(code, "")


def shut_random(seed: int, refuse: Callable[..., Any] | None) -> None:
    """Seeds the generator that all programs share; puts `refuse` in the place of its functions unless that is None."""
    random.seed(seed)
    shared = random._inst  # type: ignore[attr-defined]
    if refuse is None:
        return
    for name, value in list(vars(random).items()):
        if getattr(value, "__self__", None) is shared:
            setattr(random, name, refuse)


def strangers(modules: Iterable[str]) -> frozenset[str]:
    """Names of the modules that are loaded but not on the list: an attribute with such a name leads outside."""
    own = set(modules)
    return frozenset(name.rpartition(".")[2] for name in sys.modules if name.partition(".")[0] not in own)
