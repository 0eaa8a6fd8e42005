"""What an extra offers as a command: a function whose parameters Typer reads, and the examples that its help shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import typer

from redqueen import extras
from redqueen.cli.examples import examples

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
