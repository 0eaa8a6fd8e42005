"""Reads the rows of benchmarks from a folder of files, and makes problems of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from redqueen.errors import UserError
from redqueen.evals.benchmarks.benchmark import Benchmark, Loaded, Row
from redqueen.evals.graders.grader import Problem

_CHUNK = 1 << 20
_MOST_IN_LINE = 256 << 20
"""The longest rows are LiveCodeBench's, with their tests. A compressed file of a few megabytes may be one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The first rows of a benchmark."""

    rows: Sequence[Row]
    available: int
    """How many rows there are in all."""
    origin: str
    """The files, or where they were loaded from."""
    sha256: str


def problems(benchmark: Benchmark, found: Rows) -> Loaded:
    """Returns the rows as problems, each with an id of its own.

    Raises UserError, in one line, if they are not what they should be.
    """
    if not found.available:
        raise UserError(f"{benchmark.title}: {found.origin} has no rows: download it again")
    made_of = [_problem(benchmark, row, number, found.origin) for number, row in enumerate(found.rows, 1)]
    return Loaded(
        benchmark=benchmark,
        problems=_told_apart(made_of),
        available=found.available,
        origin=found.origin,
        sha256=found.sha256,
        programs=[benchmark.programs(row) for row in found.rows] if benchmark.programs else [],
    )


def _problem(benchmark: Benchmark, row: Row, number: int, origin: str) -> Problem:
    try:
        return benchmark.problem(row)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UserError(f"row {number} of {origin} is no row of {benchmark.title}: {why}") from error


def _told_apart(problems: Sequence[Problem]) -> list[Problem]:
    """Returns the problems with a number behind an id that has come before: two of one id would share an answer."""
    taken: set[str] = set()
    named: list[Problem] = []
    for problem in problems:
        name, number = problem.id, 1
        while name in taken:
            number += 1
            name = f"{problem.id} ({number})"
        taken.add(name)
        named.append(replace(problem, id=name))
    return named


def made(benchmark: Benchmark, rows: Sequence[Row], limit: int | None) -> Rows:
    """Returns the first `limit` of the rows that a benchmark has made."""
    sha256 = hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()
    return Rows(rows=rows[:limit], available=len(rows), origin=benchmark.name, sha256=sha256)


class MissingDataError(UserError):
    """A folder without the file of a benchmark."""


def from_folder(benchmark: Benchmark, folder: Path, limit: int | None) -> Rows:
    """Returns the first `limit` rows of a benchmark's file in a folder. Raises MissingDataError if it is not there."""
    for names in benchmark.source.files:
        paths = [folder / name for name in names.split("+")]
        if all(path.is_file() for path in paths):
            return read(paths, limit)
    wanted = " or ".join(benchmark.source.files)
    source = benchmark.source
    where = f"download it from {source.release}" if source.release else f"load {source.hub} from the Hugging Face hub"
    raise MissingDataError(f"{benchmark.title}: {folder} has no {wanted}: put it there, or leave --data out to {where}")


def read(paths: Sequence[Path], limit: int | None) -> Rows:
    """Returns the first `limit` rows of JSONL files. Raises UserError if one cannot be read."""
    digest = hashlib.sha256()
    rows: list[Row] = []
    available = 0
    for path in paths:
        try:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
            # Line by line: LiveCodeBench has 4 GB. Bytes end at a line feed alone; a text may hold other ends of lines.
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
                while line := lines.readline(_MOST_IN_LINE + 1):
                    if len(line) > _MOST_IN_LINE:
                        raise ValueError(f"it has a line of more than {_MOST_IN_LINE >> 20} MiB")
                    if not line.strip():
                        continue
                    available += 1
                    if limit is None or available <= limit:
                        rows.append(cast("Row", json.loads(line)))
        except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
            raise UserError(f"cannot read {path}: {error}: download it again") from error
    origin = " ".join(path.name for path in paths)
    return Rows(rows=rows, available=available, origin=origin, sha256=digest.hexdigest())
