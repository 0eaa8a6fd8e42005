"""The command line. Heavy imports happen inside the commands, so that `--help` and `--version` answer at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from redqueen import __version__
from redqueen.errors import UserError

app = typer.Typer(
    help="Post-train language models by co-evolving teacher and student LoRA populations.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPE] [SECTION.FIELD=VALUE]...", help="A recipe's name, then overrides."),
]
Model = Annotated[str | None, typer.Option(help="Hugging Face id or local folder; short for model.name=...")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redqueen {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    del version


@app.command()
def train(
    args: Overrides = None,
    run: Annotated[Path | None, typer.Option(help="Run directory (default: runs/RECIPE).")] = None,
    steps: Annotated[int | None, typer.Option(help="Short for run.steps=N; extends a run with --resume.")] = None,
    model: Model = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this directory.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Print the resolved configuration and stop.")] = False,
) -> None:
    """Train a population: match, propose, solve, learn, evolve."""
    from redqueen.commands.train import start, take_up

    if resume:
        raise typer.Exit(take_up(resume, steps, [*(args or []), *(["--run"] if run else [])], model))
    raise typer.Exit(start(args or [], run, steps, model, dry_run))


@app.command()
def warmup(
    out: Annotated[Path, typer.Argument(help="Folder for the adapter (PEFT format).")],
    args: Overrides = None,
    model: Model = None,
    steps: Annotated[str, typer.Option(help="Optimizer steps of each round, with commas.")] = "110,90,80",
    proposals: Annotated[
        str, typer.Option(help="Proposals of each kind that the model tries between two rounds, with commas.")
    ] = "120,160",
    sequences: Annotated[int, typer.Option(help="Sequences in a step.")] = 32,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
) -> None:
    """Fit one adapter on verified tasks, from which members start (population.init=OUT).

    The first round learns from the seed programs; each later one also from what the model itself proposed and the
    verifier accepted.
    """
    from redqueen.commands.warmup import run_warmup

    raise typer.Exit(run_warmup(out, args or [], model, steps, proposals, sequences, lr))


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    member: Annotated[str, typer.Argument(help="A member's name, or best-student, best-teacher.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
) -> None:
    """Write a member as a plain PEFT folder with a card."""
    from redqueen.commands.export import run_export

    raise typer.Exit(run_export(run, member, out))


@app.command()
def doctor() -> None:
    """Check devices, versions, the model cache and the sandbox; the exit code tells."""
    from redqueen.commands.doctor import run_doctor

    raise typer.Exit(run_doctor())


def main() -> None:
    """Entry point. Errors that a user can mend are one line; others are our bugs and keep their traceback."""
    # idle OpenMP threads that spin make everything several times slower when another process wants the cores
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except UserError as error:
        typer.echo(f"redqueen: {error}", err=True)
        sys.exit(2)
