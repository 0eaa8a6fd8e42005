"""What commands share: options, what they say while they load, and how the command of an extra is added."""

# ruff: noqa: PLC0415 - a shell that completes a word waits for no library

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from redqueen import extras
from redqueen.cli.examples import examples
from redqueen.config import Config
from redqueen.config.keys import keys as all_keys
from redqueen.config.recipes import RECIPES


def _kinds(incomplete: str) -> list[str]:
    """Returns what a shell may complete where a kind is named."""
    from redqueen.tasks.kinds import names

    return [name for name in names() if name.startswith(incomplete)]


Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run's directory.")]
Member = Annotated[str, typer.Argument(metavar="MEMBER", help="A member's name, best-student or best-teacher.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
AsOf = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="As it was after N steps (default: as late as it is kept).")
]
LoadPlugins = Annotated[
    bool, typer.Option("--load-plugins", help="Import the modules that the run's config.json names; they run as you.")
]
Unsafe = Annotated[
    bool, typer.Option("--unsafe-no-isolation", help="Run programs although this machine cannot isolate them.")
]
OfKind = Annotated[str | None, typer.Option(metavar="KIND", help="Only tasks of this kind.", autocompletion=_kinds)]
Plugins = Annotated[
    str, typer.Option(metavar="MODULES", help="Modules of your own, with commas between them; they run as you.")
]
Push = Annotated[
    str | None,
    typer.Option(metavar="USER/NAME", help="Also publish it on the Hugging Face hub, as a private repository."),
]
Figure = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it: FILE.png or FILE.svg.")]


def say_loading(what: str = "PyTorch") -> None:
    """Says in a terminal, where a person waits, that the libraries, and `what` with them, are being loaded."""
    if sys.stderr.isatty():
        typer.echo(f"loading {what} ...", err=True)


def _complete(incomplete: str) -> list[str]:
    """Returns what a shell may complete among the arguments: recipes and settings."""
    words = [*RECIPES, *(f"{key}=" for key in all_keys(Config))]
    return [word for word in words if word.startswith(incomplete)]


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE] [KEY=VALUE]...",
        help="A recipe (see redqueen recipes), then settings (see redqueen keys).",
        show_default=False,
        autocompletion=_complete,
    ),
]
Model = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Hugging Face id or local folder; short for model.name=MODEL.")
]

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings in TOML or YAML (see redqueen init), or a run's config.json."
    ),
]


# What an extra offers as a command: a function whose parameters Typer reads, and the examples that its help shows.

# An option that a command does not have is left among the arguments, so that `configure` can say what was meant.
SETTINGS = {"ignore_unknown_options": True}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    function: Callable[..., Any]
    epilog: str
    takes_settings: bool
    """Whether its arguments hold settings of a run."""


def command(*commands: str, settings: bool = False) -> Callable[[Callable[..., Any]], Command]:
    """Returns a decorator that makes a command of a function; its help shows `commands` as examples."""
    return lambda function: Command(function, examples(*commands), settings)


def add_commands(app: typer.Typer) -> None:
    """Adds the commands of the extras. One whose extra is not installed says so."""
    for name in extras.names("command"):
        found: Command = extras.find("command", name)
        context = SETTINGS if found.takes_settings else {}
        app.command(name=name, epilog=found.epilog, context_settings=context)(found.function)
    for name in extras.missing("command"):
        context = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command(name=name, hidden=True, context_settings=context)(_refusal(name))


def _refusal(name: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        extras.require("command", name)
        raise AssertionError(name)

    return refuse
