"""The adapter that all members of a run start near."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from redqueen.assets import warm_start
from redqueen.config import Config
from redqueen.engine.adapters.factors import Factors
from redqueen.engine.adapters.initialisation import fresh, generator
from redqueen.engine.adapters.peft_files import load_adapter, refit
from redqueen.errors import AdapterError


def starting_adapter(config: Config, shapes: Mapping[str, tuple[int, int]]) -> dict[str, Factors]:
    """Returns the adapter that all members start near.

    `shapes` are the base's (inputs, outputs) by the name of a module. Raises AdapterError if the adapter does not fit.
    """
    model = config.model
    noise = generator(config.run.seed, "fresh")
    init = config.population.init
    folder = warm_start(config) if init == "auto" else Path(init)
    if init == "fresh" or folder is None:
        return fresh(shapes, model.rank, noise)
    adapter, alpha = load_adapter(folder)
    if adapter.keys() != shapes.keys():
        raise AdapterError(f"{folder} was made for another base or other model.targets")
    # The folder may have another rank and alpha than this run. Refitting keeps the update of the weights the same.
    rank = next(iter(adapter.values())).a.shape[1]
    return refit(adapter, alpha / rank, model.rank, model.alpha / model.rank, noise)
