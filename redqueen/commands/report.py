"""`redqueen report`: a run in one file."""

# No import here may load torch or matplotlib: a report is made in a second (see `redqueen.cli`).

from __future__ import annotations

from pathlib import Path

from redqueen.errors import UserError
from redqueen.runs.directory import write_text
from redqueen.runs.files import damage_of, printable
from redqueen.web.live_run import LiveRun
from redqueen.web.report.markdown import markdown
from redqueen.web.report.page import page


def run_report(run: Path, out: Path | None, *, as_markdown: bool) -> int:
    """Writes the report (default: report.html in the run), as Markdown to standard output; returns the exit code.

    Raises RunError if there is no such run or it has played no step, UserError if the file cannot be written.
    """
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
    return 0
