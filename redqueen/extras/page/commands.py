"""The commands of the page: watch, report, compare."""

# ruff: noqa: PLC0415 - torch and matplotlib are imported when a command runs, as in `redqueen.cli.app`

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.options import AsJson, Run, command


@command("redqueen report runs/quickstart", "redqueen report runs/quickstart --markdown")
def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write (default: report.html in the run).")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the numbers as Markdown, for a model card.")
    ] = False,
    push: Annotated[
        str | None, typer.Option(metavar="USER/NAME", help="Also publish it, as a private static Space of the hub.")
    ] = None,
) -> None:
    """Write a run as one page of HTML.

    It has what redqueen watch shows, and says in words what the run is doing: collapse, arms race, disengagement or
    undecided. The file needs no other file and no network.
    """
    from redqueen.extras.page.report import run_report

    raise typer.Exit(run_report(run, out, as_markdown=markdown, repository=push))


@command("redqueen watch runs/quickstart", "redqueen watch runs --port 9000")
def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN_OR_FOLDER", help="A run's directory, or a folder of runs.")],
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help="The port; 0: any (default: the first free from 8642 on)."),
    ] = None,
) -> None:
    """Follow a run in the browser.

    The page shows curves, members, matches and every task with its attempts. It answers to this machine only, and it
    reads only; it may be opened while the run is trained.
    """
    from redqueen.extras.page.app import run_watch

    raise typer.Exit(run_watch(run, port))


@command(
    "redqueen compare runs/one runs/two --out comparison",
    "redqueen compare sweeps/matched/*/seed-* --by recipe --out comparison",
)
def compare(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The runs' directories.")],
    by: Annotated[
        str, typer.Option(metavar="KEY", help="Pool runs that have the same value: recipe or another setting.")
    ] = "run",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for a page, figures (PNG, SVG) and numbers (CSV).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All numbers, and a figure for each panel.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs and arms.

    Is anybody better on held-out problems, is the curriculum richer, is the run healthy? There is a figure for
    each, and --all has the rest. Runs that differ in their seeds only are pooled with --by recipe, into means with
    95 % intervals.
    """
    from redqueen.analysis.compare.arms import check_arms

    # What cannot be compared is refused before matplotlib is imported.
    check_arms(paths, by)
    from redqueen.extras.page.compare_command import run_compare

    raise typer.Exit(run_compare(paths, by, out, as_json=as_json, everything=everything))
