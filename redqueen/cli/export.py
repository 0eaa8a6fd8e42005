"""`redqueen export`: writes a member as a PEFT folder, or as a whole model, with a card that says how to use it."""

from __future__ import annotations

from pathlib import Path

from redqueen.cli.pushing import hub, push
from redqueen.members.exporting import export
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole


def run_export(run: Path, name: str, out: Path, step: int | None, *, merge: bool, repository: str | None = None) -> int:
    """Writes the member `name`, as `export` does, and publishes it if that is asked for; returns the exit code."""
    console = PlainConsole(soft_wrap=True)
    library = hub(repository)
    found = export(run, name, out, step, Lines(console), merge=merge)
    what = "a whole model" if merge else "a PEFT adapter"
    member = found.member
    console.print(f"wrote {member.name} ({member.role}) after step {found.saved.step} to {out}, as {what}")
    console.print(f"how to use it: {out / 'README.md'}")
    if repository is not None:
        push(library, out, repository, "model", console)
    return 0
