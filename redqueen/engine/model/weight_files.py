"""The weights of a base as its files hold them, read without a GPU."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from safetensors import safe_open
from torch import Tensor

_ONE_FILE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def digest_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Returns the SHA-256 of weights, which must come sorted by name."""
    digest = hashlib.sha256()
    for name, weight in weights:
        digest.update(name.encode())
        # The bytes are hashed, because NumPy has no bf16 that could be hashed as numbers.
        digest.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def digest_of_files(where: str, parameters: Iterable[tuple[str, Tensor]]) -> str | None:
    """Returns `digest_of` these parameters, with the values that the files of the base at `where` have.

    Returns None if the base is not in safetensors files that name each parameter as the model does.
    """
    wanted = sorted(parameters)
    places = _places(where)
    if not all(name in places for name, _ in wanted):
        return None
    return digest_of(_read(places, wanted))


def _places(where: str) -> dict[str, Path]:
    """Returns the file of each weight."""
    index = _file(where, _INDEX)
    if index is not None:
        files: dict[str, str] = json.loads(index.read_text())["weight_map"]
        # All files of an index lie beside it.
        return {name: index.parent / file for name, file in files.items()}
    single = _file(where, _ONE_FILE)
    if single is None:
        return {}
    with safe_open(single, "pt") as file:
        return dict.fromkeys(file.keys(), single)


def _read(places: dict[str, Path], wanted: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights in the dtypes of the parameters."""
    opened: dict[Path, Any] = {}
    with ExitStack() as stack:
        for name, parameter in wanted:
            path = places[name]
            if path not in opened:
                opened[path] = stack.enter_context(safe_open(path, "pt"))
            yield name, opened[path].get_tensor(name).to(parameter.dtype)


def _file(where: str, name: str) -> Path | None:
    """Returns a file of a base that is here; None if it has none of that name."""
    if Path(where).is_dir():
        path = Path(where) / name
        return path if path.is_file() else None
    cached = huggingface_hub.try_to_load_from_cache(where, name)
    return Path(cached) if isinstance(cached, str) else None
