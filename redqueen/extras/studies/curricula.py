"""Curricula of equal length: the tasks that runs wrote at their beginning and at their end, and seed programs.

The tasks are read from a run's folder, or from a file of `redqueen tasks export`.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

from redqueen.base import streams
from redqueen.base.intervals import mean
from redqueen.config import ModelConfig, PlaySettings, PopulationConfig, SandboxConfig
from redqueen.errors import UserError
from redqueen.method.planting import plant_seeds
from redqueen.method.seeds import AUTHOR
from redqueen.method.self_play import SelfPlay
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Sampler, Task
from redqueen.store.dataset.files import exported_tasks, is_exported, task_of
from redqueen.store.dataset.rows import TaskFilter, TaskRecord, read_tasks, select
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.complexity import complexity_of

Part = Literal["first", "last"]
"""The first or the last third of a run's steps."""
SEEDS = "seeds"
"""The curriculum of seed programs: the fixed tasks that a person wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """The tasks that a stranger is trained on."""

    run: str
    """The name of the run's folder, or of the file without its ending; `SEEDS` for the seeds."""
    part: Part | None
    """None for the seeds."""
    records: tuple[TaskRecord, ...]
    """Valid tasks, oldest first; none similar to a reserved program, and none twice."""

    @property
    def name(self) -> str:
        """The name of its file and of its cell in the sweep."""
        return self.run if self.part is None else f"{self.run}-{self.part}"

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for record in self.records:
            counts[record.kind] = counts.get(record.kind, 0) + 1
        return counts

    def lines(self) -> float | None:
        """Returns the mean number of lines of its programs; None if the measures do not apply to their language."""
        trees = [find(record.kind).language.tree(record.program) for record in self.records]
        return mean(None if tree is None else complexity_of(tree).lines for tree in trees)

    def solve_rate(self) -> float | None:
        """Returns the mean solve rate among the run's own students, in [0, 1]; None if none was attempted."""
        return mean(record.solve_rate for record in self.records)


def curricula(sources: Sequence[Path]) -> list[Curriculum]:
    """Returns both parts of each run or exported file.

    Raises UserError if two have one name, or if one has fewer than 3 steps; RunError if there is no such run.
    """
    found: list[Curriculum] = []
    for source in sources:
        found += _parts(source)
    names = [curriculum.name for curriculum in found]
    if len(set(names)) < len(names):
        raise UserError("two of the runs have one name: rename one, so that the table can tell them apart")
    return found


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


def _parts(source: Path) -> list[Curriculum]:
    """Returns the tasks of the first third and of the last third of a run's steps."""
    if is_exported(source):
        name = source.resolve().name.removesuffix(source.suffix)
        written = exported_tasks(source)
        steps = max((record.step for record in written), default=0)
    else:
        name = source.resolve().name
        steps = len(RunDirectory(source).metrics())
        with damage_of(source):
            written = read_tasks(source)
    third = steps // 3
    if not third:
        raise UserError(f"{source} has {steps} steps: its first and last third need at least 3")
    records = select(written, TaskFilter()).records
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
    taken: set[str] = set()
    for kind, size in sizes.items():
        ids = [record.id for record in curriculum.records if record.kind == kind]
        taken.update(streams.python(seed, "transfer", curriculum.name, kind).sample(ids, size))
    records = tuple(record for record in curriculum.records if record.id in taken)
    return Curriculum(run=curriculum.run, part=curriculum.part, records=records)


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
