"""Own parts by name: a user's module registers them, and `plugins=MODULE` loads it before the configuration is checked.

    from redqueen import plugins

    @plugins.mutation
    def fade(parents, generator): ...

    redqueen train plugins=my_parts evolution.mutations=fade

A part's name is that of its function or class. Such a module runs in the trainer's process, outside the sandbox.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeVar

from redqueen.errors import UserError

Part = Literal[
    "mutation",
    "crossover",
    "fitness",
    "teacher reward",
    "student reward",
    "advantage",
    "prompt format",
    "matchmaking",
    "game rule",
    "survivor rule",
    "parent rule",
    "recorder",
    "tracker",
    "metric",
    "kind",
    "benchmark",
    "model family",
]
T = TypeVar("T")

_parts: dict[Part, dict[str, Any]] = {}
# The module that registered each part.
_modules: dict[tuple[Part, str], str] = {}
# The names of the project's own parts, which the configuration's fields announce.
_built_in: dict[Part, set[str]] = {}
_loaded: set[str] = set()


class PluginError(UserError):
    """An own part that cannot be had (its module cannot be used or was not allowed), or that gives what it must not."""


def reserve(kind: Part, built_in: Iterable[str]) -> None:
    """Keeps the names of the project's own parts from being registered."""
    _built_in.setdefault(kind, set()).update(built_in)


def _add(kind: Part, name: str, part: Any, module: str) -> None:
    """Registers a part of a module under a name. Raises PluginError if the name is taken."""
    parts = _parts.setdefault(kind, {})
    if name in _built_in.get(kind, ()):
        raise PluginError(f"{module}: Red Queen has a {kind} '{name}': give yours another name")
    # A part of two modules under one name would be whichever was imported last. A module that is imported again
    # registers its own parts anew.
    if name in parts and (other := _modules[kind, name]) != module:
        raise PluginError(f"{module}: {other} has a {kind} '{name}' already: give one of them another name")
    parts[name] = part
    _modules[kind, name] = module


def _register(kind: Part) -> Callable[[T], T]:
    """Returns a decorator that registers what it decorates under its own name.

    The decorator raises PluginError if the name is taken, or if it is given a name in place of a function.
    """

    def decorator(part: T) -> T:
        if not callable(part):
            raise PluginError(
                f"the decorator of a {kind} got {part!r}: write it without brackets above a function or class, whose "
                "name is the part's"
            )
        _add(kind, part.__name__, part, part.__module__)  # pyright: ignore[reportAttributeAccessIssue]
        return part

    return decorator


# What each decorates is described, with an example, in docs/EXTENDING.md.
mutation = _register("mutation")
crossover = _register("crossover")
fitness = _register("fitness")
teacher_reward = _register("teacher reward")
student_reward = _register("student reward")
advantage = _register("advantage")
prompts = _register("prompt format")
matchmaking = _register("matchmaking")
game_rule = _register("game rule")
survivors = _register("survivor rule")
parents = _register("parent rule")
recorder = _register("recorder")
tracker = _register("tracker")
benchmark = _register("benchmark")


def kind(task_kind: T) -> T:
    """Registers a kind of task under its own `name` (`redqueen.tasks.kinds`). Raises PluginError if it is taken."""
    # The module of an instance is that of its class, which two plugins may share: the caller's counts.
    names = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
    module = names.get("__name__", type(task_kind).__module__)
    _add("kind", task_kind.name, task_kind, module)  # pyright: ignore[reportAttributeAccessIssue]
    return task_kind


def metric(unit: str, title: str) -> Callable[[T], T]:
    """Returns a decorator that registers a function of a finished step as a metric.

    `unit` is what its numbers count (share, lines, tokens, ...), `title` is above its chart.
    """

    def decorator(compute: T) -> T:
        vars(compute).update(unit=unit, title=title)
        return _register("metric")(compute)

    return decorator


def model_family(name: str) -> None:
    """Says that our own forward pass computes a family of transformers, named by its `model_type`."""
    _parts.setdefault("model family", {})[name] = name


def names(kind: Part) -> tuple[str, ...]:
    """Returns the names of the registered parts of a kind."""
    return tuple(_parts.get(kind, ()))


def find(kind: Part, name: str) -> Any:
    """Returns the part that is registered under `name`. Raises PluginError if there is none."""
    try:
        return _parts.get(kind, {})[name]
    except KeyError:
        # A run is read without its parts. What cannot do without them says so.
        raise PluginError(
            f"this needs the {kind} '{name}', which is an own part of the run and was not imported: add "
            "--load-plugins if you trust the modules that its config.json names under plugins"
        ) from None


def named(kind: Part, name: str, built_in: Mapping[str, T]) -> T:
    """Returns the project's own or a registered part. Raises PluginError if there is none called `name`."""
    return built_in[name] if name in built_in else find(kind, name)


def finite(kind: Part, name: str, value: object) -> float:
    """Returns what the part called `name` gave as a number. Raises PluginError if it is not a finite number."""
    try:
        # NumPy's numbers are numbers, too.
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PluginError(f"the {kind} '{name}' gave {value!r}: it must give a finite number")
    return number


def are_loaded(modules: Iterable[str]) -> bool:
    """Returns whether `load` has imported all of these modules in this process."""
    return _loaded.issuperset(modules)


def load(modules: Iterable[str]) -> None:
    """Imports modules, which registers their parts. Raises PluginError if one cannot be imported."""
    for module in modules:
        if module.startswith("."):
            raise PluginError(f"plugins={module} is a path: give the module's name, without folder and .py")
        # A console script does not look for modules in the current folder. It comes last, so it hides nothing.
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        try:
            importlib.import_module(module)
        except (ImportError, SyntaxError, ValueError) as error:
            # A module that is there may itself import one that is not.
            missing = isinstance(error, ModuleNotFoundError) and (error.name or "") in module
            hint = " (a module's name without .py; it is looked for in the current folder and on PYTHONPATH)"
            raise PluginError(f"plugins={module} cannot be imported: {error}{hint if missing else ''}") from error
        _loaded.add(module)
