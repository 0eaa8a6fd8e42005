"""`redqueen report`: a run in one file."""

# No import here may load torch or matplotlib: a report is made in a second (see `redqueen.cli`).

from __future__ import annotations

from pathlib import Path

from redqueen.errors import UserError
from redqueen.runs.directory import write_text
from redqueen.web.live_run import LiveRun
from redqueen.web.report.markdown import markdown
from redqueen.web.report.page import page


def run_report(run: Path, out: Path | None, *, as_markdown: bool) -> int:
    """Writes the report (default: report.html in the run), as Markdown to standard output; returns the exit code.

    Raises RunError if there is no such run or it has played no step, UserError if the file cannot be written.
    """
    read = LiveRun(run)
    if as_markdown and out is None:
        print(markdown(read), end="")
        return 0
    file = out or run / "report.html"
    text = markdown(read) if as_markdown else page(read)
    try:
        write_text(file, text)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    print(file)
    return 0
