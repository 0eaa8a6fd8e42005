"""The benchmarks by name, and the groups that can be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from redqueen.config import Config, EvalsConfig
from redqueen.errors import UserError
from redqueen.evals.benchmarks import reserved
from redqueen.evals.benchmarks.aime24 import AIME24
from redqueen.evals.benchmarks.aime25 import AIME25
from redqueen.evals.benchmarks.amc23 import AMC23
from redqueen.evals.benchmarks.benchmark import Benchmark, Loaded
from redqueen.evals.benchmarks.cruxeval_i import CRUXEVAL_I
from redqueen.evals.benchmarks.cruxeval_o import CRUXEVAL_O
from redqueen.evals.benchmarks.files import MissingDataError, from_folder, problems
from redqueen.evals.benchmarks.gsm8k import GSM8K
from redqueen.evals.benchmarks.hub import from_hub
from redqueen.evals.benchmarks.humaneval import HUMANEVAL
from redqueen.evals.benchmarks.livecodebench import LIVECODEBENCH
from redqueen.evals.benchmarks.math500 import MATH500
from redqueen.evals.benchmarks.mbpp import MBPP
from redqueen.evals.benchmarks.minerva import MINERVA
from redqueen.evals.benchmarks.olympiadbench import OLYMPIADBENCH
from redqueen.game.reserved import Half
from redqueen.records import Kind, Verifier

FROM_DATA = (
    HUMANEVAL,
    MBPP,
    LIVECODEBENCH,
    AIME24,
    AIME25,
    AMC23,
    MATH500,
    MINERVA,
    GSM8K,
    OLYMPIADBENCH,
    CRUXEVAL_I,
    CRUXEVAL_O,
)
BY_NAME = {benchmark.name: benchmark for benchmark in FROM_DATA}
NAMES = (*BY_NAME, reserved.NAME)
"""All benchmarks, in the order of tables."""
GROUPS: dict[str, tuple[str, ...]] = {
    "code": tuple(benchmark.name for benchmark in FROM_DATA if benchmark.group == "code"),
    "maths": tuple(benchmark.name for benchmark in FROM_DATA if benchmark.group == "maths"),
    "all": NAMES,
}


def chosen(words: Iterable[str]) -> list[str]:
    """Returns the names that words and groups stand for, in the order of tables, each once.

    Raises UserError if a word is neither.
    """
    wanted: set[str] = set()
    for word in words:
        if word not in GROUPS and word not in NAMES:
            raise UserError(f"there is no benchmark '{word}': choose {', '.join((*GROUPS, *NAMES))}")
        wanted |= set(GROUPS.get(word, (word,)))
    return [name for name in NAMES if name in wanted]


def check_benchmarks(config: EvalsConfig) -> None:
    """Raises UserError if `evals.benchmarks` names what is no benchmark."""
    chosen(config.benchmarks)


def load_benchmarks(
    names: Iterable[str],
    config: Config,
    verifier: Verifier,
    folder: Path | None,
    limit: int | None,
    kinds: Sequence[Kind] | None = None,
    half: Half | None = reserved.HALF,
) -> list[Loaded]:
    """Returns the problems of benchmarks; the reserved programs of this half, or all, are posed in these `kinds`.

    Without `kinds` they are all those of the configuration's languages.

    Raises UserError, in one line, if some of them cannot be had.
    """
    loaded: list[Loaded] = []
    missing: list[MissingDataError] = []
    for name in names:
        try:
            if name == reserved.NAME:
                loaded.append(reserved.load_reserved(config, verifier, limit, kinds, half))
            else:
                loaded.append(load(BY_NAME[name], folder, limit))
        except MissingDataError as error:
            missing.append(error)
    if not missing:
        return loaded
    # Whoever asked for many is told of all that are missing at once.
    others = ",".join(one.benchmark.name for one in loaded)
    instead = f". Or choose only what is there: {others}" if others else ""
    raise UserError("; ".join(map(str, missing)) + instead)


def load(benchmark: Benchmark, folder: Path | None, limit: int | None) -> Loaded:
    """Returns the first `limit` problems of a benchmark, from `folder` or, without one, from the hub.

    Raises UserError, in one line, if the data are not there or are not what they should be.
    """
    found = from_folder(benchmark, folder, limit) if folder else from_hub(benchmark, limit)
    return problems(benchmark, found)
