"""`redqueen transfer`: what the tasks of runs are worth to a student that none of them has seen.

OUT/NAME-first.jsonl, OUT/NAME-last.jsonl and OUT/seeds.jsonl hold the tasks, OUT/CELL/seed-N is the run of a stranger,
seed-N.log next to it what its process printed, OUT/transfer.json the table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal, cast

from redqueen.base import streams
from redqueen.base.intervals import Interval, interval, interval_text, mean, paired
from redqueen.config import ModelConfig, PlaySettings, PopulationConfig, SandboxConfig
from redqueen.config.recipes import configure
from redqueen.errors import UserError
from redqueen.extras.studies.sweep import Combination, SweepRun, plan_runs, train_runs
from redqueen.method.planting import plant_seeds
from redqueen.method.seeds import AUTHOR, FIXED
from redqueen.method.self_play import SelfPlay
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Sampler, Task
from redqueen.run.recording.plain_console import plain_table, progress_console, table_console
from redqueen.store.dataset import TaskFilter, TaskRecord, read_tasks, select
from redqueen.store.dataset.files import exported_tasks, is_exported, task_of, write_tasks
from redqueen.store.directory import RunDirectory, write_json
from redqueen.store.files import damage_of, written_whole
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.complexity import complexity_of

# Curricula of equal length: the tasks that runs wrote at their beginning and at their end, and seed programs.
#
# The tasks are read from a run's folder, or from a file of `redqueen tasks export`.

Part = Literal["first", "last"]
"""The first or the last third of a run's steps."""
SEEDS = "seeds"
"""The curriculum of seed programs: the fixed tasks that a person wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """The tasks that a stranger is trained on."""

    run: str
    """The name of the run's folder, or of the file without its ending, with those of the folders around it as far as
    another run is called the same; `SEEDS` for the seeds."""
    part: Part | None
    """None for the seeds."""
    records: tuple[TaskRecord, ...]
    """Valid tasks, oldest first; none similar to a reserved program, and none twice."""

    @property
    def name(self) -> str:
        """The name of its file and of its cell in the sweep."""
        return self.run if self.part is None else f"{self.run}-{self.part}"

    def counts(self) -> dict[str, int]:
        return dict(Counter(record.kind for record in self.records))

    def lines(self) -> float | None:
        """Returns the mean number of lines of its programs; None if the measures do not apply to their language."""
        trees = [find(record.kind).language.tree(record.program) for record in self.records]
        return mean(None if tree is None else complexity_of(tree).lines for tree in trees)

    def solve_rate(self) -> float | None:
        """Returns the mean solve rate among the run's own students, in [0, 1]; None if none was attempted."""
        return mean(record.solve_rate for record in self.records)


def curricula(sources: Sequence[Path]) -> list[Curriculum]:
    """Returns both parts of each run or exported file.

    Raises UserError if one is given twice, or if one has fewer than 3 steps; RunError if there is no such run.
    """
    found: list[Curriculum] = []
    for source, name in zip(sources, _names(sources), strict=True):
        found += _parts(source, name)
    return found


def _names(sources: Sequence[Path]) -> list[str]:
    """Returns a name of each source: as much of the end of its path as tells it from the others.

    In a sweep the last folders of all runs are called `seed-0`, `seed-1`, ...
    """
    paths = [source.resolve() for source in sources]
    wholes = [path.with_name(path.name.removesuffix(path.suffix)) if is_exported(path) else path for path in paths]
    for depth in range(1, max(len(path.parts) for path in wholes)):
        names = ["-".join(path.parts[1:][-depth:]) for path in wholes]
        if len(set(names)) == len(names):
            return names
    raise UserError("the same run is given twice: name each once")


def seed_curriculum(settings: PlaySettings, sandbox: SandboxConfig, *, students_alone: bool) -> Curriculum:
    """Returns the tasks that the seed programs make for a stranger with these settings. Raises SeedError."""
    with LocalVerifier(sandbox, settings.game.min_inputs) as verifier:
        # Nothing is sampled to plant seeds.
        play = SelfPlay(settings, cast(Sampler, None), verifier)
        plant_seeds(play, students_alone=students_alone)
    records = [_seed_record(number, entry.task) for number, entry in enumerate(play.task_bank.entries())]
    return Curriculum(run=SEEDS, part=None, records=tuple(records))


def _seed_record(number: int, task: Task) -> TaskRecord:
    """Returns a seed as a row of a file of tasks, without attempts."""
    kind = find(task.kind)
    return TaskRecord(
        run=SEEDS,
        # One program makes a task of each kind.
        id=f"seed-{number}",
        step=0,
        kind=task.kind,
        author=AUTHOR,
        student="",
        program=task.program,
        inputs=tuple(pair.input for pair in task.pairs),
        outputs=tuple(pair.output for pair in task.pairs),
        message=task.message,
        shown=len(kind.shown(task)),
        attempts=0,
        solved=0,
        solve_rate=None,
        teacher_reward=None,
        novel=False,
        shape=kind.language.shape(task.program),
    )


def _parts(source: Path, name: str) -> list[Curriculum]:
    """Returns the tasks of the first third and of the last third of a run's steps."""
    if is_exported(source):
        written = exported_tasks(source)
        steps = max((record.step for record in written), default=0)
    else:
        # Not the number of lines: a run may go on without the first ones.
        steps = max((line["step"] for line in RunDirectory(source).metrics()), default=0)
        with damage_of(source):
            written = read_tasks(source)
    third = steps // 3
    if not third:
        raise UserError(f"{source} has {steps} steps: its first and last third need at least 3")
    records = select(written, TaskFilter()).records
    # Neither fixed tasks nor those of champions, which write as members did long before, unless there are no others.
    records = [record for record in records if record.author not in FIXED and "@" not in record.author] or records
    first = [record for record in records if record.step <= third]
    last = [record for record in records if record.step > steps - third]
    return [
        Curriculum(run=name, part="first", records=once(first)),
        Curriculum(run=name, part="last", records=once(last)),
    ]


def once(records: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """Returns the tasks that a task bank would hold: each once, however often it was written."""
    # A stranger has a task bank of its own, so a repeated task is no further one for it.
    bank = TaskBank(max(1, len(records)))
    return tuple(record for record in records if bank.add(task_of(asdict(record)), None))


def shared_kinds(found: Sequence[Curriculum]) -> list[str]:
    """Returns the kinds that all curricula have tasks of, by name. Raises UserError if there are none."""
    kinds = set.intersection(*(set(curriculum.counts()) for curriculum in found))
    if not kinds:
        shortest = min(found, key=lambda curriculum: len(curriculum.records))
        raise UserError(f"the tasks of {shortest.name} share no kind with the others")
    return sorted(kinds)


def shortened(found: Sequence[Curriculum], seed: int) -> list[Curriculum]:
    """Returns the curricula with equally many tasks of each kind that all have, as many as the shortest has.

    Which tasks of a longer one are taken is drawn by `seed`. Raises UserError if there would be none.
    """
    counts = [curriculum.counts() for curriculum in found]
    # Kinds that some curriculum lacks are left out: a stranger could learn nothing about them there.
    sizes = {kind: min(by_kind[kind] for by_kind in counts) for kind in shared_kinds(found)}
    return [_drawn(curriculum, sizes, seed) for curriculum in found]


def _drawn(curriculum: Curriculum, sizes: Mapping[str, int], seed: int) -> Curriculum:
    """Returns a curriculum with so many of its tasks of each kind, in their old order."""
    # By place and not by id: a file that was put together of two runs has some ids twice.
    taken: set[int] = set()
    for kind, size in sizes.items():
        places = [place for place, record in enumerate(curriculum.records) if record.kind == kind]
        taken.update(streams.python(seed, "transfer", curriculum.name, kind).sample(places, size))
    return replace(curriculum, records=tuple(curriculum.records[place] for place in sorted(taken)))


def stranger_settings(sources: Sequence[Path], kinds: Sequence[str]) -> list[str]:
    """Returns the settings in which a stranger must equal the members of the runs: their base, prompts and start.

    An exported file says nothing of them. Raises UserError if the runs differ in them.
    """
    runs = [source for source in sources if not is_exported(source)]
    configs = [RunDirectory(run).config() for run in runs]
    wanted = [_settings(config.model, config.population) for config in configs]
    for run, settings in zip(runs, wanted, strict=True):
        if settings != wanted[0]:
            different = ", ".join(text for text in settings if text not in wanted[0])
            raise UserError(f"{run} has {different}, and {runs[0]} has not: a stranger cannot be compared on both")
    return [*(wanted[0] if wanted else ()), f"game.kinds={','.join(kinds)}"]


def _settings(model: ModelConfig, population: PopulationConfig) -> list[str]:
    settings = [f"model.name={model.name}", f"model.prompts={model.prompts}"]
    return [*settings, f"model.rank={model.rank}", f"population.init={population.init}"]


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


def run_transfer(
    paths: Sequence[Path], overrides: Sequence[str], seeds: int, out: Path, jobs: int, *, as_json: bool
) -> int:
    """Trains the strangers that are missing and prints their table; returns the exit code.

    `paths` are folders of runs or exported files, `overrides` settings as KEY=VALUE. Raises UserError.
    """
    if not paths:
        raise UserError("name the runs whose tasks are tried: redqueen transfer RUN... --out DIR")
    parts = curricula(paths)
    settings = ["rlvr", *stranger_settings(paths, shared_kinds(parts)), *overrides]
    stranger = configure(settings)
    of_seeds = seed_curriculum(
        stranger.play_settings, stranger.sandbox, students_alone=not stranger.population.teachers
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
    document = {"args": [*map(str, paths), *overrides], "tasks": sizes, "rows": [asdict(row) for row in table]}
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
        with written_whole(file) as scratch:
            write_tasks(curriculum.records, scratch)
            if file.exists() and file.read_bytes() != scratch.read_bytes():
                raise UserError(
                    f"{file} holds other tasks: the runs or the settings have changed. Choose another --out"
                )


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
