"""`redqueen export`: writes a member as a PEFT folder, or as a whole model, with a card that says how to use it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from redqueen.commands.listening import Lines
from redqueen.members.exporting import export


def run_export(run: Path, name: str, out: Path, step: int | None, *, merge: bool) -> int:
    """Writes the member `name`, as `export` does, and says so; returns the exit code."""
    console = Console(soft_wrap=True, emoji=False)
    found = export(run, name, out, step, Lines(console), merge=merge)
    what = "a whole model" if merge else "a PEFT adapter"
    member = found.member
    console.print(
        f"wrote {member.name} ({member.role}) after step {found.saved.step} to {out}, as {what}", markup=False
    )
    console.print(f"how to use it: {out / 'README.md'}", markup=False)
    return 0
