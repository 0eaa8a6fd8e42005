"""The cells of a sweep: every combination of the values that its options list. Imports no torch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.config import Config, ConfigError
from redqueen.config.recipes import match_compute


@dataclass(frozen=True, slots=True)
class Combination:
    """One point of the grid."""

    name: str
    """The name of its folder."""
    overrides: tuple[str, ...]
    """What it changes, e.g. `("evolution.enabled=true", "learning.lr=1e-4")`."""


def grid(options: Sequence[str], start: Config) -> list[Combination]:
    """Returns the cells of `KEY=VALUE,VALUE,...` options: every combination, the last option changing fastest.

    A value with commas goes in brackets: `evolution.mutations=[svd_spectral,neftune],[copy_parent]`. No option is one
    cell. The key `matched` has the values of `match_compute`: a population and its single agents as arms.
    Raises ConfigError for what cannot be read, or cannot be applied to `start`.
    """
    axes: dict[str, list[str]] = {}
    for option in options:
        key, values = _axis(option)
        if key in axes:
            raise ConfigError(f"--grid {key} is given twice: write all its values in one")
        _check(key, values, start)
        axes[key] = values
    cells: list[Combination] = []
    for values in itertools.product(*axes.values()):
        overrides = tuple(f"{key}={value}" for key, value in zip(axes, values, strict=True))
        cells.append(Combination(_folder(overrides), overrides))
    # Characters that a file system does not allow are replaced in a name, so two cells can end up with one name. They
    # would then train in one folder.
    if len({cell.name for cell in cells}) < len(cells):
        raise ConfigError("--grid: two cells would share a folder: leave out a value that is given twice")
    return cells


def _axis(option: str) -> tuple[str, list[str]]:
    """Returns a key and its values. Raises ConfigError."""
    key, equals, text = (part.strip() for part in option.partition("="))
    if not equals:
        raise ConfigError(f"--grid {option}: write KEY=VALUE,VALUE, e.g. --grid evolution.enabled=true,false")
    if key == "run.seed":
        raise ConfigError("--grid run.seed: --seeds N says how many seeds each cell has")
    return key, _values(key, text)


def _values(key: str, text: str) -> list[str]:
    """Splits at commas outside brackets: `a,[b,c]` is "a" and "[b,c]". Raises ConfigError."""
    values = re.findall(r"(?:^|,)\s*(\[[^\[\]]*\]|[^,\[\]]+?)\s*(?=,|$)", text)
    # The pattern skips what it cannot read, so the text is rebuilt from the values and compared.
    rebuilt = re.sub(r"\s", "", ",".join(values))
    if not values or rebuilt != re.sub(r"\s", "", text):
        raise ConfigError(
            f"--grid {key}={text}: values are separated by commas, and one that holds commas goes in brackets, "
            "e.g. evolution.mutations=[svd_spectral,neftune],[copy_parent]"
        )
    return values


def _check(key: str, values: Sequence[str], start: Config) -> None:
    """Raises ConfigError for an unknown key, an impossible value, or a list without brackets."""
    # A sweep takes hours or days. A wrong value in its last cell has to be reported before the first cell starts.
    if key == "matched":
        for value in values:
            match_compute(start, value)
        return
    for value in values:
        start.override([f"{key}={value}"])
    current: Any = start
    for name in key.split("."):
        current = getattr(current, name)
    # Without brackets, key=a,b would mean two cells with one name each, where one list of both names may be meant.
    if isinstance(current, tuple) and any(not value.startswith("[") for value in values):
        raise ConfigError(
            f"--grid {key}: this key holds a list, so each value goes in brackets, e.g. {key}=[{','.join(values)}]"
        )


def _folder(overrides: Sequence[str]) -> str:
    """Returns a cell's name on disk: as typed, as far as the file system allows it."""
    typed = " ".join(overrides).replace("[", "").replace("]", "")
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "_", typed) or "all"
