"""A sweep: which runs a grid of overrides and seeds means, and what they came to. Imports no torch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from redqueen.config import Config, ConfigError
from redqueen.intervals import Interval, interval

METRICS = ("solve_rate", "valid_rate", "contested", "novel_rate")
PROBE = "probe"
Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: `("evolution.enabled=true", "learning.lr=1e-4")`. `name` is a folder's name."""

    name: str
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one cell.

    `final` is over the last quarter of the steps (at least one), `mean` over all; means and 95 % intervals over seeds.
    `final_over`, `mean_over`: differences from the first cell, paired by seed; None in the first cell.
    """

    cell: str
    metric: str
    final: Interval | None
    mean: Interval | None
    final_over: Interval | None
    mean_over: Interval | None


def grid(options: Sequence[str], start: Config) -> list[Cell]:
    """The cells of `KEY=VALUE,VALUE,...` options: every combination, the last option changing fastest.

    A value with commas goes in brackets: `evolution.mutations=[svd_spectral,neftune],[copy_parent]`. No option is one
    cell. Raises ConfigError for what cannot be read, or be run from `start`.
    """
    axes: dict[str, list[str]] = {}
    for option in options:
        key, equals, text = (part.strip() for part in option.partition("="))
        if not equals:
            raise ConfigError(f"--grid {option}: write KEY=VALUE,VALUE, e.g. --grid evolution.enabled=true,false")
        if key == "run.seed":
            raise ConfigError("--grid run.seed: --seeds N says how many seeds each cell has")
        if key in axes:
            raise ConfigError(f"--grid {key} is given twice: write all its values in one")
        axes[key] = _values(key, text)
        _check(key, axes[key], start)
    cells = [
        Cell(_folder(chosen), tuple(chosen))
        for chosen in (
            [f"{k}={v}" for k, v in zip(axes, values, strict=True)] for values in itertools.product(*axes.values())
        )
    ]
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise ConfigError("--grid: two cells would share a folder: leave out a value that is given twice")
    return cells


def rows(lines: Mapping[str, Mapping[int, Sequence[Line]]], probes: Mapping[str, Mapping[int, float]]) -> list[Row]:
    """The table, metric by metric, of metrics.jsonl by cell and seed, and of the `probes`' scores."""
    found: list[Row] = []
    for metric in METRICS:
        final = {cell: _by_seed(own, metric, last=True) for cell, own in lines.items()}
        mean = {cell: _by_seed(own, metric, last=False) for cell, own in lines.items()}
        found += _rows(metric, final, mean)
    if any(probes.values()):
        found += _rows(PROBE, probes, {cell: {} for cell in probes})
    return found


def _rows(metric: str, final: Mapping[str, Mapping[int, float]], mean: Mapping[str, Mapping[int, float]]) -> list[Row]:
    first = next(iter(final))

    def over(values: Mapping[str, Mapping[int, float]], cell: str) -> Interval | None:
        if cell == first:
            return None
        return interval([values[cell][seed] - values[first][seed] for seed in values[cell] if seed in values[first]])

    return [
        Row(
            cell,
            metric,
            interval(list(final[cell].values())),
            interval(list(mean[cell].values())),
            over(final, cell),
            over(mean, cell),
        )
        for cell in final
    ]


def _by_seed(own: Mapping[int, Sequence[Line]], metric: str, *, last: bool) -> dict[int, float]:
    """Means over steps, by seed; steps in which there was nothing to average are left out."""
    found: dict[int, float] = {}
    for seed, lines in own.items():
        chosen = lines[-max(1, len(lines) // 4) :] if last else lines
        known = [value for line in chosen if (value := _metric(line, metric)) is not None]
        if known:
            found[seed] = fmean(known)
    return found


def _metric(line: Line, metric: str) -> float | None:
    """A step's number; `contested` is the share of its tasks with 0 < rho < 1."""
    if metric != "contested":
        return line[metric]
    tasks = sum(line["tasks_by_kind"].values())
    return sum(line["contested_by_kind"].values()) / tasks if tasks else None


def _values(key: str, text: str) -> list[str]:
    """`a,[b,c]` is "a" and "[b,c]"."""
    found = re.findall(r"(?:^|,)\s*(\[[^\[\]]*\]|[^,\[\]]+?)\s*(?=,|$)", text)
    rebuilt = re.sub(r"\s", "", ",".join(found))
    if not found or rebuilt != re.sub(r"\s", "", text):
        raise ConfigError(
            f"--grid {key}={text}: values are separated by commas, and one that holds commas goes in brackets, "
            "e.g. evolution.mutations=[svd_spectral,neftune],[copy_parent]"
        )
    return found


def _check(key: str, values: Sequence[str], start: Config) -> None:
    """Raises ConfigError for an unknown key, an impossible value, or a list whose end cannot be told."""
    for value in values:
        start.override([f"{key}={value}"])
    current: Any = start
    for part in key.split("."):
        current = getattr(current, part)
    if isinstance(current, tuple) and any(not value.startswith("[") for value in values):
        raise ConfigError(
            f"--grid {key}: this key holds a list, so each value goes in brackets, e.g. {key}=[{','.join(values)}]"
        )


def _folder(overrides: Sequence[str]) -> str:
    """A cell's name on disk: as typed where the file system allows it."""
    return (
        re.sub(r"[^A-Za-z0-9._=,+-]+", "_", " ".join(o.replace("[", "").replace("]", "") for o in overrides)) or "all"
    )
