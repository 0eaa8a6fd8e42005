"""The card of an exported member: what it is, how to use it in ten lines, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redqueen import __version__
from redqueen.base.markup import code, plain, yaml_text
from redqueen.config import BUNDLED, Config
from redqueen.members.base_names import ORIGINAL, about_base
from redqueen.members.usage import usage
from redqueen.method.population import Member
from redqueen.run.recording.terminal import number
from redqueen.store.checkpoint import Checkpoint
from redqueen.store.lineage import Life


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A member's share of a benchmark's problems, each attempted once."""

    benchmark: str
    right: int
    judged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What a card tells of."""

    member: Member
    config: Config
    saved: Checkpoint
    family: Sequence[Life]
    """The member and its ancestors."""
    fitness: float | None
    """The member's; None where it is not known yet."""
    folder: Path
    """Where it is written."""
    scores: Sequence[Score]
    """What it solved of held-out problems while the run went on, at the step that is exported."""
    merged: bool
    """Whether the folder is a whole model, and not an adapter."""


def card(exported: Exported) -> str:
    """Returns the model card, with the metadata that the Hugging Face hub reads."""
    member = exported.member
    config = exported.config
    saved = exported.saved
    league = config.league
    fitness_name = league.teacher_fitness if member.role == "teacher" else league.student_fitness
    rows = "\n".join(_row(life) for life in exported.family)
    what = "A whole model: the base with a LoRA adapter merged into it," if exported.merged else "A LoRA adapter"
    return f"""{_metadata(exported)}
# {member.name}, a {member.role}

{what} trained by co-evolution with Red Queen {__version__} (recipe {code(config.recipe)}, {saved.step} steps).

- base: {about_base(config.model.name)}
- base fingerprint (SHA-256 of its weights in the run's dtype): {code(saved.fingerprint)}
- rating: {member.rating.mu:.2f} ± {member.rating.sigma:.2f}, fitness ({code(fitness_name)}) \
{number(exported.fitness)}
- won, drawn, lost: {member.wins}, {member.draws}, {member.losses}
- prompts: {code(config.model.prompts)}, the format that it was trained on; the example below is one

## Use

{usage(member, config, exported.folder, merged=exported.merged)}

## Lineage, youngest first

Fitness: of the parents at the birth, then the member's own when it was first rated, and at its end or now. Steps count
from 1; births and replacements are at a step's end.

| member | born | operator | parents | parents' fitness | own first | own last | replaced |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _metadata(exported: Exported) -> str:
    """Returns the header that the hub reads. What is not known is left out: a wrong licence is worse than none."""
    name = exported.config.model.name
    lines = ["---", f"library_name: {'transformers' if exported.merged else 'peft'}"]
    # A folder of this machine is no name that the hub could link to.
    if name == BUNDLED or not Path(name).exists():
        lines.append(f"base_model: {yaml_text(ORIGINAL if name == BUNDLED else name)}")
        lines.append(f"base_model_relation: {'finetune' if exported.merged else 'adapter'}")
    if name == BUNDLED:
        lines.append("license: apache-2.0")
    lines += ["pipeline_tag: text-generation", "tags: [redqueen, populora, lora]", *_results(exported), "---"]
    return "\n".join(lines)


def _results(exported: Exported) -> list[str]:
    """Returns the scores as the hub shows them beside a model."""
    if not exported.scores:
        return []
    lines = ["model-index:", f"- name: {yaml_text(exported.member.name)}", "  results:"]
    for score in exported.scores:
        title = "reserved programs of Red Queen" if score.benchmark == "reserved" else score.benchmark
        lines += [
            "  - task: {type: text-generation}",
            f"    dataset: {{type: {yaml_text(score.benchmark)}, name: {yaml_text(title)}}}",
            "    metrics:",
            "    - type: solve_rate",
            f"      name: of {score.judged} held-out problems, one attempt each as in training",
            f"      value: {score.right / score.judged:.4f}",
        ]
    return lines


def _row(life: Life) -> str:
    born = life.born or "start"
    died = life.died or "-"
    before = ", ".join(number(value) for value in life.parent_fitness) or "-"
    return (
        f"| {life.name} | {born} | {plain(life.operator)} | {', '.join(life.parents) or '-'} | {before} | "
        f"{number(life.first)} | {number(life.last)} | {died} |"
    )
