"""`redqueen report`: a run on one page."""

from __future__ import annotations

from pathlib import Path

from redqueen.analysis.report.page import page
from redqueen.errors import UserError
from redqueen.runs.directory import RunDirectory, write_text


def run_report(run: Path, out: Path | None) -> int:
    """Writes the page (default: report.html in the run); returns the exit code.

    Raises RunError if there is no such run or it has played no step, UserError if the page cannot be written.
    """
    file = out or run / "report.html"
    text = page(RunDirectory(run))
    try:
        write_text(file, text)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    print(file)
    return 0
