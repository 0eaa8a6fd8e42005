"""`redqueen tasks export`: writes the tasks of a run as a file or as a folder that is a whole data set."""

# No import here may load torch: the archive is read at once (see `redqueen.cli.app`).

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from redqueen import __version__, extras
from redqueen.cli.pushing import hub, push
from redqueen.errors import UserError
from redqueen.members import about_base, code, plain, yaml_text
from redqueen.method.seeds import AUTHOR, FIXED, OWN
from redqueen.run.recording.plain_console import table_console
from redqueen.store.allowed import check_kind
from redqueen.store.dataset import TaskFilter, TaskRecord, TaskSelection, read_tasks, select
from redqueen.store.dataset.files import FOLDER_FILE, FORMATS, column_table, require_arrow, write_tasks
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of, written_whole
from redqueen.tasks.kinds import find_or_plain, is_kind, names_of_languages

# The card of a folder of exported tasks: what they are, where they come from, and how to use them safely.

# The classes that the hub knows, by the number of rows that each ends before.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**9, "n>1M"))


def dataset_card(
    selected: TaskSelection, wanted: TaskFilter, *, base: str, recipe: str, players: str, seed: int
) -> str:
    """Returns the card, with the metadata that the Hugging Face hub reads.

    `base` is the name of the run's model, `players` says how many members it had.
    """
    records = selected.records
    run = records[0].run
    seeds = "`redqueen tasks import PATH/OF/THIS/FOLDER --out SEEDS.txt`\nmakes a seed file for a new run of it."
    if languages_of(records) != ["Python"]:
        seeds = "A new run plays them\nas fixed tasks with `game.tasks=PATH/OF/THIS/FOLDER`."
    return f"""{_metadata(run, len(records))}
# Tasks of the run {plain(run)}

{described(records)} with their outputs and solve rates. {written(records)}

**Not all of these programs were read by a person. Run them in a sandbox only**, such as `redqueen verify`.
Inputs and outputs are Python literals: read them with `ast.literal_eval`, never with `eval`.

## Load

```python
from datasets import load_dataset

tasks = load_dataset("PATH/OF/THIS/FOLDER", split="train")
```

or `pandas.read_parquet("{FOLDER_FILE}")`. {seeds}

## Where they come from

- recipe {code(recipe)}, {players}
- seed {seed}, steps {records[0].step} to {records[-1].step}
- base model: {about_base(base)}
- every program ran at least four times in a sandbox and gave the same outputs
- asked for: {asked(wanted)}
- solve rates are in sample: the student was trained on the task. They are of the student that the task was posed to,
  as it was then

| kind | what a student has to do | tasks | mean solve rate |
|---|---|---|---|
{_kinds(records)}

Of {selected.total} valid tasks of the run, these are not here: {left_out(selected)}.

## Columns

{column_table()}

## Licence

None is given. Choose one when you publish this folder, and add it to the head of this file (`license: ...`); the base
model's licence may say something about its outputs.
"""


def languages_of(records: Sequence[TaskRecord]) -> list[str]:
    """Returns the names of the languages that tasks are written in."""
    return list(dict.fromkeys(find_or_plain(record.kind).language.words.name for record in records))


def described(records: Sequence[TaskRecord]) -> str:
    """Returns how many tasks there are, and of what language, e.g. "12 small Python tasks"."""
    names = languages_of(records)
    return f"{len(records)} small {names[0]} tasks" if len(names) == 1 else f"{len(records)} small tasks"


def written(records: Sequence[TaskRecord]) -> str:
    """Returns a sentence on where the tasks come from: written by the run's teachers, or given to the run."""
    queen = f"[Red Queen](https://arxiv.org/abs/2605.16727) {__version__}"
    given = sum(record.author in FIXED for record in records)
    if given == len(records):
        return f"No model wrote them: a run of\n{queen} was given them, and its students were trained on them."
    text = (
        f"A language model wrote them while it was\ntrained by co-evolution with {queen}: teachers write tasks, and\n"
        "students solve them."
    )
    if not given:
        return text
    return f"{text}\n\n{given} of them no model wrote: the run was given them (`author` is `{OWN}` or `{AUTHOR}`)."


def asked(wanted: TaskFilter) -> str:
    """Returns which tasks were asked for, in words."""
    conditions = [wanted.kind or "all kinds"]
    if wanted.solve_rate is not None:
        conditions.append(f"solve rate from {wanted.solve_rate[0]:g} to {wanted.solve_rate[1]:g}")
    if wanted.distinct:
        conditions.append("one task of each kind and shape (programs alike up to names and constants)")
    return "; ".join(conditions)


def left_out(selected: TaskSelection) -> str:
    """Returns how many tasks were left out, and why."""
    reasons: list[str] = []
    if selected.filtered:
        reasons.append(f"{_are(selected.filtered, 'was', 'were')} not asked for")
    if selected.repeated:
        repeats = _are(selected.repeated, "repeats", "repeat")
        reasons.append(f"{repeats} the program of another, up to names and constants")
    alike = _are(selected.reserved, "is", "are")
    reasons.append(f"{alike} similar to a reserved program, which models are only measured on")
    return ", ".join(reasons)


def _are(count: int, one: str, many: str) -> str:
    """Returns a number and the verb that agrees with it."""
    return f"{count} {one if count == 1 else many}"


def _metadata(run: str, count: int) -> str:
    """Returns the header that the hub reads. It names no licence: only who publishes the tasks can choose one."""
    size = next(name for limit, name in _SIZES if count < limit)
    return f"""---
pretty_name: {yaml_text(f"Tasks of the run {run}")}
task_categories: [text-generation]
language: [code]
tags: [redqueen, populora, code, synthetic]
size_categories: [{size}]
configs:
- config_name: default
  data_files:
  - split: train
    path: {FOLDER_FILE}
---"""


def _kinds(records: tuple[TaskRecord, ...]) -> str:
    counts = Counter(record.kind for record in records)
    lines: list[str] = []
    played = names_of_languages(kind for kind in counts if is_kind(kind))
    for kind in dict.fromkeys([*played, *sorted(counts)]):
        rates = [record.solve_rate for record in records if record.kind == kind and record.solve_rate is not None]
        mean = f"{sum(rates) / len(rates):.2f}" if rates else "-"
        lines.append(f"| {code(kind)} | {find_or_plain(kind).title} | {counts[kind]} | {mean} |")
    return "\n".join(lines)


def run_tasks_export(
    run: Path, out: str, wanted: TaskFilter, *, for_verifiers: bool = False, repository: str | None = None
) -> int:
    """Writes the tasks that are wanted to `out`; returns the exit code.

    `for_verifiers`: as a package, whose name is that of the folder `out`. A folder is also published as `repository`.

    Raises UserError if `out` exists or cannot be written, or if no task is left, RunError if there is no such run.
    """
    target = Path(out)
    folder = _is_folder(out)
    if for_verifiers and not folder:
        raise UserError(
            f"--format verifiers writes a package: --out must name a folder, such as redqueen_tasks{os.sep}"
        )
    if repository is not None and not folder:
        raise UserError(f"--push publishes a folder with a card: --out must name a folder, such as tasks{os.sep}")
    library = hub(repository)
    verifiers = extras.find("task format", "verifiers") if for_verifiers else None
    package = verifiers.module_name(target) if verifiers else ""
    if wanted.solve_rate is not None and not 0 <= wanted.solve_rate[0] <= wanted.solve_rate[1] <= 1:
        raise UserError("--solve-rate takes two numbers from 0 to 1, the smaller one first: --solve-rate 0.1 0.9")
    if target.exists():
        raise UserError(f"{target} exists already: choose another name")
    if (folder and not package) or target.suffix == ".parquet":
        require_arrow(FOLDER_FILE if folder else target)
    config = RunDirectory(run).config()
    check_kind(wanted.kind, config.game.kinds)
    with damage_of(run):
        selected = select(read_tasks(run), wanted)
    if not selected.total:
        raise UserError(f"{run} has no valid task yet")
    if not selected.records:
        raise UserError(
            f"no task of {run} is left ({asked(wanted)}): of {selected.total} valid tasks {left_out(selected)}"
        )

    notes: list[str] = []
    with written_whole(target) as scratch:
        if verifiers:
            notes = verifiers.write_package(scratch, package, config.model.name, selected, wanted)
        elif folder:
            (scratch / FOLDER_FILE).parent.mkdir(parents=True, exist_ok=True)
            write_tasks(selected.records, scratch / FOLDER_FILE)
            card = dataset_card(
                selected,
                wanted,
                base=config.model.name,
                recipe=config.recipe,
                players=config.population.who,
                seed=config.run.seed,
            )
            (scratch / "README.md").write_text(card, encoding="utf-8")
        else:
            write_tasks(selected.records, scratch)
    console = table_console()
    console.print(f"wrote {len(selected.records)} of {selected.total} tasks to {target}", soft_wrap=True)
    if selected.total > len(selected.records):
        console.print(f"left out: {left_out(selected)}", soft_wrap=True)
    for line in notes:
        console.print(line, soft_wrap=True)
    if folder:
        how = "install and run it" if package else "load it"
        console.print(f"what is in it, and how to {how}: {target / 'README.md'}", soft_wrap=True)
    if repository is not None:
        push(library, target, repository, "dataset", console)
    return 0


def _is_folder(out: str) -> bool:
    """Returns whether `out` names a folder. Raises UserError for a file of another format."""
    suffix = Path(out).suffix
    if out.endswith(os.sep) or not suffix:
        return True
    if suffix not in FORMATS:
        raise UserError(f"--out {out}: give FILE.parquet, FILE.jsonl, or a folder: {out}{os.sep}")
    return False
