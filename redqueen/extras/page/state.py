"""What a run is doing now, what it was told and where it ran."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Literal, cast

from redqueen.config import Config, EvolutionConfig, PopulationConfig
from redqueen.config.keys import as_text, describe
from redqueen.config.recipes import recipe
from redqueen.errors import UserError
from redqueen.extras.page.live_run import LiveRun
from redqueen.store.files import quoted
from redqueen.tasks.kinds import find_or_plain

Course = Literal["running", "finished", "stopped", "failed"]
RECENT = 5
"""Over so many of the last steps is said how long a step takes."""


_DOING = {
    "match": "matches are drawn",
    "propose": "teachers propose, and the sandbox checks",
    "solve": "students answer, and the sandbox judges",
    "learn": "members learn",
    "evolve": "the weakest are replaced",
    "evaluate": "held-out problems are answered",
}


def state(run: LiveRun, title: str) -> dict[str, object]:
    """Returns who plays, how far the run is and how long it will take. Raises RunError if it cannot be read."""
    config = run.config()
    lines = run.lines()
    played = lines[-1]["step"] if lines else 0
    seconds = [line["seconds"]["total"] for line in lines]
    now = course(run)
    return {
        "title": title,
        "recipe": config.recipe,
        "base": config.model.name,
        "seed": config.run.seed,
        "members": config.population.who,
        "isolation": run.isolation(),
        "course": now,
        "step": played,
        "steps": config.run.steps,
        "seconds": sum(seconds),
        "step_seconds": sum(seconds[-RECENT:]) / len(seconds[-RECENT:]) if seconds else None,
        "seconds_left": _left(seconds, config.run.steps - played) if now == "running" else None,
        "now": present(run) if now == "running" else "",
        "written": _age(lines[-1].get("time")) if lines else None,
        "kinds": {name: find_or_plain(name).title for name in config.game.kinds},
        "stamp": run.stamp(),
        "reason": _reason(run) if now in ("stopped", "failed") else "",
        "next": _next(run, now),
        "views": views_of(config.population, config.evolution),
    }


def views_of(population: PopulationConfig, evolution: EvolutionConfig) -> list[str]:
    """Returns the views of a run that can have content: one of students alone has no match, and so on."""
    agents = 1 if population.single_agent else population.teachers + population.students
    having = {
        "overview": True,
        "evaluation": True,
        "league": agents > 1 and (bool(population.teachers) or evolution.enabled),
        "matrix": bool(population.teachers) and agents > 1,
        "tree": evolution.enabled,
        "operators": evolution.enabled,
        "tasks": True,
        "machine": True,
        "settings": True,
    }
    return [name for name, shown in having.items() if shown]


def _reason(run: LiveRun) -> str:
    """Returns why a run ended before its last step, as far as it is known."""
    kept = run.stopped()
    if error := kept.get("error"):
        return f"It ended with: {str(error)[:500]}"
    if kept:
        return "It was stopped by Ctrl-C or SIGTERM."
    if run.now():
        return "Its process ended without a word: killed (out of memory?), or the machine went down."
    return ""


def _next(run: LiveRun, now: Course) -> list[dict[str, str]]:
    """Returns the commands that a person is most likely to want next, the first one first."""
    path = quoted(run.directory.path)
    read = ("Read its tasks in a terminal", f"redqueen show {path}")
    plugins = " --load-plugins" if run.config().plugins else ""
    resume = ("Go on from the last checkpoint", f"redqueen train --resume {path}{plugins}")
    use = [
        ("Evaluate it on held-out problems", f"redqueen eval {path} base"),
        ("Ask its students something", f"redqueen ask {path}"),
        ("Export the best student", f"redqueen export {path} best-student student"),
    ]
    saved = run.directory.saved()
    if now == "running":
        found = [read]
    elif not saved:
        found = []
    else:
        found = use if now == "finished" else [resume, *(use if saved[-1] else [])]
    return [{"what": what, "command": command} for what, command in found]


def stamp_of(run: LiveRun) -> dict[str, object]:
    """Returns what the page asks for every few seconds: whether there is something new, and what the step is doing."""
    now = course(run)
    return {"stamp": run.stamp(), "course": now, "now": present(run) if now == "running" else ""}


def present(run: LiveRun) -> str:
    """Returns what a process that trains is doing in words: "students answer, 45 of 90"; empty between two steps."""
    data = run.now()
    words = _DOING.get(str(data.get("phase")), "")
    done, total = data.get("done"), data.get("total")
    return f"{words}, {done} of {total}" if words and total else words


def course(run: LiveRun) -> Course:
    """Returns whether a process of this machine trains the run, and if not, whether there is something left to do."""
    if run.directory.is_locked():
        return "running"
    # Also after the last step: it may be that more of them were asked for, and the session could not begin.
    if run.stopped().get("error"):
        return "failed"
    newest = run.newest()
    return "finished" if newest and newest["step"] >= run.config().run.steps else "stopped"


def _left(seconds: list[float], steps: int) -> float | None:
    """Returns the time left, from the mean of the steps so far, as the terminal shows it."""
    return sum(seconds) / len(seconds) * max(steps, 0) if seconds else None


def _age(time: str | None) -> float | None:
    """Returns the seconds since `time`, None where a line has none."""
    if time is None:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())


# Every setting with its default and its recipe's value, and the sessions.


def settings(run: LiveRun) -> dict[str, object]:
    """Returns the settings and the environment. Raises RunError if the run cannot be read."""
    config = run.config()
    named = _recipe(config.recipe)
    rows: list[dict[str, object]] = []
    for key in describe(Config):
        value = as_text(attrgetter(key.name)(config))
        by_recipe = None if named is None else as_text(attrgetter(key.name)(named))
        told = key.default if by_recipe is None else by_recipe
        rows.append(
            {
                "key": key.name,
                "value": value,
                "default": key.default,
                "recipe": by_recipe,
                "text": key.text,
                # What is left to the machine is kept as the machine chose it, and no person did.
                "chosen": value != told and told != "auto",
            }
        )
    return {
        "recipe": config.recipe,
        "settings": rows,
        "sessions": [_flat(session) for session in run.sessions() if session],
    }


def _recipe(name: str) -> Config | None:
    # A run may come from a version that had other recipes.
    try:
        return recipe(name)
    except UserError:
        return None


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Returns names and values, those of a mapping in a mapping as `libraries.torch`."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _flat(cast(Mapping[str, Any], value), f"{prefix}{name}.")
        else:
            rows.append((prefix + name, "none" if value is None else str(value)))
    return rows
