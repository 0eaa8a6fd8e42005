"""The commands of the studies: lineage, retention, ancestry, sweep, transfer."""

# ruff: noqa: PLC0415 - torch and matplotlib are imported when a command runs, as in `redqueen.cli.app`

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from redqueen.cli.options import AsJson, Figure, LoadPlugins, Overrides, Run, Unsafe, command, say_loading
from redqueen.config.recipes import check_repeats
from redqueen.store.allowed import Permissions


@command("redqueen lineage runs/quickstart", "redqueen lineage runs/quickstart --figure tree.svg")
def lineage(run: Run, as_json: AsJson = False, figure: Figure = None) -> None:
    """Print the family tree of a run.

    It says who descends from whom, by which operator, and what became of each member.
    """
    # The text needs no matplotlib, so the figure is a module of its own.
    if figure is not None:
        from redqueen.extras.studies.lineage_figure import run_lineage_figure

        run_lineage_figure(run, figure)
    from redqueen.extras.studies.lineage import run_lineage

    raise typer.Exit(run_lineage(run, as_json=as_json))


@command(
    "redqueen retention runs/quickstart --seeds 2 --updates 2 --tasks 3",
    "redqueen retention runs/quickstart --figure retention.png",
)
def retention(
    run: Run,
    step: Annotated[
        int | None, typer.Option(metavar="N", help="The checkpoint after N steps (default: the newest).")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Repetitions, each with its own tasks and children.")
    ] = 3,
    updates: Annotated[int, typer.Option(min=1, metavar="N", help="Updates of each child.")] = 20,
    tasks: Annotated[int, typer.Option(min=1, metavar="N", help="Reserved tasks that reward is measured on.")] = 24,
    as_json: AsJson = False,
    figure: Figure = None,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Measure what children keep of their parents.

    One child is made with each operator and control, and all are trained alike. The table says how far each fell behind
    its parent, and after how many updates it reached the parent's level. The defaults are 3 seeds of 12 children with
    20 updates each: on a CPU begin with the first example, which is much smaller.
    """
    from redqueen.extras.studies.retention import RetentionPlan

    say_loading()
    from redqueen.extras.studies.retention_command import run_retention

    plan = RetentionPlan(seeds, updates, tasks)
    allowed = Permissions(load_plugins, unsafe_no_isolation)
    raise typer.Exit(run_retention(run, step, plan, allowed, as_json=as_json, figure=figure))


@command("redqueen ancestry runs/quickstart", "redqueen ancestry runs/quickstart --attempts 4 --figure ancestry.png")
def ancestry(
    run: Run,
    epochs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Largest number of stages of the run to compare.")
    ] = 10,
    tasks: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks of each stage.")] = 12,
    attempts: Annotated[int, typer.Option(min=1, metavar="N", help="Attempts of each student at each task.")] = 1,
    students: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the fittest students of each stage play.")
    ] = 1,
    as_json: AsJson = False,
    figure: Figure = None,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Play students of all stages against old tasks.

    Students from all stages of the run attempt tasks from all stages. The table says whether students made progress,
    went in cycles or collapsed. Keep the checkpoints of a long run for it: run.keep_every=5.
    """
    say_loading()
    from redqueen.extras.studies.ancestry_command import run_ancestry

    allowed = Permissions(load_plugins, unsafe_no_isolation)
    raise typer.Exit(run_ancestry(run, epochs, tasks, attempts, students, allowed, as_json=as_json, figure=figure))


@command(
    "redqueen sweep --grid matched=none,per_adapter,total --seeds 3 --out sweeps/matched",
    "redqueen sweep population_4t4s run.steps=20 --grid learning.lr=5e-5,1e-4 --out sweeps/lr",
    settings=True,
)
def sweep(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the sweep; an unfinished sweep in it is continued.")
    ],
    args: Overrides = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,VALUE", help="Values to try; a value with commas in [brackets]. Repeatable."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each combination, from run.seed on.")] = 3,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs at once; share the cores with model.threads=N.")
    ] = 1,
    probe: Annotated[
        int, typer.Option(min=0, metavar="N", help="Held-out tasks the last students are scored on; 0: none.")
    ] = 63,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a grid of settings with several seeds.

    Each combination is trained with each seed; a table shows means with 95 % intervals.
    """
    check_repeats(args or [])
    from redqueen.extras.studies.sweep import print_plan

    print_plan(args or [], grid or [], seeds, out, jobs, probe)
    if dry_run:
        raise typer.Exit
    from redqueen.extras.studies.sweep_command import run_sweep

    raise typer.Exit(run_sweep(args or [], grid or [], seeds, out, jobs, probe, as_json=as_json))


@command(
    "redqueen transfer runs/overnight --out transfer/overnight",
    "redqueen transfer runs/single runs/population --seeds 4 --out transfer/both run.steps=60",
    settings=True,
)
def transfer(
    args: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... [KEY=VALUE]...",
            help="The runs' directories, or files of their tasks; then settings of the strangers.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the strangers; what is done in it is kept.")],
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Strangers of each curriculum.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Strangers trained at once.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Try the tasks of runs on strangers.

    Fresh students are trained on the tasks that each run wrote at its beginning and at its end, and on the seed
    programs, all with equal budgets. The table says how much each gained on held-out tasks. A file is one of redqueen
    tasks export; strangers of files alone start from the bundled model, unless model.name says otherwise.
    """
    paths = [Path(arg) for arg in args if _is_path(arg)]
    overrides = [arg for arg in args if not _is_path(arg)]
    check_repeats(overrides)
    say_loading()
    from redqueen.extras.studies.transfer import run_transfer

    raise typer.Exit(run_transfer(paths, overrides, seeds, out, jobs, as_json=as_json))


def _is_path(arg: str) -> bool:
    """Returns whether an argument names a run or a file; others are settings."""
    # The runs of a sweep have an equals sign in their paths, and no key has a slash.
    return "=" not in arg or "/" in arg.partition("=")[0] or os.path.exists(arg)
