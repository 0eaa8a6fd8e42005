"""Which programs of benchmarks a run has played: its tasks are compared with them up to names and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redqueen.evals.benchmarks.benchmark import Loaded
from redqueen.game.novelty import seed_shapes
from redqueen.programs.normal_form import shape
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.directory import RunDirectory, RunError


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What a run's tasks have in common with the programs of one benchmark."""

    run: str
    benchmark: str
    programs: int
    """Programs of the benchmark that were compared."""
    alike: tuple[str, ...]
    """The problems whose program is alike to one of the run's tasks or of its seeds."""
    tasks: int
    """Different programs of the run and its seeds."""


def overlaps(run: str, benchmarks: Sequence[Loaded]) -> list[Overlap]:
    """Returns an overlap for each benchmark that has programs.

    Raises RunError if the run has no archive that can be read.
    """
    compared = [loaded for loaded in benchmarks if loaded.programs]
    if not compared:
        return []
    played = _shapes(run)
    results: list[Overlap] = []
    for loaded in compared:
        pairs = zip(loaded.problems, loaded.programs, strict=True)
        alike = tuple(problem.id for problem, program in pairs if shape(program) in played)
        results.append(
            Overlap(
                run=run, benchmark=loaded.benchmark.name, programs=len(loaded.programs), alike=alike, tasks=len(played)
            )
        )
    return results


def notes(runs: Sequence[str], benchmarks: Sequence[Loaded]) -> tuple[list[Overlap], list[str]]:
    """Returns the overlaps of all runs, and what to say about them in plain sentences."""
    every: list[Overlap] = []
    sentences: list[str] = []
    for run in runs:
        try:
            every += overlaps(run, benchmarks)
        except RunError as error:
            sentences.append(f"The tasks of {run} were not compared with the benchmarks: {error}.")
    for overlap in every:
        which = f": {', '.join(overlap.alike[:10])}" if overlap.alike else ""
        more = f" and {len(overlap.alike) - 10} more" if len(overlap.alike) > 10 else ""
        sentences.append(
            f"{len(overlap.alike)} of {overlap.programs} programs of {overlap.benchmark} are alike, up to names and "
            f"constants, to one of {overlap.tasks} programs of {overlap.run} and its seeds{which}{more}."
        )
    return every, sentences


def _shapes(run: str) -> frozenset[str]:
    with ArchiveReader(RunDirectory(Path(run)).archive) as archive:
        programs = [program for (program,) in archive.select("SELECT DISTINCT program FROM tasks")]
    return frozenset(map(shape, programs)) | seed_shapes()
