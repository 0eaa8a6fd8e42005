"""What others wrote reaches a terminal as text: no markup, no emoji, no control character."""

from __future__ import annotations

import io

import pytest
from rich.console import RenderableType
from rich.panel import Panel
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from redqueen.run.recording.plain_console import PlainConsole

HOSTILE = "[/red]:smile:\x1b]0;pwn\x07\u202e"
# Rich itself drops a bell, and a bar cuts what is longer than it looked.
SHOWN = "[/red]:smile:\\x1b]0"


def table() -> Table:
    made = Table(HOSTILE, title=HOSTILE)
    made.add_row(HOSTILE)
    return made


def tree() -> Tree:
    made = Tree(HOSTILE)
    made.add(Text(HOSTILE))
    return made


def bar() -> Progress:
    made = Progress(TextColumn("{task.description}", markup=False))
    made.add_task(HOSTILE, total=None)
    return made


@pytest.mark.parametrize("printed", [HOSTILE, f"\n{HOSTILE}\n", Text(HOSTILE), Panel(HOSTILE), table(), tree(), bar()])
def test_hostile_text_is_shown_as_it_is_wherever_it_stands(printed: RenderableType) -> None:
    console = PlainConsole(file=io.StringIO(), width=100)
    console.print(printed)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert SHOWN in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert text.count("\n") >= 1


def test_styles_are_colours_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = PlainConsole(file=io.StringIO(), width=100)
    console.print("wrong", style="red")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "\x1b[31mwrong\x1b[0m\n"
