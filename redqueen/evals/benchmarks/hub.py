"""Loads the rows of benchmarks from the Hugging Face hub, and those of evalplus from its releases."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import cast

from redqueen.base.machine import cache_root
from redqueen.base.optional import require
from redqueen.errors import UserError
from redqueen.evals.benchmarks.benchmark import Benchmark, Row, Source
from redqueen.evals.benchmarks.files import Rows, made, read

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
