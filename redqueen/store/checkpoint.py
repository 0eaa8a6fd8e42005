"""Checkpoints: one folder for each saved step, written under a temporary name and renamed, with checksums of its files.

checkpoints/step-000004/  state.json  manifest.json  members/<name>/{adapter_model,optimizer}.safetensors ...
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors.torch import load_file
from torch import Tensor

from redqueen.base.plain_files import open_plain, parse_json, read_plain
from redqueen.engine.adapters import Factors, load_adapter, save_adapter, write_tensors
from redqueen.errors import UserError
from redqueen.method.hall_of_fame import Champion
from redqueen.method.population import Member, Population
from redqueen.method.task_bank import Entry
from redqueen.records import Kind, Task
from redqueen.store.directory import saved_steps
from redqueen.store.files import LARGE, check_tree, check_within, damage_of, sync

# The layout of the folder. A checkpoint of another format is refused: a run that went on from half-understood state
# would be neither the old experiment nor a new one.
FORMAT = 4
_MANIFEST = "manifest.json"
_MEMBERS = TypeAdapter(list[Member])
_ENTRIES = TypeAdapter(list[Entry])
_TASKS = TypeAdapter(tuple[Task, ...])
_HALL = TypeAdapter(list[Champion])
_MATCHES = TypeAdapter(list[dict[Kind, list[float]]])


class CheckpointError(UserError):
    """A checkpoint that is damaged or belongs to something else; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Everything that a run needs to go on.

    No state of a random generator is among it: every stream is named by the seed and the place where it is used.
    """

    step: int
    """The last step that was played; 0: none."""
    base: str
    """The name of the base model."""
    fingerprint: str
    """SHA-256 of the base's weights."""
    alpha: float
    """The scale of the adapters, as PEFT defines it."""
    population: Population
    bank: list[Entry]
    own_held_out: tuple[Task, ...] = ()
    """The user's tasks that nothing is trained on."""
    adapters: Mapping[str, Mapping[str, Factors]]
    """Weights by member or champion and by module."""
    optimizers: Mapping[str, Mapping[str, Tensor]]
    """Optimizer states by member; champions have none."""
    versions: Mapping[str, int]
    """Versions of the weights by member or champion: each join under the name and each update counts one."""
    slots: Mapping[str, int]
    """Places in the adapter bank by member or champion. In other places products round differently."""


def save(folder: Path, checkpoint: Checkpoint, *, keep_last: int, keep_every: int) -> Path:
    """Writes the folder step-NNNNNN, removes old checkpoints, and returns the new folder.

    The `keep_last` newest checkpoints stay, and those at multiples of `keep_every` (0: none). A kill at any instant
    leaves the earlier checkpoints whole. Raises OSError if the disk is full or fails; they are whole then, too.
    """
    clean(folder)
    final = folder / f"step-{checkpoint.step:06d}"
    scratch = folder / f".{final.name}.tmp"

    # Every file is written under a name that `saved_steps` does not see, so a kill here costs nothing.
    scratch.mkdir(parents=True)
    for name, adapter in checkpoint.adapters.items():
        home = scratch / "members" / name
        save_adapter(home, adapter, alpha=checkpoint.alpha, base=checkpoint.base)
        if name in checkpoint.optimizers:
            write_tensors(home / "optimizer.safetensors", checkpoint.optimizers[name])
    (scratch / "state.json").write_text(json.dumps(_state(checkpoint)))

    # The content must be on the disk before the name is: a file system may write a rename first and the data later,
    # and a power cut between the two would leave a checkpoint with the right name and empty files.
    _seal(scratch)
    if final.exists():
        # Only a run that was rewound by hand gets here. A folder cannot be renamed onto one that is not empty.
        shutil.rmtree(final)
    scratch.rename(final)
    sync(folder)

    # Old checkpoints go last: until the new one is in its place they are all that the run has.
    _prune(folder, keep_last, keep_every)
    return final


def clean(folder: Path) -> None:
    """Removes the unfinished folders that a killed process left."""
    for path in folder.glob(".step-*.tmp"):
        shutil.rmtree(path)


def load(folder: Path, step: int) -> Checkpoint:
    """Returns the checkpoint of `step`.

    Raises CheckpointError, which names the checkpoint, if a file is missing or differs from its checksum, or if the
    format is another one; RunError if something in it is a link, or nothing that a run writes.
    """
    path = folder / f"step-{step:06d}"
    check_tree(path)
    _verify(path)
    with damage_of(path):
        state: dict[str, Any] = parse_json(read_plain(path / "state.json", LARGE))
        if state.get("format") != FORMAT:
            raise CheckpointError(f"{path} has checkpoint format {state.get('format')}, this version reads {FORMAT}")
        if state["step"] != step:
            raise CheckpointError(f"{path / 'state.json'} is of step {state['step']}: use an unchanged copy")
        try:
            return _restored(path, state)
        except ValidationError as error:
            what = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise CheckpointError(f"{path / 'state.json'} was changed ({what}): use an unchanged copy") from error


def _restored(path: Path, state: Mapping[str, Any]) -> Checkpoint:
    """Returns the checkpoint in the folder `path`, whose state.json holds `state`."""
    # Names become folders, here and in the next checkpoint: they are checked before one is looked for.
    members = _MEMBERS.validate_python(state["members"])
    hall = _HALL.validate_python(state["hall"])
    adapters = {m.name: load_adapter(path / "members" / m.name)[0] for m in (*members, *hall)}
    optimizers = {m.name: load_file(path / "members" / m.name / "optimizer.safetensors") for m in members}
    return Checkpoint(
        step=state["step"],
        base=state["base"],
        fingerprint=state["fingerprint"],
        alpha=state["alpha"],
        population=Population(members, state["born"], hall, _MATCHES.validate_python(state["recent_matches"])),
        bank=_ENTRIES.validate_python(state["bank"]),
        # A checkpoint of an older version has none.
        own_held_out=_TASKS.validate_python(state.get("own_held_out", ())),
        adapters=adapters,
        optimizers=optimizers,
        versions=state["versions"],
        slots=state["slots"],
    )


def _state(checkpoint: Checkpoint) -> dict[str, object]:
    """Returns the content of state.json: everything but tensors. JSON keeps every float exactly."""
    return {
        "format": FORMAT,
        "step": checkpoint.step,
        "base": checkpoint.base,
        "fingerprint": checkpoint.fingerprint,
        "alpha": checkpoint.alpha,
        "born": checkpoint.population.born,
        "members": [asdict(member) for member in checkpoint.population.members.values()],
        "hall": [asdict(champion) for champion in checkpoint.population.hall_of_fame.values()],
        "recent_matches": checkpoint.population.recent_matches,
        "versions": dict(checkpoint.versions),
        "slots": dict(checkpoint.slots),
        "bank": [asdict(entry) for entry in checkpoint.bank],
        "own_held_out": [asdict(task) for task in checkpoint.own_held_out],
    }


def _seal(folder: Path) -> None:
    """Writes the manifest and flushes everything to the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {str(path.relative_to(folder)): _checksum(path) for path in files}
    manifest = folder / _MANIFEST
    manifest.write_text(json.dumps(sums, indent=1))
    # A folder's entries are data of the folder, so flushing the files alone could lose their names.
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    for path in [*files, manifest, *folders, folder]:
        sync(path)


def _verify(folder: Path) -> None:
    """Raises CheckpointError if the folder is incomplete or a file differs from its checksum."""
    try:
        sums: dict[str, str] = parse_json(read_plain(folder / _MANIFEST))
        for name in sums:
            check_within(name)
        damaged = [name for name, expected in sums.items() if _checksum(folder / name) != expected]
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{folder} is not a complete checkpoint ({error}): move the folder away to resume from the one before"
        ) from error
    # A manifest that is valid JSON but names no state.json was not written by `_seal`.
    if damaged or "state.json" not in sums:
        names = ", ".join(damaged) or "state.json"
        raise CheckpointError(
            f"{folder} is damaged ({names} changed after it was written): "
            "move the folder away to resume from the one before"
        )


def _prune(folder: Path, keep_last: int, keep_every: int) -> None:
    for step in saved_steps(folder)[:-keep_last]:
        if not (keep_every and step % keep_every == 0):
            # Removed under a name that counts as no checkpoint, so that a kill leaves none that is half there.
            leaving = folder / f".step-{step:06d}.tmp"
            (folder / f"step-{step:06d}").rename(leaving)
            shutil.rmtree(leaving)


def _checksum(path: Path) -> str:
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
