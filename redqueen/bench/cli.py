"""`redqueen bench WHAT`: one command for each thing that is measured. Everything heavy is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="Measure this machine, and peers beside us in the same run.", no_args_is_help=True, rich_markup_mode=None
)

AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds; all contenders take turns in each, and the median counts.")]


@app.command()
def sandbox(
    as_json: AsJson = False,
    rounds: Rounds = 7,
    programs: Annotated[int, typer.Option(min=8, help="Programs in a round.")] = 100,
    cpu_s: Annotated[float, typer.Option("--limit", min=0.01, help="CPU seconds that one program may take.")] = 1.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Programs run at once (default: one for each core).")] = None,
    unsafe_no_isolation: Annotated[
        bool, typer.Option(help="Run programs although this machine cannot isolate them.")
    ] = False,
) -> None:
    """Programs a second, latency, and what programs that never end cost the others."""
    from redqueen.bench.sandbox import run_bench_sandbox

    raise typer.Exit(run_bench_sandbox(programs, rounds, jobs, cpu_s, as_json=as_json, unsafe=unsafe_no_isolation))
