"""Curricula of equal length: the tasks that runs wrote at their beginning and at their end. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from redqueen.analysis.dataset.rows import TaskRecord, Wanted, read_tasks, select
from redqueen.base import streams
from redqueen.base.intervals import mean
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.programs.complexity import complexity
from redqueen.runs.directory import RunDirectory
from redqueen.runs.files import damage_of

Part = Literal["first", "last"]
PARTS: tuple[Part, ...] = get_args(Part)
"""The first and the last third of a run's steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """The tasks that a stranger is trained on."""

    run: str
    """The name of the run that wrote them."""
    part: Part
    records: tuple[TaskRecord, ...]
    """Valid tasks, oldest first; none alike to a reserved program."""

    @property
    def name(self) -> str:
        """The name of its file and of its cell in the sweep."""
        return f"{self.run}-{self.part}"

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for record in self.records:
            counts[record.kind] = counts.get(record.kind, 0) + 1
        return counts

    def lines(self) -> float:
        """Returns the mean number of lines of its programs."""
        return fmean(complexity(record.program).lines for record in self.records)

    def solve_rate(self) -> float | None:
        """Returns the mean solve rate among the run's own students, in [0, 1]; None if none was attempted."""
        return mean(record.solve_rate for record in self.records)


def curricula(runs: Sequence[Path], seed: int) -> list[Curriculum]:
    """Returns both parts of each run, with equally many tasks of each kind: as many as the shortest part has.

    Which tasks of a longer part are taken is drawn by `seed`. Raises UserError if two runs have one name, if a run has
    no tasks in a part, or if the runs have no kind in common; RunError if there is no such run.
    """
    thirds: list[Curriculum] = []
    for run in runs:
        thirds += _parts(run)
    names = [curriculum.name for curriculum in thirds]
    if len(set(names)) < len(names):
        raise UserError("two of the runs' folders have one name: rename one, so that the table can tell them apart")
    return shortened(thirds, seed)


def _parts(run: Path) -> list[Curriculum]:
    """Returns the tasks of the first third and of the last third of a run's steps."""
    steps = len(RunDirectory(run).metrics())
    third = steps // 3
    if not third:
        raise UserError(f"{run} has {steps} steps: its first and last third need at least 3")
    with damage_of(run):
        records = select(read_tasks(run), Wanted()).records
    name = run.resolve().name
    first = tuple(record for record in records if record.step <= third)
    last = tuple(record for record in records if record.step > steps - third)
    return [Curriculum(run=name, part="first", records=first), Curriculum(run=name, part="last", records=last)]


def shortened(found: Sequence[Curriculum], seed: int) -> list[Curriculum]:
    """Returns the curricula with equally many tasks of each kind. Raises UserError if there would be none."""
    counts = [curriculum.counts() for curriculum in found]
    kinds = set.intersection(*(set(by_kind) for by_kind in counts))
    if not kinds:
        shortest = min(found, key=lambda curriculum: len(curriculum.records))
        raise UserError(f"the {shortest.part} third of {shortest.run} shares no kind of task with the others")
    # Kinds that some part lacks are left out: a stranger could learn nothing about them there.
    sizes = {kind: min(by_kind[kind] for by_kind in counts) for kind in kinds}
    return [_drawn(curriculum, sizes, seed) for curriculum in found]


def _drawn(curriculum: Curriculum, sizes: Mapping[str, int], seed: int) -> Curriculum:
    """Returns a curriculum with so many of its tasks of each kind, in their old order."""
    taken: set[str] = set()
    for kind, size in sorted(sizes.items()):
        ids = [record.id for record in curriculum.records if record.kind == kind]
        taken.update(streams.python(seed, "transfer", curriculum.name, kind).sample(ids, size))
    records = tuple(record for record in curriculum.records if record.id in taken)
    return Curriculum(run=curriculum.run, part=curriculum.part, records=records)


def stranger_settings(runs: Sequence[Path], kinds: Sequence[str]) -> list[str]:
    """Returns the settings in which a stranger must equal the members of the runs: their base, prompts and start.

    Raises UserError if the runs differ in them.
    """
    configs = [RunDirectory(run).config() for run in runs]
    wanted = [_settings(config) for config in configs]
    for run, settings in zip(runs, wanted, strict=True):
        if settings != wanted[0]:
            different = ", ".join(text for text in settings if text not in wanted[0])
            raise UserError(f"{run} has {different}, and {runs[0]} has not: a stranger cannot be compared on both")
    return [*wanted[0], f"game.kinds={','.join(sorted(kinds))}"]


def _settings(config: Config) -> list[str]:
    settings = [f"model.name={config.model.name}", f"model.prompts={config.model.prompts}"]
    return [*settings, f"model.rank={config.model.rank}", f"population.init={config.population.init}"]
