"""`redqueen transfer`: what the tasks of runs are worth to a student that none of them has seen.

OUT/NAME-first.jsonl, OUT/NAME-last.jsonl and OUT/seeds.jsonl hold the tasks, OUT/CELL/seed-N is the run of a stranger,
seed-N.log next to it what its process printed, OUT/transfer.json the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from redqueen.base.intervals import Interval, interval, interval_text, paired
from redqueen.cli.tables import plain_table, progress_console, table_console
from redqueen.config import PlaySettings
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.extras.studies.curricula import (
    SEEDS,
    Curriculum,
    curricula,
    seed_curriculum,
    shared_kinds,
    shortened,
    stranger_settings,
)
from redqueen.extras.studies.sweep import Combination, SweepRun, plan_runs
from redqueen.extras.studies.sweep_plan import train_runs
from redqueen.store.dataset.files import write_tasks
from redqueen.store.directory import write_json
from redqueen.store.metrics import StepMetrics

# The table of strangers: what each gained on held-out tasks, by the curriculum that it was trained on.

Gains = Mapping[str, Mapping[int, float]]
"""By cell and seed, the held-out score of a stranger less that of its start, in [-1, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRow:
    """The strangers of one cell."""

    cell: str
    tasks: int
    """How many tasks they were trained on."""
    lines: float | None
    """The mean number of lines of the programs; None if the measures do not apply to their language."""
    solve_rate: float | None
    """How often the run's own students solved these tasks, in [0, 1]; None for the seeds."""
    gain: Interval | None
    """Over the seeds of the strangers (Student's t)."""
    over_seeds: Interval | None = None
    """The gain less that of the cell `SEEDS`, paired by seed; None in its own row."""
    last_over_first: Interval | None = None
    """In the row of a last third: its gain less that of the first third of the same run, paired by seed."""


def gain(lines: Sequence[StepMetrics]) -> float | None:
    """Returns the gain of a run's student in its last evaluation; None if nothing was evaluated."""
    for line in reversed(lines):
        scores = line.get("held_out")
        if scores is not None:
            return fmean(score["gain"] for score in scores["students"].values())
    return None


def rows(curricula: Sequence[Curriculum], gains: Gains) -> list[TransferRow]:
    """Returns the table, a row for each curriculum in their order."""
    table: list[TransferRow] = []
    first: Mapping[int, float] = {}
    for curriculum in curricula:
        own = gains[curriculum.name]
        table.append(
            TransferRow(
                cell=curriculum.name,
                tasks=len(curriculum.records),
                lines=curriculum.lines(),
                solve_rate=curriculum.solve_rate(),
                gain=interval(list(own.values())),
                over_seeds=None if curriculum.part is None else paired(own, gains[SEEDS]),
                last_over_first=paired(own, first) if curriculum.part == "last" else None,
            )
        )
        # The first third of a run comes before its last third.
        first = own
    return table


NOTES = """\
Each stranger is a fresh student, trained by rlvr with equally many tasks, updates and attempts. first, last: the tasks
of the first and of the last third of a run's steps, each once; seeds: as many on seed programs. gain: held-out score
less that of the start, in points; [..]: 95 % intervals over the strangers' seeds (Student's t). They leave out what all
seeds share: the held-out problems, and the start's one answer to each. solved: by the run's own students."""


def run_transfer(args: Sequence[str], seeds: int, out: Path, jobs: int, *, as_json: bool) -> int:
    """Trains the strangers that are missing and prints their table; returns the exit code.

    `args` are folders of runs or exported files, and settings as KEY=VALUE. Raises UserError.
    """
    paths = [Path(arg) for arg in args if "=" not in arg]
    overrides = [arg for arg in args if "=" in arg]
    if not paths:
        raise UserError("name the runs whose tasks are tried: redqueen transfer RUN... --out DIR")
    parts = curricula(paths)
    settings = ["rlvr", *stranger_settings(paths, shared_kinds(parts)), *overrides]
    stranger = configure(settings)
    of_seeds = seed_curriculum(
        PlaySettings.of(stranger), stranger.sandbox, students_alone=not stranger.population.teachers
    )
    found = shortened([of_seeds, *parts], stranger.run.seed)
    sizes = found[0].counts()
    # The task bank of a stranger holds them all.
    settings.append(f"game.bank_size={max(stranger.game.bank_size, *sizes.values())}")
    cells = [Combination(one.name, (f"game.tasks={_file(out, one)}", "evals.own=0")) for one in found]
    # The runs are checked before a file is written.
    strangers = plan_runs(settings, cells, seeds, out)
    _write(out, found)
    progress = progress_console()
    remaining = sum(not run.done for run in strangers)
    progress.print(f"{len(strangers)} strangers, {remaining} to train on {sum(sizes.values())} tasks each")
    if not train_runs(strangers, jobs, progress):
        progress.print("stopped: the same command goes on")
        return 130
    table = rows(found, _gains(cells, strangers))
    document = {"args": list(args), "tasks": sizes, "rows": [asdict(row) for row in table]}
    write_json(out / "transfer.json", document)
    if as_json:
        print(json.dumps(document, indent=1))
    else:
        _show(table)
    return 0 if all(run.done for run in strangers) else 1


def _file(out: Path, curriculum: Curriculum) -> Path:
    return out.resolve() / f"{curriculum.name}.jsonl"


def _write(out: Path, found: Sequence[Curriculum]) -> None:
    """Writes the curricula that are missing. Raises UserError if one is there with other tasks."""
    out.mkdir(parents=True, exist_ok=True)
    for curriculum in found:
        file = _file(out, curriculum)
        scratch = file.with_suffix(".tmp.jsonl")
        try:
            write_tasks(curriculum.records, scratch)
            if file.exists() and file.read_bytes() != scratch.read_bytes():
                raise UserError(f"{file} holds other tasks: the runs have changed since, choose another --out")
            scratch.replace(file)
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error
        finally:
            scratch.unlink(missing_ok=True)


def _gains(cells: Sequence[Combination], strangers: Sequence[SweepRun]) -> dict[str, dict[int, float]]:
    """Returns the gains of the strangers that are done."""
    gains: dict[str, dict[int, float]] = {cell.name: {} for cell in cells}
    for run in strangers:
        value = gain(run.lines()) if run.done else None
        if value is not None:
            gains[run.cell][run.seed] = value
    return gains


def _show(table: Sequence[TransferRow]) -> None:
    console = table_console()
    columns = plain_table("tasks of", "tasks", "lines", "solved", "strangers", "gain", "gain - seeds", "last - first")
    for row in table:
        columns.add_row(
            row.cell,
            str(row.tasks),
            "-" if row.lines is None else f"{row.lines:.1f}",
            "-" if row.solve_rate is None else f"{row.solve_rate:.2f}",
            str(row.gain.n if row.gain else 0),
            *(interval_text(interval, "+.1f", 100) for interval in (row.gain, row.over_seeds, row.last_over_first)),
        )
    console.print(columns)
    console.print(NOTES, soft_wrap=True)
