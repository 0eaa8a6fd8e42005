"""`redqueen recipes`, `redqueen keys` and `redqueen init`: what there is to choose from."""

# No import here may load torch: these answers come at once (see `redqueen.cli.app`).

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from redqueen.config import Config
from redqueen.config.files import is_settings, write_settings
from redqueen.config.keys import FIRST, Key, describe, unknown_key
from redqueen.config.recipes import RECIPES, recipe
from redqueen.errors import UserError
from redqueen.plugins import load
from redqueen.run.recording.plain_console import table_console
from redqueen.store.files import quoted


def run_recipes() -> int:
    """Prints every recipe with its sentence; returns the exit code."""
    table = Table.grid(padding=(0, 2))
    for name, made in RECIPES.items():
        table.add_row(name, Text(inspect.getdoc(made) or ""))
    console = table_console()
    console.print(table)
    console.print(
        "\nTrain one: redqueen train RECIPE [KEY=VALUE ...]. Its settings: redqueen train RECIPE --dry-run --json.\n"
        "--matched per_adapter|total trains a recipe's single agent instead, with equal compute (docs/ALGORITHM.md).",
        soft_wrap=True,
        markup=False,
    )
    return 0


def run_keys(part: str | None, modules: Sequence[str] = ()) -> int:
    """Prints all keys, those of the section `part`, or those whose name contains it; returns the exit code.

    Of all keys, those that people touch first come first. The parts that `modules` register are listed with the others.
    Raises UserError if there are no such keys, PluginError if a module cannot be imported.
    """
    load(modules)
    described = matching(describe(Config), part)
    console = table_console()
    if part is None:
        first = {key.name: key for key in described if key.name in FIRST}
        console.print(_table([first[name] for name in FIRST]))
        console.print("\nThese are the settings that people touch first. The rest:\n")
        described = [key for key in described if key.name not in FIRST]
    console.print(_table(described))
    console.print(
        "\nThe second column is the value without a recipe. redqueen train RECIPE --dry-run --json shows a recipe's."
    )
    return 0


def _table(keys: Sequence[Key]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, max_width=20)
    table.add_column()
    for key in keys:
        table.add_row(key.name, Text(key.default or "-", overflow="ellipsis"), Text(key.meaning))
    return table


def matching(described: Sequence[Key], part: str | None) -> list[Key]:
    """Returns the keys of a section, or those that contain `part`. Raises UserError, with the nearest, if none does."""
    if part is None:
        return list(described)
    in_section = [key for key in described if key.name.startswith(f"{part}.")]
    keys = in_section or [key for key in described if part in key.name]
    if not keys:
        raise UserError(unknown_key(part, [key.name for key in described]))
    return keys


# `redqueen init`: writes a file of settings, with what each means.


def run_init(name: str, out: Path) -> int:
    """Writes the settings of a recipe; returns the exit code.

    Raises UserError for a recipe that is not there, and for a file of another format, or that cannot be written.
    """
    config = recipe(name)
    if not is_settings(out):
        raise UserError(f"--out {out}: the file's name must end in .toml or .yaml")
    try:
        write_settings(config, out)
    except FileExistsError as error:
        raise UserError(f"{out} is there already: choose another name with --out") from error
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"wrote {out}: change it, then redqueen train --config {quoted(out)}")
    return 0
