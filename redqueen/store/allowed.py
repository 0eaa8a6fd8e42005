"""What only a command line can allow for a run that was read from a folder: to import its own parts, no isolation.

A run's folder may come from somebody else. Its config.json may name any module, and a folder is enough to be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.plugins import PluginError, are_loaded, load
from redqueen.records import Kind
from redqueen.store.directory import RunDirectory
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
