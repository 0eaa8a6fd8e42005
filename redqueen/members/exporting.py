"""Writes a member as a PEFT folder, or as a whole model, with a card that says how to use it."""

from __future__ import annotations

import shutil
from pathlib import Path

from redqueen.analysis.find_member import Found, find_member, fitness_at
from redqueen.config import BUNDLED
from redqueen.engine.adapters.peft_files import save_adapter
from redqueen.engine.model.base import location
from redqueen.engine.model.member import write_merged
from redqueen.errors import UserError
from redqueen.members.base_names import ORIGINAL
from redqueen.members.card import Exported, Score, card
from redqueen.run.session import Listener, announce_conversion, quiet_libraries
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory, occupied
from redqueen.store.lineage import ancestors, lives


def export(run: Path, name: str, out: Path, step: int | None, listener: Listener, *, merge: bool) -> Found:
    """Writes the member `name`, as it was after `step` steps or as late as it can be had, and returns it.

    Raises UserError if `out` is not empty or cannot be written, RunError if there is no such run, checkpoint or member.
    """
    if occupied(out):
        raise UserError(f"{out} is not empty: choose another folder")
    directory = RunDirectory(run)
    config = directory.config()
    found = find_member(directory, config, name, step)
    member = found.member
    family = ancestors(lives(run), member.name)
    quiet_libraries()
    announce_conversion(config.model, listener)
    # Everything is written under another name and renamed at the end: an export that fails leaves no half of a folder.
    scratch = out.with_name(f".{out.name}.tmp")
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        adapter = found.saved.adapters[member.name]
        if merge:
            rank = next(iter(adapter.values())).a.shape[1]
            write_merged(scratch, config.model.name, adapter, found.saved.alpha / rank)
        else:
            # A folder of this machine's cache would tell nobody else where the base is.
            base = ORIGINAL if config.model.name == BUNDLED else location(config.model.name)
            save_adapter(scratch, adapter, alpha=found.saved.alpha, base=base)
        exported = Exported(
            member=member,
            config=config,
            saved=found.saved,
            family=family,
            fitness=fitness_at(directory, config, member.role, found.saved.step)(member),
            folder=out,
            scores=_scores(directory, member.name, found.saved.step),
            merged=merge,
        )
        (scratch / "README.md").write_text(card(exported), encoding="utf-8")
        scratch.rename(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def _scores(directory: RunDirectory, member: str, step: int) -> list[Score]:
    """Returns what a member solved of held-out problems after a step (`evals.every`); nothing if that was not asked."""
    rows: dict[str, list[str]] = {}
    with ArchiveReader(directory.archive) as archive:
        for row in archive.evaluations(step):
            if row.member == member and row.status not in ("infra_error", "nondeterministic"):
                rows.setdefault(row.benchmark, []).append(row.status)
    return [
        Score(benchmark=name, right=statuses.count("correct"), judged=len(statuses)) for name, statuses in rows.items()
    ]
