"""Checkpoints: a folder for each saved step, written beside its place and renamed into it, every file checksummed.

checkpoints/step-000004/  state.json  manifest.json  members/<name>/{adapter_model,optimizer}.safetensors ...
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from safetensors.torch import load_file
from torch import Tensor

from redqueen.adapters.factors import Factors
from redqueen.adapters.peft_files import load_adapter, save_adapter, write_tensors
from redqueen.errors import UserError
from redqueen.game.task_bank import Entry
from redqueen.league.hall_of_fame import Champion
from redqueen.league.population import Member, Population
from redqueen.runs.directory import saved_steps

FORMAT = 2
_MANIFEST = "manifest.json"
_MEMBERS = TypeAdapter(list[Member])
_ENTRIES = TypeAdapter(list[Entry])
_HALL = TypeAdapter(list[Champion])


class CheckpointError(UserError):
    """A checkpoint that is damaged or belongs to something else; the message names it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything a run needs to go on at `step` (the next one to play)."""

    step: int
    base: str  # the base's name, and its fingerprint
    fingerprint: str
    alpha: float
    population: Population
    bank: list[Entry]
    adapters: Mapping[str, Mapping[str, Factors]]
    optimizers: Mapping[str, Mapping[str, Tensor]]
    versions: Mapping[str, int]


def save(folder: Path, checkpoint: Checkpoint, *, keep_last: int, keep_every: int) -> Path:
    """Writes `folder`/step-NNNNNN and removes old ones. A kill at any instant leaves the former ones whole.

    Raises OSError (a full disk, say), also with the former ones whole.
    """
    clean(folder)
    final = folder / f"step-{checkpoint.step:06d}"
    scratch = folder / f".{final.name}.tmp"
    scratch.mkdir(parents=True)
    for name, adapter in checkpoint.adapters.items():
        home = scratch / "members" / name
        save_adapter(home, adapter, alpha=checkpoint.alpha, base=checkpoint.base)
        if name in checkpoint.optimizers:  # champions have none
            write_tensors(home / "optimizer.safetensors", checkpoint.optimizers[name])
    (scratch / "state.json").write_text(json.dumps(_state(checkpoint)))
    _seal(scratch)
    if final.exists():
        # only a run that was rewound by hand gets here; the new one is as complete as the old
        shutil.rmtree(final)
    scratch.rename(final)
    _sync(folder)
    _prune(folder, keep_last, keep_every)
    return final


def clean(folder: Path) -> None:
    """Removes what a killed process left half-written."""
    for path in folder.glob(".step-*.tmp"):
        shutil.rmtree(path)


def load(folder: Path, step: int) -> Checkpoint:
    """Reads one checkpoint whole. Raises CheckpointError, naming it, if any file differs from its checksum."""
    path = folder / f"step-{step:06d}"
    _verify(path)
    state: dict[str, Any] = json.loads((path / "state.json").read_text())
    if state.get("format") != FORMAT:
        raise CheckpointError(f"{path} has checkpoint format {state.get('format')}, this version reads {FORMAT}")
    members = _MEMBERS.validate_python(state["members"])
    hall = _HALL.validate_python(state["hall"])
    adapters = {m.name: load_adapter(path / "members" / m.name)[0] for m in (*members, *hall)}
    optimizers = {m.name: load_file(path / "members" / m.name / "optimizer.safetensors") for m in members}
    return Checkpoint(
        state["step"],
        state["base"],
        state["fingerprint"],
        state["alpha"],
        Population(members, state["born"], hall),
        _ENTRIES.validate_python(state["bank"]),
        adapters,
        optimizers,
        state["versions"],
    )


def _state(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "format": FORMAT,
        "step": checkpoint.step,
        "base": checkpoint.base,
        "fingerprint": checkpoint.fingerprint,
        "alpha": checkpoint.alpha,
        "born": checkpoint.population.born,
        "members": [asdict(member) for member in checkpoint.population.members.values()],
        "hall": [asdict(champion) for champion in checkpoint.population.hall_of_fame.values()],
        "versions": dict(checkpoint.versions),
        "bank": [asdict(entry) for entry in checkpoint.bank],
    }


def _seal(folder: Path) -> None:
    """Flushes every file to the disk and writes the manifest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {str(path.relative_to(folder)): _checksum(path) for path in files}
    manifest = folder / _MANIFEST
    manifest.write_text(json.dumps(sums, indent=1))
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    for path in [*files, manifest, *folders, folder]:
        _sync(path)


def _verify(folder: Path) -> None:
    try:
        sums: dict[str, str] = json.loads((folder / _MANIFEST).read_text())
        damaged = [name for name, expected in sums.items() if _checksum(folder / name) != expected]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is no complete checkpoint: {error}") from error
    if damaged or "state.json" not in sums:
        names = ", ".join(damaged) or "state.json"
        raise CheckpointError(
            f"{folder} is damaged ({names} changed after it was written): "
            "move the folder away to resume from the one before"
        )


def _prune(folder: Path, keep_last: int, keep_every: int) -> None:
    for step in saved_steps(folder)[:-keep_last]:
        if not (keep_every and step % keep_every == 0):
            shutil.rmtree(folder / f"step-{step:06d}")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
