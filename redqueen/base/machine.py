"""What the machine tells this process: its cores, its free memory, its processor and the time."""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

# How torch's allocator of GPU memory is set, by its present name and by that of older versions.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
EXPANDABLE = "expandable_segments:True"
"""The setting with which segments of GPU memory grow."""

_GROUPS = Path("/sys/fs/cgroup")
# The files of a control group's memory: the limit, what is used, and the name of what could be taken back at once.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def cache_root() -> Path:
    """Returns the cache folder: `$REDQUEEN_CACHE`, else `$XDG_CACHE_HOME/redqueen`, else `~/.cache/redqueen`."""
    if chosen := os.environ.get("REDQUEEN_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redqueen"


def set_library_defaults() -> None:
    """Sets environment variables that torch and tokenizers read when they are loaded. Values of the user stay."""
    # Idle OpenMP threads spin by default, which slows everything down when another process wants the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Tokenizers print a warning after a fork unless this is set.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Segments of GPU memory that grow where they are: what is free then never lies in pieces that are too small for a
    # KV cache. torch reads this when it first uses a GPU. vLLM refuses it in its own processes.
    if "vllm" not in sys.modules and not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = EXPANDABLE
    # Kernels for a GPU take minutes to compile. By default torch keeps them in a folder for temporary files.
    kernels = cache_root() / "kernels"
    if can_write(kernels):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kernels / "inductor"))
        os.environ.setdefault("TRITON_CACHE_DIR", str(kernels / "triton"))


@contextmanager
def on_sigterm(act: Callable[[], None]) -> Generator[None]:
    """Calls `act` in the main thread when this process gets SIGTERM; nothing changes in a block of another thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: act())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def can_write(folder: Path) -> bool:
    """Returns whether this user may write to a folder, which need not be there yet."""
    # Unlike `Path.exists`, this also answers where a folder above may not be entered.
    there = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def without_allocator_defaults() -> None:
    """Takes back, for processes that are started from now on, what `set_library_defaults` says about GPU memory."""
    if os.environ.get(_ALLOCATOR[0]) == EXPANDABLE:
        del os.environ[_ALLOCATOR[0]]


def free_memory() -> int:
    """Returns how many bytes this process may still use without swapping or being killed."""
    # Imported here: the sandbox takes `cores` from this module, and also runs where nothing is installed.
    import psutil  # noqa: PLC0415

    # A container or a batch system limits memory by a control group. What the machine has free says nothing there.
    return max(0, min([psutil.virtual_memory().available, *_left_in_groups(_GROUPS, _own_groups())]))


def machine_id() -> str:
    """Returns a name that differs between machines, and between containers with names of their own."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{platform.node()} {boot.read_text().strip() if boot.exists() else ''}".strip()


def peak_memory() -> int:
    """Returns the most bytes of memory that this process has had so far, without its children."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _own_groups() -> list[str]:
    """Returns the paths of this process's control groups, e.g. "/system.slice/job"; none where there are no groups."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    # "0::/path" is version 2, "4:memory:/path" version 1.
    fields = [line.split(":", 2) for line in lines]
    return [path for _, controllers, path in fields if controllers in ("", "memory")]


def _left_in_groups(root: Path, groups: list[str]) -> Iterator[int]:
    """Yields what each memory limit leaves that holds for one of the groups."""
    for group in groups:
        for top in (root, root / "memory"):
            folder = top / group.lstrip("/")
            # A limit holds for all groups below it, so every folder up to the top counts.
            for level in (folder, *folder.parents):
                yield from _left(level)
                if level == top:
                    break


def _left(folder: Path) -> Iterator[int]:
    for limit_name, used_name, cache_name in _FILES:
        try:
            limit = (folder / limit_name).read_text().strip()
            used = int((folder / used_name).read_text())
            entries = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if limit != "max":
            yield int(limit) - used + int(entries.get(cache_name, 0))


def processor() -> str:
    """Returns the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def now() -> str:
    """Returns the time in UTC, e.g. "2026-01-31T12:00:00Z"."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(seconds: float) -> str:
    """Formats a duration: 75 is "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
