"""The adapter that all members of a run start near, and which base a folder's adapter was made for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from redqueen.assets import warm_start
from redqueen.config import BUNDLED, ModelConfig
from redqueen.engine.adapters.factors import Factors, fresh, generator
from redqueen.engine.adapters.peft_files import CONFIG, load_adapter, refit
from redqueen.errors import AdapterError
from redqueen.records import Kind

# A model of the Hub's cache lies in .../models--OWNER--NAME/snapshots/COMMIT.
_CACHED = "models--"
# The converted files of the bundled model lie in a folder that is called after it.
_CONVERTED = re.compile(rf"{re.escape(BUNDLED)}-v\d+")


def other_base(folder: Path, base: str) -> str:
    """Returns a line that says that a PEFT folder was made for another model than `base`; "" if it does not say so.

    The base and the instruct model of a family have the same shapes, so a wrong one would be loaded without an error.
    """
    try:
        made_for = json.loads((folder / CONFIG).read_bytes()).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError, RecursionError):
        # Whoever loads the adapter says what is wrong with it.
        return ""
    if not isinstance(made_for, str) or not made_for.strip() or _same(made_for, base):
        return ""
    return f"warning: {folder} was made for the base {made_for}, by its {CONFIG}, and is used on {base}"


def _same(one: str, other: str) -> bool:
    """Returns whether two names may stand for one model: an id of the Hub, a folder, a folder of the Hub's cache."""
    paths = [Path(name).expanduser() for name in (one, other)]
    if all(path.is_dir() for path in paths):
        return paths[0].samefile(paths[1])
    # A folder of another machine, or one that has been moved, can be compared by its name alone.
    return _last_part(one) == _last_part(other)


def _last_part(name: str) -> str:
    """Returns a model's own name without its owner or its folder, in small letters."""
    path = Path(name).expanduser()
    parts = path.resolve().parts if path.is_dir() else path.parts
    cached = [part for part in parts if part.startswith(_CACHED)]
    last = cached[-1].rpartition("--")[2] if cached else parts[-1] if parts else name
    return BUNDLED if _CONVERTED.fullmatch(last) else last.casefold()


def starting_adapter(
    init: str, model: ModelConfig, kinds: Sequence[Kind], seed: int, shapes: Mapping[str, tuple[int, int]]
) -> dict[str, Factors]:
    """Returns the adapter that all members start near.

    `init` is `population.init`, which is "auto", "fresh" or a PEFT folder; `shapes` are the base's (inputs, outputs) by
    the name of a module. Raises AdapterError if the adapter does not fit.
    """
    noise = generator(seed, "fresh")
    folder = warm_start(model, kinds) if init == "auto" else Path(init)
    if init == "fresh" or folder is None:
        return fresh(shapes, model.rank, noise)
    adapter, alpha = load_adapter(folder)
    if adapter.keys() != shapes.keys():
        raise AdapterError(f"{folder} was made for another base or other model.targets")
    # The folder may have another rank and alpha than this run. Refitting keeps the update of the weights the same.
    rank = next(iter(adapter.values())).a.shape[1]
    return refit(adapter, alpha / rank, model.rank, model.alpha / model.rank, noise)
