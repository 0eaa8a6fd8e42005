"""`redqueen report`: a run on one page."""

from __future__ import annotations

from pathlib import Path

from redqueen.analysis.report.page import page
from redqueen.runs.directory import RunDirectory, RunError, write_text


def run_report(run: Path, out: Path | None) -> int:
    """Writes the page (default: report.html in the run); returns the exit code. Raises RunError."""
    file = out or run / "report.html"
    text = page(RunDirectory(run))
    try:
        write_text(file, text)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror}") from error
    print(file)
    return 0
