"""The benchmarks by name, and the groups that can be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from redqueen import extras, plugins
from redqueen.config import Config, EvalsConfig
from redqueen.errors import UserError
from redqueen.evals.benchmarks import reserved
from redqueen.evals.benchmarks.benchmark import Benchmark, Loaded
from redqueen.evals.benchmarks.files import MissingDataError, from_folder, made, problems
from redqueen.evals.benchmarks.hub import from_hub
from redqueen.method.reserved import Half
from redqueen.plugins import PluginError
from redqueen.records import Kind, Verifier
from redqueen.tasks.kinds import is_made

GROUPS = ("code", "maths")
SHIPPED = tuple(extras.OFFERS["benchmark"])
TAKEN = (*SHIPPED, reserved.NAME, *GROUPS, "all")


def names() -> list[str]:
    """Returns the names of all benchmarks, in the order of tables: ours, and then those that modules registered.

    Raises PluginError if a module's own has a name that is taken.
    """
    own = plugins.names("benchmark")
    for name in set(own).intersection(TAKEN):
        raise PluginError(f"Red Queen has a benchmark '{name}': give yours another name")
    return [*extras.names("benchmark"), reserved.NAME, *own]


def groups() -> dict[str, list[str]]:
    """Returns the names of the benchmarks in each group."""
    benchmarks = [named(name) for name in names() if name != reserved.NAME]
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


def chosen(words: Iterable[str]) -> list[str]:
    """Returns the names that words and groups stand for, in the order of tables, each once.

    A generator such as `reasoning_gym:countdown` is one too, and comes behind the others. Raises UserError if a word is
    none of these.
    """
    words = list(words)
    members = groups()
    all_names = list(dict.fromkeys([*names(), *filter(is_made, words)]))
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
            elif is_made(name):
                loaded.append(reserved.load_reserved(config, verifier, limit, (name,), half, name))
            else:
                loaded.append(load(named(name), folder, limit))
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
    if benchmark.source.made is not None:
        return problems(benchmark, made(benchmark, benchmark.source.made(), limit))
    rows = from_folder(benchmark, folder, limit) if folder else from_hub(benchmark, limit)
    return problems(benchmark, rows)
