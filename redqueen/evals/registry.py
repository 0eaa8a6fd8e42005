"""The benchmarks by name, and the groups that can be asked for."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import urllib.request
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from redqueen import extras, plugins
from redqueen.base.machine import cache_root
from redqueen.base.optional import require
from redqueen.config import EvalsConfig, PlaySettings
from redqueen.errors import UserError
from redqueen.evals import benchmark
from redqueen.evals.benchmark import Benchmark, ProblemSet, Row, Source
from redqueen.evals.grader import Problem
from redqueen.evals.held_out import OWN
from redqueen.method.seeds import Half
from redqueen.plugins import PluginError
from redqueen.records import Kind, Verifier
from redqueen.tasks.kinds import is_made

# Reads the rows of benchmarks from a folder of files, and makes problems of them.

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


def problems(benchmark: Benchmark, found: Rows) -> ProblemSet:
    """Returns the rows as problems, each with an id of its own.

    Raises UserError, in one line, if they are not what they should be.
    """
    if not found.available:
        raise UserError(f"{benchmark.title}: {found.origin} has no rows: download it again")
    made_of = [_problem(benchmark, row, number, found.origin) for number, row in enumerate(found.rows, 1)]
    return ProblemSet(
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


# Loads the rows of benchmarks from the Hugging Face hub, and those of evalplus from its releases.

PATIENCE_S = 30.0


def from_hub(benchmark: Benchmark, limit: int | None) -> Rows:
    """Returns the first `limit` rows of a benchmark. Raises UserError, in one line, if they cannot be had.

    The hub's rows of HumanEval+ and MBPP+ hold the tests as one program, without the lists of inputs and the
    tolerances that the grader goes by, and MBPP+ has no entry points there. So their release files are downloaded, as
    evalplus itself does. Their checksums are those of the files that the graders were proved on.
    """
    source = benchmark.source
    if source.release:
        return replace(read([release(benchmark)], limit), origin=source.release)
    if source.revision:
        return _files(benchmark, limit)
    datasets = require("datasets", "evals", f"loading {source.hub} from the hub")
    try:
        dataset = datasets.load_dataset(source.hub, source.subset, split=source.split)
    # The library raises errors of many kinds, its own and those of the network below it.
    except Exception as error:
        raise _unreachable(benchmark, f"{source.hub} from the Hugging Face hub", error) from error
    rows = [cast("Row", dict(row)) for row in dataset]
    return replace(made(benchmark, rows, limit), origin=source.hub)


def _files(benchmark: Benchmark, limit: int | None) -> Rows:
    """Loads a data set that is a folder of JSONL files on the hub."""
    source = benchmark.source
    hub = require("huggingface_hub", "evals", f"loading {source.hub} from the hub")
    paths: list[Path] = []
    for name in source.files[0].split("+"):
        try:
            path = hub.hf_hub_download(source.hub, name, repo_type="dataset", revision=source.revision)
        except Exception as error:
            raise _unreachable(benchmark, f"{source.hub} from the Hugging Face hub", error) from error
        paths.append(Path(path))
    return replace(read(paths, limit), origin=f"{source.hub} {source.revision[:7]}")


def release(benchmark: Benchmark) -> Path:
    """Returns the release file of a benchmark; it is downloaded once into the cache folder.

    Raises UserError if it cannot be had, or is another file than the one that the graders were proved on.
    """
    source = benchmark.source
    path = cache_root() / "benchmarks" / source.sha256[:16] / source.files[0]
    if path.is_file() and _sha256(path.read_bytes()) == source.sha256:
        return path
    try:
        with urllib.request.urlopen(source.release, timeout=PATIENCE_S) as response:
            content: bytes = response.read()
    except (OSError, ValueError) as error:
        raise _unreachable(benchmark, source.release, error) from error
    if _sha256(content) != source.sha256:
        raise UserError(f"{benchmark.title}: {source.release} has changed: {_by_hand(source)}")
    _write(path, content)
    return path


def _write(path: Path, content: bytes) -> None:
    """Writes a file so that it is there as a whole or not at all. Raises UserError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}: set REDQUEEN_CACHE to another folder") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unreachable(benchmark: Benchmark, what: str, error: Exception) -> UserError:
    why = str(error).strip().partition("\n")[0] or type(error).__name__
    return UserError(f"{benchmark.title}: cannot load {what} ({why}): connect, or {_by_hand(benchmark.source)}")


def _by_hand(source: Source) -> str:
    return f"give a folder that has {source.files[0]} with --data DIR"


GROUPS = ("code", "maths")
SHIPPED = tuple(extras.OFFERS["benchmark"])
TAKEN = (*SHIPPED, benchmark.NAME, OWN, *GROUPS, "all")


def names() -> list[str]:
    """Returns the names of all benchmarks, in the order of tables: ours, and then those that modules registered.

    Raises PluginError if a module's own has a name that is taken.
    """
    own = plugins.names("benchmark")
    for name in set(own).intersection(TAKEN):
        raise PluginError(f"Red Queen has a benchmark '{name}': give yours another name")
    return [*extras.names("benchmark"), benchmark.NAME, *own]


def groups() -> dict[str, list[str]]:
    """Returns the names of the benchmarks in each group."""
    benchmarks = [named(name) for name in names() if name != benchmark.NAME]
    groups = {group: [entry.name for entry in benchmarks if entry.group == group] for group in GROUPS}
    return {**groups, "all": names()}


def named(name: str) -> Benchmark:
    """Returns the benchmark of this name that has rows.

    Raises PluginError if a module's own is not what it says, MissingExtraError if it is of an extra that is not here.
    """
    if name in SHIPPED:
        return extras.find("benchmark", name)
    benchmark = plugins.find("benchmark", name)()
    if not isinstance(benchmark, Benchmark) or benchmark.name != name:
        raise PluginError(f"the benchmark '{name}' must return a Benchmark of that name: Benchmark(name='{name}', ...)")
    return benchmark


def chosen(words: Iterable[str], *, of_runs: bool = False) -> list[str]:
    """Returns the names that words and groups stand for, in the order of tables, each once.

    A generator such as `reasoning_gym:countdown` is one too, and comes behind the others; and where finished runs are
    asked (`of_runs`) also `own`, what they have held out of their user's tasks. Raises UserError if a word is none of
    these.
    """
    words = list(words)
    members = groups()
    all_names = list(dict.fromkeys([*names(), *filter(is_made, words), *((OWN,) if of_runs else ())]))
    wanted: set[str] = set()
    for word in words:
        extras.require("benchmark", word)
        if word not in members and word not in all_names:
            raise UserError(f"there is no benchmark '{word}': choose {', '.join((*members, *all_names))}")
        wanted |= set(members.get(word, (word,)))
    return [name for name in all_names if name in wanted]


def check_benchmarks(config: EvalsConfig) -> None:
    """Raises UserError if `evals.benchmarks` names what is no benchmark."""
    chosen(config.benchmarks)


def load_benchmarks(
    names: Iterable[str],
    settings: PlaySettings,
    verifier: Verifier,
    folder: Path | None,
    limit: int | None,
    kinds: Sequence[Kind] | None = None,
    half: Half | None = benchmark.HALF,
) -> list[ProblemSet]:
    """Returns the problems of benchmarks; the reserved programs of this half, or all, are posed in these `kinds`.

    Without `kinds` they are all those of the configuration's languages.

    Raises UserError, in one line, if some of them cannot be had.
    """
    loaded: list[ProblemSet] = []
    missing: list[MissingDataError] = []
    for name in names:
        try:
            if name == benchmark.NAME:
                loaded.append(benchmark.load_reserved(settings, verifier, limit, kinds, half))
            elif is_made(name):
                loaded.append(benchmark.load_reserved(settings, verifier, limit, (name,), half, name))
            else:
                loaded.append(load(named(name), folder, limit))
        except MissingDataError as error:
            missing.append(error)
    if not missing:
        return loaded
    # All missing ones are named at once.
    others = ",".join(one.benchmark.name for one in loaded)
    instead = f". Or choose only what is there: {others}" if others else ""
    raise UserError("; ".join(map(str, missing)) + instead)


def load(benchmark: Benchmark, folder: Path | None, limit: int | None) -> ProblemSet:
    """Returns the first `limit` problems of a benchmark, from `folder` or, without one, from the hub.

    Raises UserError, in one line, if the data are not there or are not what they should be.
    """
    if benchmark.source.made is not None:
        return problems(benchmark, made(benchmark, benchmark.source.made(), limit))
    rows = from_folder(benchmark, folder, limit) if folder else from_hub(benchmark, limit)
    return problems(benchmark, rows)
