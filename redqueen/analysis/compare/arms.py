"""The runs of a comparison, and the arms that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path

from redqueen.analysis.verdict import RunVerdict, verdict
from redqueen.config import Config
from redqueen.config.keys import keys, unknown_key
from redqueen.errors import UserError
from redqueen.run.recording.metrics import Panel, panels
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of
from redqueen.store.metrics import StepMetrics

BY_RUN = "run"
_RECIPE = "recipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run with everything that is compared."""

    name: str
    """The last parts of its path that tell it from the others."""
    path: Path
    arm: str
    config: Config
    lines: Sequence[StepMetrics]
    verdict: RunVerdict
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Runs that differ in their seeds only, or in whatever the reader has chosen not to tell apart."""

    name: str
    runs: tuple[ComparedRun, ...]


def runs_of(arms: Sequence[Arm]) -> list[ComparedRun]:
    """Returns the runs of all arms, arm by arm."""
    return list(chain.from_iterable(arm.runs for arm in arms))


def check_arms(paths: Sequence[Path], by: str) -> None:
    """Raises RunError for a path without a run, UserError for an unknown setting or a run that is given twice."""
    if by not in (BY_RUN, _RECIPE) and by not in keys(Config):
        raise UserError(f"--by {by}: {unknown_key(by, keys(Config))} Or write --by recipe")
    if not paths:
        raise UserError("no run is given: name one or more")
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise UserError("a run is given twice")
    for path in paths:
        RunDirectory(path).config()


def arms(paths: Sequence[Path], by: str) -> list[Arm]:
    """Returns the arms in the order of their first runs.

    `by` is "run", where each run is an arm, or a setting, whose value names the arm: "recipe", "population.teachers".
    Raises RunError for a path without a run, UserError for an unknown setting, a run twice or one without a step.
    """
    check_arms(paths, by)
    names = _names([path.resolve() for path in paths])
    grouped: dict[str, list[ComparedRun]] = {}
    for path, name in zip(paths, names, strict=True):
        run = _read(path, name, by)
        grouped.setdefault(run.arm, []).append(run)
    return [Arm(name=name, runs=tuple(runs)) for name, runs in grouped.items()]


def _read(path: Path, name: str, by: str) -> ComparedRun:
    directory = RunDirectory(path)
    config = directory.config()
    lines = directory.metrics()
    if not lines:
        raise UserError(f"{path} has played no step yet: nothing to compare")
    arm = name
    if by != BY_RUN:
        value = attrgetter(by)(config)
        arm = str(value) if by == _RECIPE else f"{by}={value}"
    with damage_of(path):
        return ComparedRun(
            name=name,
            path=path,
            arm=arm,
            config=config,
            lines=lines,
            verdict=verdict(lines),
            panels=panels(lines, directory.own_metrics()),
        )


def _names(paths: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, with as many parts before it as tell them apart."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
