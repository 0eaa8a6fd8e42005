"""The command line: parses arguments and hands them to `redqueen.cli`."""

# Importing torch and transformers takes seconds. What needs them is imported inside the commands, so that `--help`,
# `--version` and a mistyped option answer at once (held by tests/cli/test_main.py).

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from redqueen import __version__
from redqueen.base.machine import set_library_defaults
from redqueen.base.optional import TRAINING, missing
from redqueen.cli import examples
from redqueen.cli.app_runs import describe, runs
from redqueen.cli.options import (
    SETTINGS,
    AsJson,
    ConfigFile,
    LoadPlugins,
    Model,
    Overrides,
    Unsafe,
    add_commands,
    say_loading,
)
from redqueen.config import Config, ConfigError
from redqueen.config.files import is_settings
from redqueen.config.recipes import check_repeats, configure, recipe_for, settings_of
from redqueen.engine.model import check_files, check_model
from redqueen.errors import UserError
from redqueen.jail.probes import IsolationError, hear_of_children
from redqueen.method.reward_probe import check_advantage, check_rewards
from redqueen.store.allowed import check_same, remaining, with_own_parts
from redqueen.store.directory import RunDirectory, read_config
from redqueen.store.files import printable

app = typer.Typer(
    help="Post-train language models by co-evolving teacher and student LoRA populations.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


_REPEATABLE = (("sweep", "--grid"), ("keys", "--plugins"))
"""The options that a command takes several times."""


def _unsafe(wanted: bool) -> list[str]:
    return ["sandbox.unsafe_no_isolation=true"] if wanted else []


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redqueen {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


@app.command(epilog=examples.TRAIN, context_settings=SETTINGS)
def train(
    args: Overrides = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's directory (default: runs/RECIPE).")] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Short for run.steps=N; extends a run with --resume.")
    ] = None,
    model: Model = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Short for model.workers=N, processes on a CPU.")
    ] = None,
    matched: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Train the recipe's single agent, equal in compute: per_adapter or total."),
    ] = None,
    config_file: ConfigFile = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this directory.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, say whether it would fit, and stop.")
    ] = False,
    gpu: Annotated[
        str | None,
        typer.Option("--for", metavar="SIZE", help="With --dry-run: plan for a GPU of this memory, e.g. 80GiB."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: print every setting as JSON, and the memory by parts.")
    ] = False,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="[ADDRESS]",
            help="Use the machines of a Ray cluster; without an address, one that is started here (docs/SCALING.md).",
        ),
    ] = None,
) -> None:
    """Train a population, or continue a run.

    Each step has five phases: match, propose, solve, learn, evolve.
    """
    args = _with_recipe(args or [], model, chosen=config_file is not None or resume is not None)
    short = {"model.workers": workers, "cluster.address": ray}
    given = [f"{key}={value}" for key, value in short.items() if value is not None]
    overrides = [*args, *_unsafe(unsafe_no_isolation), *given]
    options = {"run.steps": steps, "model.name": model, "matched": matched}
    check_repeats(overrides, [key for key, value in options.items() if value is not None])
    if resume:
        if run or model or matched or config_file:
            raise ConfigError("a resumed run keeps its directory and its model: leave out --run, --model and the like")
        if dry_run or gpu is not None or as_json:
            raise ConfigError("a plan is of a new run: leave out --resume, or --dry-run, --for and --json")
        with_steps = [*overrides, *([] if steps is None else [f"run.steps={steps}"])]
        _resume(RunDirectory(resume), with_steps, load_plugins=load_plugins)
    if as_json and not dry_run:
        raise ConfigError("--json prints a plan: add --dry-run")
    config = configure(overrides, steps, model, matched, _start(config_file) if config_file else None)
    if gpu is not None and not dry_run:
        raise ConfigError("--for plans a run on another machine: add --dry-run")
    # A plan shows what a configuration says, and imports for it only what it is told to.
    if load_plugins or not dry_run:
        config = with_own_parts(config, config_file or "the command line", allowed=load_plugins)
    # What a folder's config.json tells costs no second, and what comes next imports torch.
    check_model(config.model)
    if dry_run:
        _plan(config, gpu, as_json=as_json)
    _train_new(config, RunDirectory(run or Path("runs") / config.recipe.replace(" ", "_")))


def _with_recipe(args: list[str], model: str | None, *, chosen: bool) -> list[str]:
    """Returns the arguments with a recipe in front that suits the model's size, where a model is given without one."""
    named = model or next((word.partition("=")[2] for word in args if word.startswith("model.name=")), None)
    if named is None or chosen or (args and "=" not in args[0]):
        return args
    found = recipe_for(named)
    if found is None:
        return args
    recipe, billions = found
    size = f"{named} has about {billions:.2g} billion parameters"
    typer.echo(f"{size}: recipe {recipe}. Name another to choose", err=True)
    return [recipe, *args]


def _plan(config: Config, gpu: str | None, *, as_json: bool) -> NoReturn:
    """Prints whether a run would fit, and its configuration if that is asked for; ends with the exit code."""
    size = None if gpu is None else memory_size(gpu)
    # A plan for another machine needs no weights here.
    if gpu is None:
        check_files(config.model)
    typer.echo(f"planning {config.recipe} ...", err=True)
    from redqueen.cli.dry_run import print_plan

    code = print_plan(config, size, parts=as_json)
    if as_json:
        typer.echo(config.model_dump_json(indent=2))
    raise typer.Exit(code)


def _train_new(config: Config, directory: RunDirectory) -> NoReturn:
    """Ends with the exit code of a new run, or of a description if there is one already."""
    check_files(config.model)
    check_rewards(config.game)
    check_advantage(config.advantage_settings)
    # The same command twice must not destroy a run, and it should tell a person how to go on.
    if directory.exists and not directory.unstarted:
        check_same(directory, config)
        raise typer.Exit(describe(directory))
    say_loading()
    from redqueen.cli.train import shown
    from redqueen.run.session import start

    raise typer.Exit(shown(config.run.steps, directory, lambda attached: start(config, directory, attached)))


@app.command(epilog=examples.GROW, context_settings=SETTINGS)
def grow(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Your tasks: a file of programs, rows of redqueen tasks export, or a run."),
    ],
    args: Overrides = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="The run's directory (default: runs/grow).")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Short for run.steps=N.")] = None,
    model: Model = None,
    load_plugins: LoadPlugins = False,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Train on your own tasks and on what a teacher makes of them.

    Some of your tasks are held out. What it found and holds out is said first, and at the end what students solve of
    the held-out ones beside the start. It is the recipe grow with your file as game.seeds or game.tasks.
    """
    from redqueen.cli.grow import grown, introduce_own

    options = {"run.steps": steps, "model.name": model}
    overrides = [*(args or []), *_unsafe(unsafe_no_isolation)]
    check_repeats(overrides, [key for key, value in options.items() if value is not None])
    config = with_own_parts(grown(file, overrides, steps, model), "the command line", allowed=load_plugins)
    check_model(config.model)
    introduce_own(config.game, config.evals, config.population, config.run.steps)
    _train_new(config, RunDirectory(run or Path("runs") / "grow"))


def _start(file: Path) -> Config:
    """Returns the configuration in a file of settings or in a run's config.json."""
    if not is_settings(file) and file.suffix != ".json" and file.is_file():
        raise ConfigError(f"--config {file}: the file's name must end in .toml, .yaml or .json")
    return settings_of(file) if is_settings(file) else read_config(file)


def memory_size(text: str) -> int:
    """Returns the bytes of a size like 80GiB, 80G or 141GB. Raises ConfigError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(GiB|GB|G|MiB|MB|M)B?", text.strip(), re.IGNORECASE)
    if match is None or not float(match[1]):
        raise ConfigError(f"--for={text} is no size of memory: write it like 80GiB or 141GB")
    number, unit = match.groups()
    base = 1000 if unit.upper() in ("GB", "MB") else 1024
    return int(float(number) * base ** (3 if unit.upper().startswith("G") else 2))


def _resume(directory: RunDirectory, overrides: list[str], *, load_plugins: bool) -> NoReturn:
    """Ends with the exit code of the resumed run, or of a description if nothing is left to do."""
    config = remaining(directory, overrides)
    if config is None:
        asked = any(word.lstrip("-").startswith("run.steps=") for word in overrides)
        steps = directory.config().override(overrides).run.steps
        raise typer.Exit(describe(directory, steps if asked else None))
    config = with_own_parts(config, directory.config_file, allowed=load_plugins)
    say_loading()
    from redqueen.cli.train import shown
    from redqueen.run.session import resume

    given = {override.partition("=")[0].strip().lstrip("-") for override in overrides}
    code = shown(config.run.steps, directory, lambda attached: resume(config, directory, attached, given))
    raise typer.Exit(code)


@app.command(epilog=examples.INIT)
def init(
    name: Annotated[
        str, typer.Argument(metavar="[RECIPE]", help="The recipe whose settings are written (default: quickstart).")
    ] = "quickstart",
    out: Annotated[Path, typer.Option(metavar="FILE", help="FILE.toml or FILE.yaml.")] = Path("redqueen.toml"),
) -> None:
    """Write a file of settings.

    It holds every setting with what it means; those that the recipe changes are set, the others are comments.
    """
    from redqueen.cli.reference import run_init

    raise typer.Exit(run_init(name, out))


@app.command(epilog=examples.RECIPES)
def recipes(
    cards: Annotated[
        bool, typer.Option("--cards", help="Print which recipe fits which GPU, with modelled hours, in Markdown.")
    ] = False,
) -> None:
    """List the recipes."""
    if cards:
        typer.echo("planning every recipe for every card ...", err=True)
        from redqueen.cli.dry_run import run_cards

        raise typer.Exit(run_cards())
    from redqueen.cli.reference import run_recipes

    raise typer.Exit(run_recipes())


@app.command(epilog=examples.KEYS)
def keys(
    part: Annotated[
        str | None, typer.Argument(metavar="[SECTION]", help="A section, or a part of a name (default: all).")
    ] = None,
    plugins: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="Import this module, whose parts are listed as well.")
    ] = None,
) -> None:
    """List the settings, one sentence each."""
    from redqueen.cli.reference import run_keys

    raise typer.Exit(run_keys(part, plugins or ()))


@app.command(epilog=examples.WARM_START, context_settings=SETTINGS)
def warm_start(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the adapter (PEFT format).")],
    args: Overrides = None,
    model: Model = None,
    steps: Annotated[str, typer.Option(metavar="N,N,...", help="Optimizer steps of each round.")] = "150,60,60",
    proposals: Annotated[
        str, typer.Option(metavar="N,N,...", help="Proposals of each kind that the model tries between two rounds.")
    ] = "160,160",
    lessons: Annotated[
        int, typer.Option(metavar="N", help="Lessons in a step: a proposal, four answers, two functions each.")
    ] = 8,
    lr: Annotated[float, typer.Option(metavar="LR", help="Learning rate.")] = 3e-3,
    answers_alone: Annotated[
        bool,
        typer.Option(
            "--answers-alone", help="Learn half of the answers without the inputs before them: for long inputs."
        ),
    ] = False,
    answers: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="More answers in a lesson, about other programs: work takes practice."),
    ] = 0,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Fit the adapter that members start from.

    It learns from verified tasks by imitation; use it with population.init=OUT. The first round learns from the seed
    programs; each later one also from what the model itself proposed and the verifier accepted. OUT has the adapter of
    every tenth step while the fit goes on, so that one that was lost can go on with population.init=OUT.
    """
    check_repeats(args or [], [] if model is None else ["model.name"])
    config = configure([*(args or []), *_unsafe(unsafe_no_isolation)], model=model)
    say_loading()
    from redqueen.cli.warm_start import run_warm_start

    # The arguments that give the same configuration, for the record next to the adapter.
    used = [*(args or []), *([f"model.name={model}"] if model else [])]
    code = run_warm_start(
        out, config, used, steps, proposals, lessons, lr, answers_alone=answers_alone, answers=answers
    )
    raise typer.Exit(code)


@app.command(epilog=examples.VERIFY)
def verify(
    file: Annotated[str, typer.Argument(metavar="FILE.jsonl", help="One JSON object a line; - reads standard input.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Programs run at once (default: one for each core).")
    ] = None,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Judge proposals and attempts from a file.

    The answer is one JSON verdict a line, in the same order. A proposal is {"id", "kind", "program", "input"}; an
    attempt also has "answer" and "output", or for code_f "answer", "message", "examples" and "hidden" instead. All
    values are texts of Python literals. The exit code is 0 even if some lines could not be judged: the verdict on such
    a line says why.
    """
    from redqueen.cli.verify import run_verify

    raise typer.Exit(run_verify(file, jobs, unsafe=unsafe_no_isolation))


@app.command(epilog=examples.DOCTOR)
def doctor(as_json: AsJson = False) -> None:
    """Check this machine; exit code 1 if it fails.

    It looks at devices, versions, memory, disk, the model cache and the sandbox.
    """
    from redqueen.cli.doctor import run_doctor

    raise typer.Exit(run_doctor(as_json=as_json))


jail = typer.Typer(
    help="The jail as a service, for trainers that call SandboxFusion.", epilog=examples.JAIL, no_args_is_help=True
)
app.add_typer(jail, name="jail")


@jail.command(epilog=examples.JAIL)
def serve(
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any free one.")] = 8080,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="0.0.0.0: every machine that reaches this one may run programs.")
    ] = "127.0.0.1",
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Programs at a time (default: cores).")
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="The most CPU seconds of a program.")] = 60.0,
    memory: Annotated[int, typer.Option(metavar="MIB", min=16, help="The most MiB of a program.")] = 2048,
    unsafe_no_isolation: Unsafe = False,
) -> None:
    """Answer SandboxFusion's POST /run_code for Python: code, stdin, run_timeout, memory_limit_MB.

    Clients of verl, tinker-cookbook and SandboxFusion need only the address that is printed. Files and other languages
    are refused by name. docs/JAIL.md has the rest.
    """
    from redqueen.cli.jail_serve import run_jail_serve
    from redqueen.jail.service import RequestLimits

    most = RequestLimits(seconds=seconds, memory_mb=memory)
    raise typer.Exit(run_jail_serve(host, port, workers, most, unsafe=unsafe_no_isolation))


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


def _escape_what_cannot_be_printed() -> None:
    """Lets a stream escape the characters that its encoding does not have, where it would raise an error."""
    # Tables have signs such as ±, and a model may write anything, half a surrogate pair included.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


app.add_typer(runs)
add_commands(app)


def with_address(arguments: list[str]) -> list[str]:
    """Returns the arguments with an address after each `--ray`: what follows it if that can be one, else `local`."""
    # Typer has no option whose value may be left out. A recipe has no colon, and a setting has an equals sign.
    words: list[str] = []
    for argument in arguments:
        if words and words[-1] == "--ray":
            is_address = argument == "auto" or (":" in argument and "=" not in argument)
            words[-1] = f"--ray={argument if is_address else 'local'}"
            if is_address:
                continue
        words.append(argument)
    return [*words[:-1], "--ray=local"] if words and words[-1] == "--ray" else words


def check_once(arguments: list[str]) -> None:
    """Raises ConfigError if an option is given twice: typer would take the last without a word."""
    seen: set[str] = set()
    for argument in arguments:
        if argument == "--":
            return
        name = argument.partition("=")[0]
        # The name of a setting has a point; what it is given for twice is said by `check_repeats`.
        if not name.startswith("--") or "." in name or (arguments[0], name) in _REPEATABLE:
            continue
        if name in seen:
            raise ConfigError(f"{name} is given twice: write it once")
        seen.add(name)


def check_command(arguments: list[str]) -> None:
    """Raises UserError for the word that other programs take for --help."""
    if arguments[:1] == ["help"]:
        raise UserError(
            "there is no command 'help': redqueen --help lists the commands, redqueen COMMAND --help explains one"
        )


def main() -> None:
    """Runs the command line. A UserError is printed as one line; any other error is our bug and keeps its traceback."""
    _replace_closed_streams()
    hear_of_children()
    _escape_what_cannot_be_printed()
    set_library_defaults()
    if not sys.stderr.isatty():
        # In a log, a progress bar of a library is hundreds of lines.
        os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        check_command(sys.argv[1:])
        check_once(sys.argv[1:])
        app(with_address(sys.argv[1:]))
    except (UserError, IsolationError) as error:
        # An error may name what is in a file that somebody else wrote.
        typer.echo(printable(f"redqueen: {error}"), err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        # A command that trains, draws or loads a model, in an install that judges. Any other is our bug.
        if library not in TRAINING:
            raise
        typer.echo(f"redqueen: {missing(library, 'train', 'this command')}", err=True)
        sys.exit(2)
