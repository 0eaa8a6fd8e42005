"""Configuration keys as text: lists them, suggests the nearest one, and reads a value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from pydantic import BaseModel


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields every key that can be overridden, e.g. "learning.lr"."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        # The recipe is the name that a run started from. A changed name would not change the configuration.
        elif name != "recipe":
            yield prefix + name


def unknown_key(name: str, valid: Iterable[str]) -> str:
    """Returns the message for a key that does not exist, with the most similar one of `valid`."""
    field = name.rpartition(".")[2]

    # The right field in a wrong section counts as much as a similar name: `league.gamma` suggests `evolution.gamma`.
    def likeness(key: str) -> tuple[float, float]:
        whole = difflib.SequenceMatcher(None, key, name).ratio()
        # A switch is compared by its section's name: `league.evolution` suggests `evolution.enabled`.
        key_field = key.removesuffix(".enabled").rpartition(".")[2]
        last = difflib.SequenceMatcher(None, key_field, field).ratio()
        return max(whole, last), whole

    return f"unknown key '{name}': did you mean '{max(valid, key=likeness)}'?"


def parse_value(text: str, current: object) -> object:
    """Reads `text` as a value for a key that holds `current`.

    Tuples are written with commas, and a missing value as `none`; everything else is left to pydantic.
    """
    if text.lower() in ("none", "null"):
        return None
    if isinstance(current, tuple):
        return tuple(part.strip() for part in text.strip("()[]").split(",") if part.strip())
    return text
