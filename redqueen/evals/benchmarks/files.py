"""Loads the rows of benchmarks from a folder of files or from the Hugging Face hub."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import cast

from redqueen.errors import UserError
from redqueen.evals.benchmarks.benchmark import Benchmark, Loaded, Row
from redqueen.evals.graders.grader import Problem
from redqueen.optional import require


def load(benchmark: Benchmark, folder: Path | None, limit: int | None) -> Loaded:
    """Returns the first `limit` problems of a benchmark, from `folder` or, without one, from the hub.

    Raises UserError, in one line, if the data are not there or are not what they should be.
    """
    if folder is None:
        rows, origin, sha256 = _from_hub(benchmark)
    else:
        rows, origin, sha256 = _from_folder(benchmark, folder)
    if not rows:
        raise UserError(f"{benchmark.title}: {origin} has no rows: download it again")
    taken = rows[:limit]
    programs = [benchmark.programs(row) for row in taken] if benchmark.programs else []
    return Loaded(
        benchmark=benchmark,
        problems=[_problem(benchmark, row, number, origin) for number, row in enumerate(taken, 1)],
        available=len(rows),
        origin=origin,
        sha256=sha256,
        programs=programs,
    )


def _problem(benchmark: Benchmark, row: Row, number: int, origin: str) -> Problem:
    try:
        return benchmark.problem(row)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UserError(f"row {number} of {origin} is no row of {benchmark.title}: {why}") from error


def _from_folder(benchmark: Benchmark, folder: Path) -> tuple[list[Row], str, str]:
    for names in benchmark.source.files:
        paths = [folder / name for name in names.split("+")]
        if all(path.is_file() for path in paths):
            return _read(paths)
    wanted = " or ".join(benchmark.source.files)
    raise UserError(f"{benchmark.title}: {folder} has no {wanted}: {_where_to_get(benchmark)}")


def _where_to_get(benchmark: Benchmark) -> str:
    source = benchmark.source
    if source.hub:
        return f"put it there, or leave --data out to load {source.hub} from the Hugging Face hub"
    return f"download it from {source.elsewhere}"


def _read(paths: list[Path]) -> tuple[list[Row], str, str]:
    digest = hashlib.sha256()
    rows: list[Row] = []
    for path in paths:
        try:
            content = path.read_bytes()
            digest.update(content)
            text = gzip.decompress(content) if path.suffix == ".gz" else content
            rows += [cast("Row", json.loads(line)) for line in text.decode().splitlines() if line.strip()]
        except (OSError, EOFError, ValueError) as error:
            raise UserError(f"cannot read {path}: {error}: download it again") from error
    return rows, " ".join(path.name for path in paths), digest.hexdigest()


def _from_hub(benchmark: Benchmark) -> tuple[list[Row], str, str]:
    source = benchmark.source
    if not source.hub:
        raise UserError(
            f"{benchmark.title}: the hub has no inputs and tolerances for it: download {source.files[0]} from "
            f"{source.elsewhere} and give its folder with --data DIR"
        )
    if source.split == "files":
        return _files_of_hub(benchmark)
    datasets = require("datasets", "evals", f"loading {source.hub} from the hub")
    try:
        found = datasets.load_dataset(source.hub, source.subset, split=source.split)
    # The library raises errors of many kinds, its own and those of the network below it.
    except Exception as error:
        raise _unreachable(benchmark, error) from error
    rows = [cast("Row", dict(row)) for row in found]
    text = json.dumps(rows, sort_keys=True, default=str)
    return rows, source.hub, hashlib.sha256(text.encode()).hexdigest()


def _files_of_hub(benchmark: Benchmark) -> tuple[list[Row], str, str]:
    """Loads a data set that is a folder of JSONL files on the hub."""
    source = benchmark.source
    hub = require("huggingface_hub", "evals", f"loading {source.hub} from the hub")
    try:
        paths = [
            Path(hub.hf_hub_download(source.hub, name, repo_type="dataset")) for name in source.files[0].split("+")
        ]
    except Exception as error:
        raise _unreachable(benchmark, error) from error
    rows, _, sha256 = _read(paths)
    return rows, source.hub, sha256


def _unreachable(benchmark: Benchmark, error: Exception) -> UserError:
    why = str(error).strip().partition("\n")[0] or type(error).__name__
    return UserError(
        f"{benchmark.title}: cannot load {benchmark.source.hub} from the Hugging Face hub ({why}): connect, or give a "
        f"folder that has {benchmark.source.files[0]} with --data DIR"
    )
