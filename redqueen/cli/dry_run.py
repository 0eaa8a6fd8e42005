"""`train --dry-run` and `recipes --cards`: whether a run fits, its memory by parts, and modelled hours."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.table import Column, Table

from redqueen.config import BUNDLED, Config, ModelConfig
from redqueen.config.recipes import recipe
from redqueen.engine.memory.estimate import Item, host_items, items, least, total
from redqueen.engine.memory.fit import Fit, fit
from redqueen.engine.memory.forecast import CARDS, Card, card_of, forecast
from redqueen.engine.memory.machine import Demand, gpu_machine, this_machine
from redqueen.engine.model.base import device_of
from redqueen.engine.model.dimensions import known_base, rough_token_counter, token_counter, transformers_config
from redqueen.engine.model.source import cached, read_config
from redqueen.errors import ModelError
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.plugins import PluginError, are_loaded
from redqueen.records import Prompt
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.run.session import check, check_init, check_tasks, quiet_libraries, too_long
from redqueen.store.files import counted


def print_plan(config: Config, size: int | None = None, *, parts: bool = False) -> int:
    """Prints whether a run would start and fit, here or on a GPU of `size` bytes; with `parts` on standard error.

    Returns the exit code: 1 if it does not fit, or if nothing can be said of that GPU. Raises UserError for what
    the run would refuse. Of a model of the Hub only config.json and the tokenizer are fetched, and of the recipes'
    bases nothing where the GPU is not here.
    """
    quiet_libraries()
    # With the parts, standard output is for the configuration, which may be piped into another program.
    console = PlainConsole(stderr=parts, soft_wrap=True)
    # Own parts are imported only where that is allowed.
    if are_loaded(config.plugins):
        check_tasks(config.game, config.evals, config.league)
        # What another machine has is not known here.
        if size is None:
            check(config)
            check_init(config.population.init)
    if config.model.name == BUNDLED and cached() is None:
        device_of(config.model)
        console.print("every setting is possible; the memory is known after the first run has converted the base")
        return 0
    try:
        count_tokens = _token_counter(config.model, there=size is not None)
        lengths = prompt_lengths(config.play_settings, count_tokens)
        machine = this_machine(config.model) if size is None else gpu_machine(config.model, size)
    except (ModelError, PluginError) as error:
        # A run here would be refused as well.
        if size is None and isinstance(error, ModelError):
            raise
        console.print(f"memory: not estimated, {error}")
        return 0 if size is None else 1
    try:
        fitted = fit(config, machine, lengths, config.capacity)
    except ModelError as error:
        console.print(f"does not fit: {error}")
        return 1
    _print(console, fitted, size, parts=parts)
    shell = transformers_config(config.model.name)
    for line in too_long(config.sampling, lengths, shell, hosted=machine.shape.hosted):
        console.print(line)
    return 0


def _print(console: PlainConsole, fitted: Fit, size: int | None, *, parts: bool) -> None:
    """Prints the answer, and the sizes that it follows from."""
    plan, config = fitted.demand, fitted.config
    changed = f" with {' '.join(fitted.changes)}" if fitted.changes else ""
    answer = f"it fits{changed}: {total(items(plan)) / 1e6:,.0f} MB at most, {fitted.free / 1e6:,.0f} MB are free"
    console.print(fitted.warning or f"{answer} {'here' if size is None else 'there'}")
    console.print(f"{config.population.who}, on {config.model.name}, {counted(config.run.steps, 'step')}")
    console.print(_batches(plan))
    if size is not None:
        console.print(_time(plan, size, config.run.steps))
    console.print(_items(plan) if parts else "every setting, and the memory by parts: add --json")


def _token_counter(model: ModelConfig, *, there: bool) -> Callable[[Prompt], int]:
    """Returns what counts the tokens of prompts. Raises ModelError if the base or its tokenizer cannot be read."""
    is_known = known_base(model.name) is not None
    # A plan for another machine should not depend on what is stored on this one.
    if is_known and there:
        return rough_token_counter()
    try:
        read_config(model.name)
        return token_counter(model)
    except ModelError:
        if not is_known:
            raise
        return rough_token_counter()


def _items(plan: Demand) -> Table:
    """Returns the parts of the memory, as a table."""
    need = items(plan)
    required = items(least(plan))
    table = Table("memory, at most", Column("processes", justify="right"), Column("MB", justify="right"), box=None)
    for item in need:
        table.add_row(*_cells(item))
    table.add_row("in all", "", f"{total(need) / 1e6:,.0f}")
    table.add_row("in all, at least (every text is short)", "", f"{total(required) / 1e6:,.0f}")
    if plan.machine.on_gpu:
        for item in host_items(plan):
            table.add_row(*_cells(item))
    return table


def _cells(item: Item) -> tuple[str, str, str]:
    return item.name, str(item.processes), f"{item.total / 1e6:,.0f}"


def _batches(plan: Demand) -> str:
    """Returns the sizes that a run would take, in one line."""
    recomputed = "recomputed activations" if plan.learning.checkpointing is True else "all activations kept"
    tokens = plan.sampling.cache_tokens
    shared = f" that share {tokens} tokens of keys and values" if tokens else ""
    return (
        f"batches: {plan.sampling.batch_rows} rows at once{shared}, prompts in passes of "
        f"{plan.sampling.prefill_tokens} tokens, micro-batches of {plan.learning.batch_tokens} tokens with {recomputed}"
    )


def _time(plan: Demand, size: int, steps: int) -> str:
    """Returns how long so many steps would take on a card of that memory, in one line."""
    if plan.sampling.engine != "embedded":
        return "time: not modelled where vLLM samples"
    if plan.machine.shape.hosted:
        return "time: not modelled for a base that transformers computes"
    card = card_of(size)
    step = forecast(plan, card)
    return (
        f"time, modelled, without the sandbox: {step.hours(steps):.1f} hours for "
        f"{steps} steps on an {card.name}; a step {step.step:.0f} s (propose {step.propose:.0f}, solve "
        f"{step.solve:.0f} at {step.solved_tokens / step.solve:,.0f} tokens a second, learn {step.learn:.0f})"
    )


# `redqueen recipes --cards`: which recipe fits which GPU, and how long it would take, as a table in Markdown.

RECIPES = ("coder_0_5b", "coder_1_5b", "coder_3b", "coder_7b", "paper_7b")
"""The recipes for GPUs, the smallest base first."""


def run_cards() -> int:
    """Prints the table; returns the exit code."""
    quiet_libraries()
    sys.stdout.write(cards_table())
    return 0


def cards_table() -> str:
    """Returns a line for each recipe and a column for each of the smaller cards."""
    cards = CARDS[:-1]
    heads = [f"{card.memory} GB ({card.name})" for card in cards]
    lines = [f"| recipe | {' | '.join(heads)} |", f"|---{'|---' * len(cards)}|"]
    for name in RECIPES:
        config = recipe(name).override(["model.device=cuda", "model.dtype=bfloat16"])
        lengths = prompt_lengths(config.play_settings, rough_token_counter())
        cells: list[str] = []
        for card in cards:
            machine = gpu_machine(config.model, card.memory * 10**9)
            try:
                cells.append(_cell(fit(config, machine, lengths, config.capacity), card, config.run.steps))
            except ModelError:
                cells.append("does not fit")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(fitted: Fit, card: Card, steps: int) -> str:
    """Returns what a run would be on a card, in a few words."""
    plan = fitted.demand
    kept = "recomputed" if plan.learning.checkpointing is True else "kept"
    limit = ", if texts stay shorter than they may" if fitted.warning else ""
    taken = forecast(plan, card).hours(steps)
    return f"{plan.sampling.batch_rows} rows, activations {kept}{limit}: {taken:.1f} h"
