"""`redqueen tasks export`: writes the tasks of a run as a file or as a folder that is a whole data set."""

# No import here may load torch: the archive is read at once (see `redqueen.cli.app`).

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from redqueen import extras
from redqueen.cli.dataset_card import asked, dataset_card, left_out
from redqueen.cli.pushing import hub, push
from redqueen.cli.tables import table_console
from redqueen.errors import UserError
from redqueen.store.allowed import check_kind
from redqueen.store.dataset.files import FOLDER_FILE, FORMATS, require_arrow, write_tasks
from redqueen.store.dataset.rows import TaskFilter, read_tasks, select
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of


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

    def write(scratch: Path) -> None:
        if verifiers:
            notes.extend(verifiers.write_package(scratch, package, config.model.name, selected, wanted))
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

    _write(target, write)
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


def _write(target: Path, write: Callable[[Path], None]) -> None:
    """Writes under another name and renames at the end: an export that fails leaves no half of it."""
    scratch = target.with_name(f".{target.stem}.tmp{target.suffix}")
    try:
        write(scratch)
        scratch.rename(target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        # After the rename there is nothing under this name.
        scratch.unlink(missing_ok=True) if scratch.is_file() else shutil.rmtree(scratch, ignore_errors=True)
