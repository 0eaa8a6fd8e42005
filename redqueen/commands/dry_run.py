"""`redqueen train --dry-run`: the memory that a run needs, by parts."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from redqueen.commands.environment import quiet_libraries
from redqueen.config import BUNDLED, Config
from redqueen.errors import ModelError
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.policy.memory.estimate import estimate, least, total
from redqueen.policy.memory.fit import fit
from redqueen.policy.model.bundled import cached
from redqueen.policy.model.dimensions import token_counter
from redqueen.policy.model.source import read_config
from redqueen.train import members


def print_memory(config: Config) -> None:
    """Prints on standard error how much memory a run would need, and whether it fits here.

    Of a model of the Hub only config.json and the tokenizer are fetched; nothing is converted.
    """
    quiet_libraries()
    # Standard output is for the configuration, which is JSON and may be piped into another program.
    errors = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    if config.model.name == BUNDLED and cached() is None:
        errors.print("memory: not estimated, the bundled model is not converted yet: the first run does that")
        return
    try:
        read_config(config.model.name)
        lengths = prompt_lengths(config, token_counter(config.model))
    except ModelError as error:
        errors.print(f"memory: not estimated, {error}")
        return
    plan = config
    verdict = ""
    try:
        found = fit(config, lengths, members(config))
        plan = found.config
        changed = f" with {' '.join(found.changes)}" if found.changes else ""
        verdict = found.warning or f"{found.free / 1e6:,.0f} MB are free here: it fits{changed}"
    except ModelError as error:
        verdict = str(error)
    items = estimate(plan, lengths, members(config))
    required = estimate(least(plan), lengths, members(config))
    table = Table("memory, at most", Column("processes", justify="right"), Column("MB", justify="right"), box=None)
    for item in items:
        table.add_row(item.name, str(item.processes), f"{item.total / 1e6:,.0f}")
    table.add_row("in all", "", f"{total(items) / 1e6:,.0f}")
    table.add_row("in all, at least (every text is short)", "", f"{total(required) / 1e6:,.0f}")
    errors.print(table)
    errors.print(verdict)
