"""The commands that read a run: what it made, what it means, and what its members can do."""

# ruff: noqa: PLC0415 - torch and transformers are imported when a command runs, as in `redqueen.cli.app`

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from redqueen.cli import examples
from redqueen.cli.options import AsJson, AsOf, LoadPlugins, Member, OfKind, Plugins, Push, Run, Unsafe, say_loading
from redqueen.errors import UserError
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.allowed import Permissions
from redqueen.store.directory import RunDirectory, check_free
from redqueen.store.files import quoted

runs = typer.Typer()


def _complete_benchmarks(context: typer.Context, incomplete: str) -> list[str]:
    """Returns what a shell may complete in a list of benchmarks, those of the modules under --plugins among them."""
    from redqueen.evals.registry import chosen, groups, names
    from redqueen.plugins import load

    try:
        load(filter(None, (context.params.get("plugins") or "").split(",")))
        chosen(())
    except UserError:
        # The command itself says what is wrong with the module.
        return []
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in (*groups(), *names(), "own") if word.startswith(last)]


@runs.command(epilog=examples.EXPORT)
def export(
    run: Run,
    member: Member,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    step: AsOf = None,
    merge: Annotated[bool, typer.Option("--merge", help="Write a whole model instead, which needs no PEFT.")] = False,
    push: Push = None,
) -> None:
    """Write a member as a PEFT folder with a card.

    The card says how to load, serve and publish it. A member that was replaced can be written as long as a checkpoint
    from its life is kept (run.keep_every=1 keeps all).
    """
    from redqueen.cli.pushing import hub
    from redqueen.cli.pushing import push as publish
    from redqueen.store.lineage import kept_step

    # These answers come at once; what follows imports torch.
    check_free(out)
    kept_step(RunDirectory(run), member, step)
    library = hub(push)
    from redqueen.members.exporting import export as write
    from redqueen.run.recording.lines import Lines

    console = PlainConsole(soft_wrap=True)
    found = write(run, member, out, step, Lines(console), merge=merge)
    what = "a whole model" if merge else "a PEFT adapter"
    console.print(f"wrote {found.member.name} ({found.member.role}) after step {found.saved.step} to {out}, as {what}")
    console.print(f"how to use it: {out / 'README.md'}")
    if push is not None:
        publish(library, out, push, "model", console)


@runs.command(epilog=examples.ASK)
def ask(
    run: Run,
    member: Annotated[
        str, typer.Argument(metavar="[MEMBER]", help="A member's name, best-student, best-teacher or base.")
    ] = "best-student",
    question: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUESTION]...",
            help="Lines of a question, a file, - or a task's id (default: a conversation, also from a pipe).",
            show_default=False,
        ),
    ] = None,
    step: AsOf = None,
    attempts: Annotated[
        int, typer.Option(min=1, metavar="N", help="Answers to sample as in the run; 1 is greedy.")
    ] = 1,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Pose tasks to a member and judge its answers.

    A question is a program and a line with a question mark, f(4) == ? or f(?) == 8, or a line "# what to do" and
    examples f(1) == 2, one a line. A task of the run has the id that redqueen show prints; a seed task is seed-12.
    Without a question it is a conversation, in which teachers propose tasks too: its word help says how.
    """
    from redqueen.members.question import asked_lines, checked_member

    allowed = Permissions(load_plugins, unsafe_no_isolation)
    directory = checked_member(run, member, step, allowed)
    lines = asked_lines(directory, question) if question else []
    say_loading(member)
    from redqueen.cli.ask import run_ask, run_conversation

    if question:
        raise typer.Exit(run_ask(run, member, lines, step, attempts, allowed))
    raise typer.Exit(run_conversation(run, member, step, attempts, allowed))


@runs.command(epilog=examples.SHOW)
def show(
    run: Run,
    step: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only step N.")] = None,
    member: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this member proposed or attempted.")
    ] = None,
    kind: OfKind = None,
    best: Annotated[
        bool, typer.Option("--best", help="Best paid first: for the member, else for the teacher.")
    ] = False,
    worst: Annotated[bool, typer.Option("--worst", help="Worst paid first, refused proposals among them.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many are shown.")] = 5,
    load_plugins: LoadPlugins = False,
) -> None:
    """Show tasks and answers of a run.

    The newest come first. The question is written as redqueen ask reads it.
    """
    from redqueen.cli.show import run_show

    if best and worst:
        raise UserError("choose one of --best and --worst")
    order = "best" if best else "worst" if worst else "newest"
    raise typer.Exit(run_show(run, step, member, kind, order, limit, Permissions(load_plugins)))


@runs.command(name="eval", epilog=examples.EVAL)
def evaluate(
    targets: Annotated[list[str], typer.Argument(metavar="TARGET...", help="Runs, PEFT folders, warm-start, base.")],
    benchmarks: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Names with commas between them, code, maths or all (default: reserved, and own if there are any).",
            autocompletion=_complete_benchmarks,
        ),
    ] = None,
    plugins: Plugins = "",
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of the files (default: the Hugging Face hub).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N problems of each.")] = None,
    samples: Annotated[int, typer.Option(min=1, metavar="K", help="Answers to each problem.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, metavar="T", help="0: the likeliest token each time.")] = 0.0,
    template: Annotated[
        Literal["chat", "completion", "work", "standard"] | None,
        typer.Option(help="How problems are written; standard: each benchmark's own (default: as the run's)."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Longest answer (default: each benchmark's own).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep samples and results there; go on with what it has.")
    ] = None,
    members: Annotated[
        str, typer.Option(metavar="WHICH", help="Which living members of a run: students, all or a name.")
    ] = "students",
    step: Annotated[
        str | None,
        typer.Option(metavar="N|all", help="The step of runs' checkpoints; all: the curves of runs (default: newest)."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Base of the targets that are no run: id or folder.")
    ] = None,
    as_json: AsJson = False,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Score adapters and the base on held-out problems.

    By default these are the reserved programs, on which no run trains, and "own": what a run held out of your tasks.
    All targets answer the same problems, side by side. docs/EVALUATION.md lists benchmarks, and where their data are.
    """
    from redqueen.evals.registry import chosen

    _check_targets(targets, members)
    # Own benchmarks are known only once their modules are imported.
    if benchmarks is not None and not plugins and not load_plugins:
        chosen(benchmarks.split(","), of_runs=True)
    say_loading()
    from redqueen.cli.eval import as_step, run_eval
    from redqueen.members.evaluating import EvalOptions

    wanted = EvalOptions(
        benchmarks=None if benchmarks is None else benchmarks.split(","),
        plugins=[module for module in plugins.split(",") if module],
        data=data,
        limit=limit,
        samples=samples,
        temperature=temperature,
        template=template,
        max_tokens=max_tokens,
        out=out,
        step=as_step(step),
        allowed=Permissions(load_plugins, unsafe_no_isolation),
    )
    raise typer.Exit(run_eval(targets, members, model, wanted, as_json=as_json))


def _check_targets(targets: list[str], name: str) -> None:
    """Raises UserError if a target does not exist, RunError if a member never lived in one of these runs.

    These answers come before torch is imported, which takes seconds.
    """
    from redqueen.evals.target_words import check_different, check_target, is_run

    for target in targets:
        check_target(target)
    check_different(targets)
    if name in ("students", "all"):
        return
    from redqueen.store.lineage import check_name

    for target in targets:
        if is_run(target):
            check_name(RunDirectory(Path(target)), name)


tasks = typer.Typer(
    help="Export the tasks of a run, or import tasks as seeds.", epilog=examples.TASKS, no_args_is_help=True
)
runs.add_typer(tasks, name="tasks")


@tasks.command(name="export", epilog=examples.TASKS_EXPORT)
def tasks_export(
    run: Run,
    out: Annotated[str, typer.Option(metavar="OUT", help="FILE.parquet, FILE.jsonl, or a folder: a whole data set.")],
    kind: OfKind = None,
    solve_rate: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LOW HIGH", help="Only tasks with such a solve rate.")
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Only one task of each kind and program, up to names and constants.")
    ] = False,
    form: Annotated[
        Literal["verifiers"] | None,
        typer.Option("--format", help="verifiers: OUT is a package with a taskset (default: a data set)."),
    ] = None,
    push: Push = None,
) -> None:
    """Write the tasks of a run as a data set, or as an environment for verifiers.

    pandas and datasets.load_dataset read it; docs/DATA.md explains the columns. A folder also has a card and can be
    published as it is. Tasks on programs that are similar to a reserved one are left out and counted: models are only
    measured on those.
    """
    from redqueen.cli.tasks_export import run_tasks_export
    from redqueen.store.dataset import TaskFilter

    wanted = TaskFilter(kind=kind, solve_rate=solve_rate, distinct=distinct)
    raise typer.Exit(run_tasks_export(run, out, wanted, for_verifiers=form == "verifiers", repository=push))


@tasks.command(name="import", epilog=examples.TASKS_IMPORT)
def tasks_import(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="FILE.parquet, FILE.jsonl, or a folder that tasks export wrote.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="OUT", help="What to write: SEEDS.txt for programs with inputs, else TASKS.jsonl.")
    ],
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Make a file that a run takes of your own tasks.

    Programs with inputs become a seed file (game.seeds=SEEDS.txt), which is text and can be edited; prompts with tests,
    as in MBPP or APPS, and questions as in GSM8K become a file for game.tasks. The form is told by the columns
    (docs/YOUR_TASKS.md). Every program runs in the sandbox; rows that are refused are listed with the reason.
    """
    from redqueen.cli.tasks_import import run_tasks_import

    raise typer.Exit(run_tasks_import(file, out, unsafe=unsafe_no_isolation))


def describe(directory: RunDirectory, asked: int | None = None) -> int:
    """Prints what is in a run directory and what can be done with it; returns 0 if the run is complete, else 1.

    `asked` is the number of steps that a resume asked for and that are done already.
    """
    console = PlainConsole(soft_wrap=True)
    path = quoted(directory.path)
    config = directory.config()
    saved = directory.saved()
    # What has no checkpoint is not done: a resume would play it again.
    done = saved[-1] if saved else 0
    steps = config.run.steps
    console.print(
        f"{directory.path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed."
    )
    if asked is not None and asked < done:
        console.print(
            f"  --steps {asked} asks for fewer than are done: a run can only go on. redqueen eval {path} --step N"
        )
        console.print("                evaluates an earlier checkpoint")
    if done < steps and saved:
        console.print(f"  resume:       redqueen train --resume {path}")
    if saved:
        console.print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    console.print(f"  start again:  add --run runs/ANOTHER to the command, or move {path} away")
    return 0 if done >= steps else 1
