"""What is allowed with a run that was read from a folder: its own parts, no isolation, and how it goes on.

Only a command line can allow the first two. A run's folder may come from somebody else. Its config.json may name any
module, and a folder is enough to be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from redqueen.config import SOURCE, Config, ConfigError
from redqueen.config.keys import keys
from redqueen.config.recipes import RECIPES
from redqueen.errors import UserError
from redqueen.plugins import PluginError, are_loaded, load
from redqueen.records import Kind
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.files import quoted
from redqueen.tasks.kinds import names


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the command line of this process allows."""

    plugins: bool = False
    """To import the modules that a run names under `plugins`."""
    unsafe: bool = False
    """To run programs where the machine cannot isolate them."""


NOTHING = Permissions()
"""What a command line without such a flag allows."""


def playable(directory: RunDirectory, allowed: Permissions) -> Config:
    """Returns a run's configuration for a command that plays with its members.

    Raises RunError if there is no run, PluginError if a module that may be imported cannot be.
    """
    return with_allowed(directory.config(), allowed)


def with_allowed(config: Config, allowed: Permissions) -> Config:
    """Returns a configuration that was read, with what is allowed. Raises PluginError as `playable` does."""
    if allowed.plugins:
        config = with_own_parts(config, "the run", allowed=True)
    return config.without_isolation(allowed=allowed.unsafe)


def check_kind(kind: Kind | None, of_run: Iterable[Kind]) -> None:
    """Raises UserError if `kind` is neither known nor one of the run's."""
    kinds = dict.fromkeys((*names(), *of_run))
    if kind is not None and kind not in kinds:
        raise UserError(f"there is no kind '{kind}': choose one of {', '.join(kinds)}")


def with_own_parts(config: Config, source: Path | str, *, allowed: bool) -> Config:
    """Returns the configuration, whose own parts are imported and checked. `source` is where it was read.

    Raises PluginError, which names the modules, if that is not allowed or does not work, ConfigError if a part that the
    configuration names is in none of them.
    """
    if are_loaded(config.plugins):
        return config
    if not allowed:
        raise PluginError(
            f"{source} names modules of its own, {', '.join(map(repr, config.plugins))}: to train, they would be "
            "imported now and run as you, outside the sandbox. Read them; if you trust them, add --load-plugins"
        )
    load(config.plugins)
    # Now that the parts are known, a name of none of them is a mistake.
    return config.override([])


# Whether a run that exists already can go on, and with which settings.

CHANGEABLE = (
    "run.steps",
    "run.checkpoint_every",
    "run.keep_last",
    "run.keep_every",
    "run.trackers",
    "run.samples_every",
    "run.recorders",
    "model.workers",
    "model.threads",
    "model.device",
    "sandbox.workers",
    "sandbox.unsafe_no_isolation",
    "cluster.address",
    "cluster.replicas",
)
"""The settings that a resumed run may change: they decide how long and where it runs, not what it computes."""

# A line has room for so many differing settings.
_LISTED = 6


def remaining(directory: RunDirectory, overrides: Sequence[str] = ()) -> Config | None:
    """Returns the configuration to resume with, or None if nothing is left to do.

    Raises RunError if the directory holds no run, ConfigError for an override that is not among `CHANGEABLE`.
    """
    for override in overrides:
        if override in RECIPES:
            raise ConfigError(f"a resumed run keeps its recipe: leave '{override}' out")
        key = override.partition("=")[0].strip().lstrip("-")
        if "=" not in override or (key in {*keys(Config), SOURCE} and key not in CHANGEABLE):
            # Other settings would make the second half of the run another experiment than the first.
            raise ConfigError(
                f"'{override}' cannot change in a resumed run, only {', '.join(CHANGEABLE)}: start a new run for it"
            )
    config = directory.config().override(overrides)
    saved = directory.saved()
    if not saved:
        if directory.metrics():
            raise RunError(
                f"{directory.path} has no checkpoint left, so it cannot go on: start a run in another folder"
            )
        raise RunError(f"{directory.path} has no checkpoint, so nothing was trained there: start the run again")
    return None if saved[-1] >= config.run.steps else config


def check_same(directory: RunDirectory, asked: Config) -> None:
    """Raises RunError, which lists the differing settings, if the directory's run has another configuration."""
    if not (directory.path / "config.json").exists():
        raise RunError(f"{directory.path} is not empty and holds no run: choose another --run DIR")
    different = directory.config().differences(asked)
    if not different:
        return
    listed = ", ".join(f"{key}={_text(old)} (asked: {_text(new)})" for key, old, new in different[:_LISTED])
    more = f" and {len(different) - _LISTED} more" if len(different) > _LISTED else ""
    advice = "choose another --run DIR"
    if [key for key, _, _ in different] == ["run.steps"]:
        advice = f"redqueen train --resume {quoted(directory.path)} --steps {asked.run.steps}, or {advice}"
    raise RunError(f"{directory.path} holds another run, with {listed}{more}; nothing was changed: {advice}")


def _text(value: object) -> str:
    """Returns a value as it is written on the command line."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def how_to_resume(directory: RunDirectory) -> str:
    """Returns a sentence about how a run that was stopped goes on."""
    if directory.saved():
        return f"Resume: redqueen train --resume {quoted(directory.path)}"
    return "Nothing was trained yet, so nothing is kept: start again with the same command."


def check_records(directory: RunDirectory, step: int) -> str:
    """Checks that a run whose newest checkpoint is of `step` has the records of all steps up to it.

    Returns a line about steps that metrics.jsonl does not begin with, "" if it has all. Raises RunError, which says how
    to go on, if a step is missing or double, or if the archive is damaged.
    """
    lines = [line["step"] for line in directory.metrics() if 1 <= line["step"] <= step]
    # A run that lost the file may go on with an empty one. What it has must be without a gap.
    first = min(lines, default=step + 1)
    _check_steps(directory, "metrics.jsonl", lines, range(first, step + 1), "remove the lines before it to go without")
    if not directory.archive.exists():
        raise RunError(f"{directory.archive} is missing: put it back, or start a new run")
    with ArchiveReader(directory.archive) as archive:
        archive.check_pages()
        for table in ("matches", "standings"):
            played = archive.select(f"SELECT DISTINCT step FROM {table} WHERE step BETWEEN 1 AND ?", [step])
            _check_steps(
                directory, "run.sqlite", sorted(row[0] for row in played), range(1, step + 1), "start a new run"
            )
    if first == 1 or not step:
        return ""
    return f"warning: {directory.metrics_file} begins after step {first - 1}: reports show nothing of what was before"


def _check_steps(directory: RunDirectory, name: str, found: Sequence[int], wanted: range, last_resort: str) -> None:
    """Raises RunError if a file does not have the wanted steps, each once and in order."""
    file = directory.path / name
    there = set(found)
    missing = next((step for step in wanted if step not in there), None)
    if missing is not None:
        # A step is played again from the checkpoint before it.
        saved = directory.saved()
        first, *others = [f"step-{step:06d}" for step in saved if step >= missing]
        away = f"move {first}{' and all later ones' if others else ''} away to play it again"
        advice = away if saved[0] < missing else last_resort
        raise RunError(f"{file} lacks step {missing}: put the file back, or {advice}")
    for earlier, step in pairwise(found):
        if step <= earlier:
            how = "twice" if step == earlier else f"after step {earlier}"
            raise RunError(f"{file} has step {step} {how}: put the file back, or remove one of the lines")
