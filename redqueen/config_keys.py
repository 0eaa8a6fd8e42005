"""Keys of a configuration as text: which there are, which one was probably meant, and how a value is written."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from pydantic import BaseModel


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key that can be overridden, e.g. "learning.lr"."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        elif name != "recipe":
            yield prefix + name


def unknown_key(name: str, valid: Iterable[str]) -> str:
    """The message for a key that does not exist, with the one of `valid` that was probably meant."""
    field = name.rpartition(".")[2]

    # The right field in a wrong section counts as much as the right spelling: `league.gamma` means `evolution.gamma`.
    def likeness(key: str) -> tuple[float, float]:
        whole = difflib.SequenceMatcher(None, key, name).ratio()
        # A switch goes by its section's name: `evolution` alone means `evolution.enabled`.
        key_field = key.removesuffix(".enabled").rpartition(".")[2]
        last = difflib.SequenceMatcher(None, key_field, field).ratio()
        return max(whole, last), whole

    return f"unknown key '{name}': did you mean '{max(valid, key=likeness)}'?"


def parse_value(text: str, current: object) -> object:
    """Reads `text` as a value for a key that holds `current`.

    Tuples are written with commas; everything else is left to pydantic.
    """
    if isinstance(current, tuple):
        return tuple(part.strip() for part in text.strip("()[]").split(",") if part.strip())
    return text
