"""The extras by name: what each offers, and where. Nothing of an extra is imported before it is asked for.

An extra is a folder beside this file that can be taken away. The core knows it by the names in `OFFERS` alone, and
extras do not know each other (tests/test_layers.py).
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any, Literal

from redqueen.errors import UserError

Part = Literal["kind", "source", "recipe", "command", "benchmark", "tracker", "sampler", "cluster", "task format"]

OFFERS: dict[Part, dict[str, str]] = {
    "kind": {
        **{f"expr_{mode}": "expr.modes:KINDS" for mode in "oif"},
        **{f"sql_{mode}": "sql.modes:KINDS" for mode in "oif"},
    },
    "source": {
        "reasoning_gym": "reasoning_gym:made_kind",
        "maths": "benchmarks.questions:made_kind",
    },
    "recipe": {"expr": "expr:RECIPES", "sql": "sql:RECIPES"},
    "command": {
        "lineage": "studies.commands:lineage",
        "report": "page.commands:report",
        "watch": "page.commands:watch",
        "compare": "page.commands:compare",
        "retention": "studies.commands:retention",
        "ancestry": "studies.commands:ancestry",
        "sweep": "studies.commands:sweep",
        "transfer": "studies.commands:transfer",
    },
    "benchmark": {
        "humaneval+": "benchmarks.evalplus:HUMANEVAL",
        "mbpp+": "benchmarks.evalplus:MBPP",
        "livecodebench": "benchmarks.livecodebench:LIVECODEBENCH",
        "aime24": "benchmarks.maths:AIME24",
        "aime25": "benchmarks.maths:AIME25",
        "amc23": "benchmarks.maths:AMC23",
        "math500": "benchmarks.maths:MATH500",
        "minerva": "benchmarks.maths:MINERVA",
        "gsm8k": "benchmarks.maths:GSM8K",
        "olympiadbench": "benchmarks.maths:OLYMPIADBENCH",
        "cruxeval-i": "benchmarks.cruxeval:CRUXEVAL_I",
        "cruxeval-o": "benchmarks.cruxeval:CRUXEVAL_O",
    },
    "tracker": {
        "tensorboard": "trackers:TensorBoard",
        "wandb": "trackers:WeightsAndBiases",
        "trackio": "trackers:Trackio",
        "mlflow": "trackers:MLflow",
    },
    "sampler": {"vllm": "vllm:open_executor"},
    "cluster": {"ray": "ray.policy:open_players"},
    "task format": {"verifiers": "rewards.verifiers_package"},
}
"""What there is of each part: its name, and its module with its name there, below this package."""


class MissingExtraError(UserError):
    """Something of an extra that is not installed."""


def names(part: Part) -> tuple[str, ...]:
    """Returns the names of what is installed of a part, in the order of `OFFERS`."""
    return tuple(name for name, place in OFFERS[part].items() if _is_here(_extra(place)))


def missing(part: Part) -> tuple[str, ...]:
    """Returns the names of what is not installed of a part."""
    return tuple(name for name, place in OFFERS[part].items() if not _is_here(_extra(place)))


def require(part: Part, name: str) -> None:
    """Raises MissingExtraError, in one line, if an extra offers this name and is not here."""
    if name not in OFFERS[part]:
        return
    extra = _extra(OFFERS[part][name])
    if not _is_here(extra):
        raise MissingExtraError(
            f"the {part} '{name}' needs the extra '{extra}', which is not installed: there is no folder "
            f"redqueen/extras/{extra}"
        )


def find(part: Part, name: str) -> Any:
    """Returns what an extra offers under a name. Raises MissingExtraError if the extra is not here."""
    require(part, name)
    module, _, attribute = OFFERS[part][name].partition(":")
    found = importlib.import_module(f"{__name__}.{module}")
    return getattr(found, attribute) if attribute else found


def _extra(place: str) -> str:
    return place.partition(":")[0].partition(".")[0]


# Asked for each name that an extra offers, and at the start of every command.
@cache
def _is_here(extra: str) -> bool:
    try:
        spec = importlib.util.find_spec(f"{__name__}.{extra}")
    except ModuleNotFoundError:
        return False
    # A folder from which only the code was deleted is a package for Python: it has no origin.
    return spec is not None and spec.origin is not None
