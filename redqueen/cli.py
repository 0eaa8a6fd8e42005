"""The command line: parses arguments and hands them to `redqueen.commands`."""

# Importing torch and transformers takes seconds. What needs them is imported inside the commands, so that `--help`,
# `--version` and a mistyped option answer at once (held by tests/commands/test_main.py).

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from redqueen import __version__
from redqueen.commands.resume import describe, remaining
from redqueen.config import ConfigError
from redqueen.errors import UserError
from redqueen.recipes import configure
from redqueen.runs.directory import RunDirectory

app = typer.Typer(
    help="Post-train language models by co-evolving teacher and student LoRA populations.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPE] [SECTION.FIELD=VALUE]...", help="A recipe's name, then overrides."),
]
Model = Annotated[str | None, typer.Option(help="Hugging Face id or local folder; short for model.name=...")]

Run = Annotated[Path, typer.Argument(help="Run directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
Figure = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it: FILE.png or FILE.svg.")]
Unsafe = Annotated[bool, typer.Option(help="Run programs although this machine cannot isolate them.")]


def _unsafe(wanted: bool) -> list[str]:
    return ["sandbox.unsafe_no_isolation=true"] if wanted else []


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
    workers: Annotated[int | None, typer.Option(help="Short for model.workers=N, processes on a CPU.")] = None,
    matched: Annotated[
        str | None, typer.Option(help="Train the recipe's single agent, with equal compute: per_adapter or total.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this directory.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Print configuration and memory estimate, and stop.")] = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Train a population: match, propose, solve, learn, evolve."""
    if resume:
        # Other settings would make the second half of the run another experiment than the first.
        if args or run or model or matched:
            raise ConfigError(
                "a resumed run keeps its directory and configuration: only --steps and --workers may be given"
            )
        _resume(RunDirectory(resume), steps, workers)
    overrides = [*(args or []), *_unsafe(unsafe_no_isolation), *_workers(workers)]
    config = configure(overrides, steps, model, matched)
    if dry_run:
        from redqueen.commands.train import print_memory

        typer.echo(config.model_dump_json(indent=2))
        print_memory(config)
        raise typer.Exit
    directory = RunDirectory(run or Path("runs") / config.recipe.replace(" ", "_"))
    # The same command twice must not destroy a run, and it should tell a person how to go on.
    if directory.exists:
        raise typer.Exit(describe(directory))
    from redqueen.commands.train import start_run

    raise typer.Exit(start_run(config, directory))


def _workers(count: int | None) -> list[str]:
    return [] if count is None else [f"model.workers={count}"]


def _resume(directory: RunDirectory, steps: int | None, workers: int | None) -> NoReturn:
    """Ends with the exit code of the resumed run, or of a description if nothing is left to do."""
    config = remaining(directory, steps, _workers(workers))
    if config is None:
        raise typer.Exit(describe(directory))
    from redqueen.commands.train import resume_run

    raise typer.Exit(resume_run(config, directory))


@app.command()
def sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep; an unfinished sweep in it is resumed.")],
    args: Overrides = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,VALUE", help="Values to try; a value with commas in [brackets]. Repeatable."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each combination, from run.seed on.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once; share the cores with model.threads=N.")] = 1,
    probe: Annotated[int, typer.Option(min=0, help="Reserved tasks the last students are scored on; 0: none.")] = 63,
    as_json: AsJson = False,
) -> None:
    """Train every combination of a grid with several seeds and tabulate means with 95 % intervals."""
    from redqueen.commands.sweep import run_sweep

    raise typer.Exit(run_sweep(args or [], grid or [], seeds, out, jobs, probe, as_json=as_json))


@app.command()
def warm_start(
    out: Annotated[Path, typer.Argument(help="Folder for the adapter (PEFT format).")],
    args: Overrides = None,
    model: Model = None,
    steps: Annotated[str, typer.Option(help="Optimizer steps of each round, with commas.")] = "150,60,60",
    proposals: Annotated[
        str, typer.Option(help="Proposals of each kind that the model tries between two rounds, with commas.")
    ] = "160,160",
    lessons: Annotated[int, typer.Option(help="Lessons in a step: a proposal, four answers, two functions each.")] = 8,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 3e-3,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Fit one adapter on verified tasks, from which members start (population.init=OUT).

    The first round learns from the seed programs; each later one also from what the model itself proposed and the
    verifier accepted.
    """
    config = configure([*(args or []), *_unsafe(unsafe_no_isolation)], model=model)
    from redqueen.commands.warm_start import run_warm_start

    # The arguments that give the same configuration, for the record next to the adapter.
    used = [*(args or []), *([f"model.name={model}"] if model else [])]
    raise typer.Exit(run_warm_start(out, config, used, steps, proposals, lessons, lr))


@app.command()
def export(
    run: Run,
    member: Annotated[str, typer.Argument(help="A member's name, or best-student, best-teacher.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
) -> None:
    """Write a member as a plain PEFT folder with a card."""
    from redqueen.commands.export import run_export

    raise typer.Exit(run_export(run, member, out))


@app.command(name="eval")
def evaluate(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help="Runs, PEFT folders, warm-start, base.")],
    members: Annotated[Literal["students", "all"], typer.Option(help="Which living members of a run.")] = "students",
    model: Annotated[str | None, typer.Option(help="Base of the targets that are no run: id or folder.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many tasks (default: all).")] = None,
    as_json: AsJson = False,
) -> None:
    """Score members, adapters and the bare base on held-out tasks: programs that nothing was trained on."""
    from redqueen.commands.eval import run_eval

    raise typer.Exit(run_eval(targets, members, model, limit, as_json=as_json))


@app.command()
def lineage(
    run: Run,
    as_json: Annotated[bool, typer.Option("--json", help="Print every member's life as JSON.")] = False,
    figure: Figure = None,
) -> None:
    """Print who descends from whom, by which operator, and what became of each."""
    # The text needs no matplotlib, so the figure is a module of its own.
    if figure is not None:
        from redqueen.commands.lineage_figure import run_lineage_figure

        run_lineage_figure(run, figure)
    from redqueen.commands.lineage import run_lineage

    raise typer.Exit(run_lineage(run, as_json=as_json))


@app.command()
def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The file to write (default: report.html in the run).")] = None,
) -> None:
    """Write a run's curves, members and family tree as one page of HTML."""
    from redqueen.commands.report import run_report

    raise typer.Exit(run_report(run, out))


@app.command()
def retention(
    run: Run,
    step: Annotated[int | None, typer.Option(help="Steps played at the checkpoint (default: the newest).")] = None,
    parents: Annotated[int, typer.Option(min=1, help="How many of the fittest students breed, in turn.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, each with its own tasks and children.")] = 3,
    updates: Annotated[int, typer.Option(min=1, help="Updates of each child.")] = 20,
    every: Annotated[int, typer.Option(min=1, help="Updates from one measurement to the next.")] = 2,
    tasks: Annotated[int, typer.Option(min=1, help="Reserved tasks that reward is measured on.")] = 24,
    tries: Annotated[int, typer.Option(min=1, help="Attempts at each fixed task.")] = 2,
    practice: Annotated[int, typer.Option(min=1, help="Tasks of an update.")] = 6,
    as_json: AsJson = False,
    figure: Figure = None,
) -> None:
    """Make children with every operator and control, train them alike, and see when they reach their parent's level."""
    from redqueen.analysis.retention.study import Plan
    from redqueen.commands.retention import run_retention

    plan = Plan(parents, seeds, updates, every, tasks, tries, practice)
    raise typer.Exit(run_retention(run, step, plan, as_json=as_json, figure=figure))


@app.command()
def ancestry(
    run: Run,
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of students, and most of tasks.")] = 10,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of an epoch.")] = 12,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts of a student at a task.")] = 1,
    students: Annotated[int, typer.Option(min=1, help="How many of the fittest students of an epoch play.")] = 1,
    as_json: AsJson = False,
    figure: Figure = None,
) -> None:
    """Let the students of every epoch play the tasks of every epoch: progress, cycling or collapse?"""
    from redqueen.commands.ancestry import run_ancestry

    raise typer.Exit(run_ancestry(run, epochs, tasks, attempts, students, as_json=as_json, figure=figure))


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE.jsonl", help="One JSON object a line; - reads standard input.")],
    jobs: Annotated[int | None, typer.Option(min=1, help="Programs run at once (default: one for each core).")] = None,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Judge proposals and attempts from a file: one JSON verdict a line, in the same order.

    A proposal is {"id", "kind", "program", "input"}; an attempt also has "answer" and "output", or for code_f "answer",
    "message", "examples" and "hidden" instead. All values are texts of Python literals.
    """
    from redqueen.commands.verify import run_verify

    raise typer.Exit(run_verify(file, jobs, unsafe=unsafe_no_isolation))


@app.command()
def doctor() -> None:
    """Check devices, versions, the model cache and the sandbox; the exit code tells."""
    from redqueen.commands.doctor import run_doctor

    raise typer.Exit(run_doctor())


def _replace_closed_streams() -> None:
    """Occupies the descriptors of standard streams that were closed when the process started (`2>&-`)."""
    # Otherwise the next file or socket that is opened gets such a number, and whoever writes to standard error writes
    # there. Python itself has None where it found no standard error. Input stays unreadable.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY)
    if not hasattr(sys.stderr, "write"):
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


def main() -> None:
    """Runs the command line. A UserError is printed as one line; any other error is our bug and keeps its traceback."""
    _replace_closed_streams()
    # These variables are read when the libraries are loaded, so they are set before any command imports them. Values
    # that the user has set stay.
    #
    # Idle OpenMP threads spin by default, which slows everything down when another process wants the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Tokenizers print a warning after a fork unless this is set.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.stderr.isatty():
        # In a log, a progress bar of a library is hundreds of lines.
        os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        app()
    except UserError as error:
        typer.echo(f"redqueen: {error}", err=True)
        sys.exit(2)
