"""`redqueen report`: a run in one file."""

# No import here may load torch or matplotlib: a report is made in a second (see `redqueen.cli.app`).

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from redqueen.cli.pushing import hub, push
from redqueen.errors import UserError
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.report.markdown import markdown
from redqueen.extras.page.report.page import page
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.directory import write_text
from redqueen.store.files import damage_of, printable


def run_report(run: Path, out: Path | None, *, as_markdown: bool, repository: str | None = None) -> int:
    """Writes the report (default: report.html in the run), as Markdown to standard output; returns the exit code.

    The page is also published as the Space `repository`.

    Raises RunError if there is no such run or it has played no step, UserError if the file cannot be written.
    """
    if repository is not None and as_markdown:
        raise UserError("--push publishes the page: leave --markdown out")
    library = hub(repository)
    read = LiveRun(run)
    with damage_of(run):
        # The page is read by a browser, which shows such signs as they are; a card is printed and pasted.
        text = printable(markdown(read)) if as_markdown else page(read)
    if as_markdown and out is None:
        print(text, end="")
        return 0
    file = out or run / "report.html"
    try:
        write_text(file, text)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    print(file)
    if repository is not None:
        with tempfile.TemporaryDirectory() as folder:
            write_text(Path(folder) / "index.html", text)
            write_text(Path(folder) / "README.md", _space(run))
            push(library, Path(folder), repository, "space", PlainConsole(soft_wrap=True))
    return 0


def _space(run: Path) -> str:
    """Returns the card of a static Space, with the metadata that the hub reads."""
    title = json.dumps(f"Red Queen: {run.resolve().name}")
    return f"""---
title: {title}
emoji: ♛
colorFrom: red
colorTo: gray
sdk: static
app_file: index.html
tags: [redqueen, populora]
---

What happened in a run of Red Queen: the page that `redqueen report` writes.
"""
