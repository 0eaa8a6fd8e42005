"""What tests do to the sandbox's processes, and what they ask the system about them."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from redqueen.jail import Sandbox
from redqueen.jail.process import Zygote


def zygotes(sandbox: Sandbox) -> list[Zygote]:
    """The zygotes that run now."""
    return list(sandbox._interpreters.zygotes.values())


def kill_zygotes(sandbox: Sandbox) -> set[int]:
    """Kills all zygotes with their children. Returns their process ids."""
    pids = {zygote.process.pid for zygote in zygotes(sandbox)}
    for pid in pids:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return pids


def alive(pid: int | str) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def of_group(group: int) -> list[str]:
    """Process ids of what belongs to a zygote: its mothers, and the children that still run or wait for their end."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # It may end while it is looked at.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[2]) == group:
                    found.append(entry.name)
    return found
