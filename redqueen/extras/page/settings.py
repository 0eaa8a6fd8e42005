"""What a run was told, and where it ran: every setting with its default and its recipe's value, and its sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redqueen.config import Config
from redqueen.config.keys import as_text, describe
from redqueen.config.recipes import recipe
from redqueen.errors import UserError
from redqueen.extras.page.live_run import LiveRun


def settings(run: LiveRun) -> dict[str, object]:
    """Returns the settings and the environment. Raises RunError if the run cannot be read."""
    config = run.config()
    named = _recipe(config.recipe)
    rows: list[dict[str, object]] = []
    for key in describe(Config):
        value = setting_of(config, key.name)
        by_recipe = None if named is None else setting_of(named, key.name)
        rows.append(
            {
                "key": key.name,
                "value": value,
                "default": key.default,
                "recipe": by_recipe,
                "text": key.text,
                "chosen": value != (key.default if by_recipe is None else by_recipe),
            }
        )
    return {
        "recipe": config.recipe,
        "settings": rows,
        "sessions": [_flat(session) for session in run.sessions() if session],
    }


def setting_of(config: Config, key: str) -> str:
    """Returns the value of `learning.lr` as it is written on the command line."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return as_text(value)


def _recipe(name: str) -> Config | None:
    # A run may come from a version that had other recipes.
    try:
        return recipe(name)
    except UserError:
        return None


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Returns names and values, those of a mapping in a mapping as `libraries.torch`."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _flat(cast(Mapping[str, Any], value), f"{prefix}{name}.")
        else:
            rows.append((prefix + name, "none" if value is None else str(value)))
    return rows
