"""The report of a measurement: one dictionary, printed as tables or as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Contender
from redqueen.jail.probes import cores

LIBRARIES = ("torch", "transformers", "peft", "populora", "trl", "llama_cpp_python")
WIDTH = 200
"""Columns of text in a table, also where there is no terminal: enough for each table here, so that none is cut."""
_progress = Console(stderr=True, soft_wrap=True)


@dataclass(slots=True)
class Report:
    """The result of one command; its fields are the keys of the JSON."""

    bench: str
    """The command's name."""
    settings: dict[str, Any]
    """Sizes, threads and rounds."""
    ratios: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What was asked: ratios between contenders, each with its target."""
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The measurements behind the ratios: a row for each contender, with every round."""
    missing: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Peers that could not take part, and why."""
    surroundings: dict[str, Any] = field(default_factory=lambda: surroundings())
    """Machine, date and versions."""

    def unavailable(self, peer: str, why: object) -> None:
        """Notes that a peer cannot take part."""
        self.missing.append({"peer": peer, "why": str(why)})

    def ratio(self, what: str, value: float, target: str) -> None:
        """Adds a ratio; the target is text, and may be empty."""
        self.ratios.append({"what": what, "ratio": round(value, 3), "target": target})


def surroundings() -> dict[str, Any]:
    """Returns machine, date and versions, without which a number means little."""
    # The load tells a reader whether other programs disturbed the measurement.
    return {
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
        "processor": _processor(),
        "cores": cores(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def log(line: str) -> None:
    """Prints a line of progress on standard error, since standard output may be JSON."""
    _progress.print(line, highlight=False)


def named(members: int) -> str:
    """Returns our name in a table."""
    return f"Red Queen, {members} member{'s' if members > 1 else ''}"


def against(ours: Contender, other: Contender, of: Callable[[Any], float]) -> float:
    """Returns the median over the rounds of ours / other."""
    return paired_ratio(ours.turns, other.turns, of)


def paired_ratio(ours: Sequence[Any], others: Sequence[Any], of: Callable[[Any], float]) -> float:
    """Returns the median of the ratios of what was measured in the same rounds."""
    # A ratio is taken within a round. Speed drifts from round to round by more than many differences between
    # contenders: a slow round slows both, which cancels in its ratio, but would not in the ratio of two medians.
    return median(of(a) / of(b) for a, b in zip(ours, others, strict=True))


def times(case: str, contender: Contender, reference: Contender) -> dict[str, Any]:
    """Returns a row of a table of times; its ratio is CPU time over the reference's."""
    # Every round is kept in the JSON, so that a reader can see how far the rounds differ.
    turns = contender.turns
    return {
        "ratio": round(against(contender, reference, lambda t: t.cpu_s), 3),
        "case": case,
        "how": contender.name,
        "cpu_ms": round(median(t.cpu_s for t in turns) * 1000, 1),
        "wall_ms": round(median(t.wall_s for t in turns) * 1000, 1),
        "tokens": turns[0].tokens,
        "cpu_ms_rounds": [round(t.cpu_s * 1000, 1) for t in turns],
        "wall_ms_rounds": [round(t.wall_s * 1000, 1) for t in turns],
    }


def finish(report: Report, columns: Sequence[tuple[str, str]], as_json: bool, notes: Sequence[str] = ()) -> int:
    """Prints the report; `columns` are keys of a result with their headings. Returns the exit code."""
    if as_json:
        print(json.dumps(asdict(report), indent=2))
        return 0
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.width = max(console.width, WIDTH)
    for case in dict.fromkeys(row["case"] for row in report.results):
        table = Table(title=case, title_justify="left", box=None, pad_edge=False)
        for _, heading in columns:
            table.add_column(heading, no_wrap=True)
        for row in report.results:
            if row["case"] == case:
                table.add_row(*(_cell(row.get(key)) for key, _ in columns))
        console.print(table)
        console.print()
    for entry in report.ratios:
        aim = f" (aim: {entry['target']})" if entry["target"] else ""
        console.print(f"{entry['ratio']:.2f}  {entry['what']}{aim}")
    for entry in report.missing:
        console.print(f"{entry['peer']}: {entry['why']}")
    for note in notes:
        console.print(note)
    where = report.surroundings
    libraries = ", ".join(f"{name} {number}" for name, number in where["libraries"].items())
    settings = ", ".join(f"{key} {value}" for key, value in report.settings.items())
    console.print(f"{where['date']}; {where['processor']}, {where['cores']} cores, load {where['load']}; {settings}")
    console.print(f"Python {where['python']}, {libraries}")
    return 0


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return str(value)
