"""Writes docs/reference/COMMANDS.md: the help of every command.

.venv/bin/python -m tools.write_commands
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from redqueen.cli.app import app

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "COMMANDS.md"
HEAD = """# Commands

What `redqueen COMMAND --help` prints. Written by `tools/write_commands.py`.
"""
WIDTH = 110


def page() -> str:
    """Returns the page."""
    parts = [HEAD]
    for name, command in commands("redqueen", typer.main.get_command(app)):
        context = command.make_context(name, [], resilient_parsing=True, max_content_width=WIDTH, terminal_width=WIDTH)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"## {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yields the commands below a group with their full names, groups left out."""
    inner: dict[str, Any] | None = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, one in inner.items():
        if not one.hidden:
            yield from commands(f"{name} {word}", one)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(f"wrote {TARGET}")
