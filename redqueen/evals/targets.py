"""What `redqueen eval` evaluates: the members of a run, a PEFT folder, the shipped warm start, or the bare base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from redqueen.assets import warm_start
from redqueen.config import Config, GameConfig
from redqueen.config.recipes import configure
from redqueen.engine.adapters import CONFIG, Adapter, load_adapter, other_base
from redqueen.errors import UserError
from redqueen.evals.benchmark import Template, answer_tokens
from redqueen.evals.held_out import OWN
from redqueen.evals.scores import ScoreEntry
from redqueen.evals.target_words import BASE, WARM_START, check_different, check_target, is_run
from redqueen.method.population import Member
from redqueen.records import Task
from redqueen.store import checkpoint
from redqueen.store.directory import RunDirectory, RunError
from redqueen.tasks.kinds import names_of_languages

STUDENTS = "students"
EVERYBODY = "all"
Step = int | Literal["all"] | None
"""The step of the checkpoints that are evaluated: one, all that are kept, or the newest (None)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant(ScoreEntry):
    """One adapter that is evaluated; its `target` is as it was given."""

    adapter: Adapter | None
    """None stands for the bare base."""
    alpha: float
    """The scale of the adapter, as PEFT defines it."""
    fingerprint: str | None
    """SHA-256 of the base's weights that a run was made on; None where it is not known."""
    own: tuple[Task, ...] | None = None
    """What its run has held out of the user's tasks; None if it was given none, or is no run."""


def read_targets(
    targets: Sequence[str], members: str, model: str | None, step: Step = None, template: Template | None = None
) -> tuple[Config, list[Entrant]]:
    """Returns the configuration to evaluate with, and the entrants in the order of the targets.

    `members` is "students", "all" or the name of one living member, which each run must have.
    Runs are evaluated at their checkpoint of `step`, by default the newest; with "all" at each that they have kept. The
    configuration is that of the first run among the targets, otherwise the default one on `model` with the prompts of
    `template`. `warm-start` is the start that ships for these prompts; if none does and no target is a run, that of the
    default ones.
    Raises UserError if a target is nothing of that kind or is given twice, or the runs have different bases or prompts.
    """
    check_different(targets)
    runs = {target: RunDirectory(Path(target)).config() for target in targets if is_run(target)}
    if runs and model:
        raise UserError("a run is evaluated on its own base: leave --model out")
    asked = [] if template in (None, "standard") else [f"model.prompts={template}"]
    config = next(iter(runs.values())) if runs else configure(asked, model=model)
    for target, run_config in runs.items():
        if (run_config.model.name, run_config.model.prompts) != (config.model.name, config.model.prompts):
            raise UserError(f"{target} has another base or other prompts than {next(iter(runs))}: evaluate it alone")
    shipped = warm_start(config.model, config.game.kinds)
    if shipped is None and not runs:
        # None ships for the prompts of this template, as for chat: the adapter of the default ones is asked in them.
        shipped = warm_start(configure([], model=model).model, config.game.kinds)
    entrants: list[Entrant] = []
    for target in targets:
        if target in runs:
            entrants += _members_of(target, members, step)
        else:
            entrants.append(_single(target, config.model.alpha, shipped))
    return config, entrants


def warnings_about(targets: Sequence[str], base: str) -> list[str]:
    """Returns one line for each PEFT folder that was made for another base than the one of this name."""
    folders = [target for target in targets if target not in (BASE, WARM_START) and not is_run(target)]
    return [line for line in (other_base(Path(folder), base) for folder in folders) if line]


def own_tasks(entrants: Sequence[Entrant]) -> tuple[Task, ...]:
    """Returns what the runs among the entrants have held out of the user's tasks, so that each may be asked it.

    Raises UserError if they have held out nothing, or not all the same.
    """
    given = {entrant.target: entrant.own for entrant in entrants if entrant.own is not None}
    if not given:
        raise UserError(f"no target is a run of tasks of yours (game.seeds, game.tasks), so there are no '{OWN}' tasks")
    first = next(iter(given))
    for target, tasks in given.items():
        if not tasks:
            raise UserError(
                f"{target} has held out none of your tasks (evals.own, evals.every), which '{OWN}' would ask"
            )
        if tasks != given[first]:
            raise UserError(f"{target} has held out others of your tasks than {first}: evaluate it alone")
    return given[first] or ()


def check_asked(targets: Sequence[str], max_tokens: int | None) -> None:
    """Raises UserError if the game's tasks, which all are posed alike, would be others for one of the runs.

    `max_tokens` is the limit of an answer, None for the runs' own.
    """
    runs = {target: RunDirectory(Path(target)).config() for target in targets if is_run(target)}
    posed = {
        target: _posed(config.game, max_tokens or answer_tokens(config.sampling)) for target, config in runs.items()
    }
    for target, settings in posed.items():
        first = next(iter(posed))
        other = [name for name in settings if settings[name] != posed[first][name]]
        if other:
            raise UserError(
                f"{target} is asked other tasks than {first}, by its {' and '.join(other)}: evaluate it alone"
            )


def _posed(game: GameConfig, max_tokens: int) -> dict[str, object]:
    """Returns what of a configuration decides how the game's tasks are posed, beside the base and the prompts."""
    return {
        "languages": names_of_languages(game.kinds),
        "game.shots": game.shots,
        "sampling.attempt_tokens": max_tokens,
    }


def _members_of(run: str, members: str, step: Step) -> list[Entrant]:
    """Returns the living members of a run's checkpoints. Raises RunError if there is none, or none of `step`."""
    directory = RunDirectory(Path(run))
    steps = directory.saved()
    if not steps:
        raise RunError(f"{run} has no checkpoint to evaluate")
    if step is None:
        return _members_at(directory, steps[-1], run, members)
    if step != "all" and step not in steps:
        raise RunError(f"{run} has kept no checkpoint of step {step}, but of {', '.join(map(str, steps))}")
    entrants: list[Entrant] = []
    for saved_step in steps if step == "all" else [step]:
        entrants += _members_at(directory, saved_step, f"{run}@{saved_step}", members)
    return entrants


def _members_at(directory: RunDirectory, step: int, target: str, members: str) -> list[Entrant]:
    """Returns the members of one checkpoint that are meant. Raises RunError if there is no such member."""
    saved = checkpoint.load(directory.checkpoints, step)
    alive = list(saved.population.members.values())
    chosen = [member for member in alive if _is_meant(member, members)]
    if not chosen:
        names = ", ".join(member.name for member in alive)
        raise RunError(
            f"no member '{members}' lives in {directory.path} after step {step}: choose one of {names}, or students, "
            "or all"
        )
    game = directory.config().game
    return [
        Entrant(
            target=target,
            step=step,
            member=member.name,
            adapter=saved.adapters[member.name],
            alpha=saved.alpha,
            fingerprint=saved.fingerprint,
            own=None if game.seeds is None and game.tasks is None else saved.own_held_out,
            single_agent=member.role == "both",
        )
        for member in chosen
    ]


def _is_meant(member: Member, members: str) -> bool:
    if members == STUDENTS:
        return member.role != "teacher"
    return members == EVERYBODY or members.casefold() == member.name.casefold()


def _single(target: str, alpha: float, shipped: Path | None) -> Entrant:
    """Returns the entrant of a target that is no run. Raises UserError, AdapterError if there is none."""
    if target == BASE:
        return Entrant(target=target, member="", adapter=None, alpha=alpha, fingerprint=None)
    folder = Path(target)
    if target == WARM_START:
        if shipped is None:
            raise UserError("no warm start ships for this base and these prompts")
        folder = shipped
    check_target(target, CONFIG)
    adapter, alpha = load_adapter(folder)
    return Entrant(target=target, member="", adapter=adapter, alpha=alpha, fingerprint=None)
