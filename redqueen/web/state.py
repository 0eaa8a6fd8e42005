"""What a run is doing now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from redqueen.kinds import find_or_plain
from redqueen.web.live_run import LiveRun

Course = Literal["running", "finished", "stopped"]
RECENT = 5
"""Over so many of the last steps is said how long a step takes."""


def state(run: LiveRun, title: str) -> dict[str, object]:
    """Returns who plays, how far the run is and how long it will take. Raises RunError if it cannot be read."""
    config = run.config()
    lines = run.lines()
    played = lines[-1]["step"] if lines else 0
    seconds = [line["seconds"]["total"] for line in lines]
    now = course(run)
    population = config.population
    who = f"{_counted(population.teachers, 'teacher')} and {_counted(population.students, 'student')}"
    if population.single_agent:
        who = "a single agent in both roles"
    return {
        "title": title,
        "recipe": config.recipe,
        "base": config.model.name,
        "seed": config.run.seed,
        "members": who,
        "isolation": run.isolation(),
        "course": now,
        "step": played,
        "steps": config.run.steps,
        "seconds": sum(seconds),
        "step_seconds": sum(seconds[-RECENT:]) / len(seconds[-RECENT:]) if seconds else None,
        "seconds_left": _left(seconds, config.run.steps - played) if now == "running" else None,
        "written": _age(lines[-1].get("time")) if lines else None,
        "kinds": {name: find_or_plain(name).title for name in config.game.kinds},
        "stamp": run.stamp(),
    }


def course(run: LiveRun) -> Course:
    """Returns whether a process of this machine trains the run, and if not, whether there is something left to do."""
    if run.directory.is_locked():
        return "running"
    newest = run.newest()
    return "finished" if newest and newest["step"] >= run.config().run.steps else "stopped"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _left(seconds: list[float], steps: int) -> float | None:
    """Returns the time left, from the mean of the steps so far, as the terminal shows it."""
    return sum(seconds) / len(seconds) * max(steps, 0) if seconds else None


def _age(time: str | None) -> float | None:
    """Returns the seconds since `time`, None where a line has none."""
    if time is None:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
