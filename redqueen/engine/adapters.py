"""One member's weights as values: low-rank factors for each site. How they are made, written and read."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from redqueen.assets import warm_start
from redqueen.base import streams
from redqueen.config import BUNDLED, ModelConfig
from redqueen.errors import AdapterError
from redqueen.records import Kind


@dataclass(frozen=True, slots=True)
class Factors:
    """The low-rank update of one linear layer: ΔWᵀ = s · a @ b, with s the adapter's fixed scaling.

    PEFT's `lora_A.weight` is `a` transposed, its `lora_B.weight` is `b` transposed.
    """

    a: Tensor
    """[in, r], the side that reads the layer's input."""
    b: Tensor
    """[r, out], the side that writes the layer's output; zero in an adapter that has not been trained."""


Adapter = Mapping[str, Factors]
"""Factors by site name, such as "model.layers.3.self_attn.q_proj"."""


# New adapters: PEFT's initialisation, and noise around a given adapter.


def generator(*purpose: str | int) -> torch.Generator:
    """Returns a CPU generator for this purpose (`redqueen.base.streams`): noise is the same on every device."""
    # A stream's key has 128 bits, and torch takes at most 64, one of them for the sign.
    return torch.Generator().manual_seed(streams.key(*purpose) % 2**63)


def fresh(shapes: Mapping[str, tuple[int, int]], rank: int, generator: torch.Generator) -> dict[str, Factors]:
    """Returns a new adapter: a as PEFT draws it, b zero, so ΔW = 0. `shapes` are (in, out) by site."""
    adapter: dict[str, Factors] = {}
    for name, (fan_in, fan_out) in shapes.items():
        a = fresh_columns(fan_in, rank, generator)
        adapter[name] = Factors(a, torch.zeros(rank, fan_out))
    return adapter


def fresh_columns(fan_in: int, count: int, generator: torch.Generator) -> Tensor:
    """Returns `count` columns of a new a, [in, count]: uniform within ±1/√in, PEFT's Kaiming-uniform with a = √5."""
    return (torch.rand(fan_in, count, generator=generator) * 2 - 1) / fan_in**0.5


def perturb(adapter: Adapter, share: float, generator: torch.Generator) -> dict[str, Factors]:
    """Returns `adapter` plus Gaussian noise of `share` times each tensor's own standard deviation.

    A b of zero, as in a new adapter, gets noise of `share` times a's deviation.
    """

    def noisy(tensor: Tensor, like: Tensor) -> Tensor:
        # Without a correction for small samples, which would divide by zero for a tensor with a single entry.
        return tensor + share * like.std(correction=0) * torch.randn(tensor.shape, generator=generator)

    changed: dict[str, Factors] = {}
    for name, factors in adapter.items():
        # With b = 0 every a is the same function, so members that start from a new adapter would all write alike.
        like = factors.b if factors.b.any() else factors.a
        changed[name] = Factors(noisy(factors.a, factors.a), noisy(factors.b, like))
    return changed


# The relative Frobenius distance of two adapters' updates, computed from the factors alone.


def relative_distance(x: Adapter, y: Adapter) -> float:
    """Returns ‖ΔX - ΔY‖ / max(‖ΔX‖, ‖ΔY‖), with norms over all sites together: in [0, 2], and 0 for two zero updates.

    The inner products are those of the factors, <a b, a' b'> = Σ (aᵀ a') ∘ (b b'ᵀ), so ΔW is never built.
    Rounding leaves an absolute error of about 1e-8. The scaling s is common to a population and cancels.

    Raises ValueError if the adapters differ in sites.
    """
    if x.keys() != y.keys():
        raise ValueError(f"adapters differ in sites: {sorted(x.keys() ^ y.keys())}")
    xx = xy = yy = 0.0
    for site, f in x.items():
        g = y[site]
        rank = f.a.shape[1]
        # One Gram matrix of both adapters' factors holds all three inner products. It is computed in fp64, because
        # close adapters leave a small difference of large numbers: fp32 would see distances below about 1e-3 as noise.
        readers = torch.cat([f.a, g.a], dim=1).to("cpu", torch.float64)
        writers = torch.cat([f.b, g.b], dim=0).to("cpu", torch.float64)
        gram = (readers.T @ readers) * (writers @ writers.T)
        xx += float(gram[:rank, :rank].sum())
        xy += float(gram[:rank, rank:].sum())
        yy += float(gram[rank:, rank:].sum())
    # Rounding may leave a tiny negative square.
    largest = max(xx, yy)
    return sqrt(max(0.0, xx + yy - 2.0 * xy) / largest) if largest > 0.0 else 0.0


# Adapters on disk: plain PEFT folders, readable by PEFT, transformers and vLLM.

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_A = ".lora_A.weight"
_B = ".lora_B.weight"
# Options of PEFT whose update is not s·B·A with one rank and scale everywhere. Such an adapter would load and be wrong.
_VARIANTS = (
    "use_dora",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
    "fan_in_fan_out",
    "modules_to_save",
    "layer_replication",
    "use_qalora",
    "alora_invocation_tokens",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
)
# Starts of PEFT that leave the base's weights as they are. All others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA, ...) take
# something off them, so that the adapter belongs to weights that members do not share. One that is not known here is
# refused, since a wrong result would not show.
_PLAIN_STARTS = ("none", "true", "false", "gaussian", "eva", "mica", "orthogonal")


def save_adapter(
    folder: Path,
    adapter: Adapter,
    *,
    alpha: float,
    base: str,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Writes `adapter` as a PEFT folder, which is made if needed. Raises OSError if that fails.

    The tensors are stored as `dtype`; `base` is the base model's name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name, factors in adapter.items():
        # safetensors refuses tensors that are not contiguous, and a transposed one is not.
        tensors[f"{_PREFIX}{name}{_A}"] = factors.a.T.to(dtype).contiguous()
        tensors[f"{_PREFIX}{name}{_B}"] = factors.b.T.to(dtype).contiguous()
    # Imported here, because it takes seconds and only writing an adapter needs it.
    peft = importlib.import_module("peft")
    config = peft.LoraConfig(
        r=next(iter(adapter.values())).a.shape[1],
        # vLLM refuses a float even if it is whole.
        lora_alpha=int(alpha) if alpha == int(alpha) else alpha,
        target_modules=_target_modules(adapter),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        inference_mode=True,
    )
    write_tensors(folder / WEIGHTS, tensors)
    # PEFT holds some fields as sets, whose order differs between processes. Equal adapters must give equal files.
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in config.to_dict().items()}
    (folder / CONFIG).write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")


def _target_modules(names: Iterable[str]) -> list[str]:
    """Returns by what names PEFT finds the adapted layers: their last parts, or in full where these are ambiguous."""
    names = sorted(names)
    # What reads pictures has layers of the same names as the language model beside it.
    if any(".language_model." in name for name in names):
        return names
    return sorted({name.rpartition(".")[2] for name in names})


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes a whole safetensors file or none. Raises OSError if that fails."""
    # A fit replaces what it kept before, and a kill must not leave half of it. The library's own `save_file` makes a
    # file that only its owner can read, whatever the umask says.
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.write_bytes(save(dict(tensors), metadata={"format": "pt"}))
    scratch.replace(path)


def load_adapter(folder: Path) -> tuple[dict[str, Factors], float]:
    """Returns the factors (fp32, sites in the order of their names) and the alpha of a PEFT folder.

    Raises AdapterError, which names the folder, if it cannot be read, is not plain LoRA, has pairs that do not fit, or
    numbers that are not finite.
    """
    try:
        config: dict[str, Any] = dict(json.loads((folder / CONFIG).read_bytes()))
        alpha = float(config["lora_alpha"])
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError, SafetensorError) as error:
        raise AdapterError(f"{folder} is not a readable PEFT adapter: {error}") from error
    used = [name for name in _VARIANTS if config.get(name)]
    start = str(config.get("init_lora_weights")).lower()
    used += [f"init_lora_weights={start}"] if start not in _PLAIN_STARTS else []
    if config.get("peft_type") != "LORA" or used:
        variant = ", ".join(used) or config.get("peft_type")
        raise AdapterError(f"{folder}: only plain LoRA is supported, this uses {variant}")
    sites = {key.removesuffix(_A) for key in tensors if key.endswith(_A)}
    # Every tensor must belong to a pair: a bias, or a B without its A, would otherwise be lost silently.
    pairs = {site + _A for site in sites} | {site + _B for site in sites}
    if odd := sorted(tensors.keys() ^ pairs):
        raise AdapterError(f"{folder}: only pairs of lora_A and lora_B are supported, see {odd[0]}")
    if not sites:
        raise AdapterError(f"{folder} holds no LoRA weights")
    if not 0 < alpha < math.inf:
        raise AdapterError(f"{folder}: lora_alpha is {alpha}, and must be a positive number")
    rank = config.get("r")
    adapter: dict[str, Factors] = {}
    for site in sorted(sites):
        if reason := _misfit(tensors[site + _A], tensors[site + _B], rank):
            raise AdapterError(f"{folder}: {site.removeprefix(_PREFIX)} is no LoRA pair: {reason}")
        a = tensors[site + _A].T.float().contiguous()
        b = tensors[site + _B].T.float().contiguous()
        adapter[site.removeprefix(_PREFIX)] = Factors(a, b)
    return adapter, alpha


def _misfit(a: Tensor, b: Tensor, rank: object) -> str:
    """Returns why two tensors, [r, in] and [out, r], are no pair of rank `rank`; "" if they are."""
    shapes = f"{list(a.shape)} and {list(b.shape)}"
    if a.dim() != 2 or b.dim() != 2 or 0 in (*a.shape, *b.shape):
        return f"the shapes {shapes} are not those of two matrices"
    if a.shape[0] != b.shape[1] or a.shape[0] != rank:
        return f"the shapes {shapes} do not have the rank of the configuration, {rank}"
    if not (a.is_floating_point() and b.is_floating_point()):
        return f"its numbers are {a.dtype} and {b.dtype}"
    if not (bool(a.isfinite().all()) and bool(b.isfinite().all())):
        return "it holds NaN or an infinity"
    return ""


def refit(
    adapter: Mapping[str, Factors], scale: float, rank: int, new_scale: float, generator: torch.Generator
) -> dict[str, Factors]:
    """Returns the same update ΔW at another rank and scale (s = alpha / rank).

    Raises AdapterError if `rank` is smaller than the adapter's.
    """
    fitted: dict[str, Factors] = {}
    for name, factors in adapter.items():
        spare = rank - factors.a.shape[1]
        if spare < 0:
            raise AdapterError(
                f"the adapter to start from has rank {factors.a.shape[1]}, model.rank is {rank}: "
                "raise model.rank, or use population.init=fresh"
            )
        fan_in, fan_out = factors.a.shape[0], factors.b.shape[1]
        # A spare component gets a random column of a and a zero row of b. With both at zero, neither would ever get a
        # gradient.
        noise = fresh_columns(fan_in, spare, generator)
        # The scale goes into b alone, so that old and new columns of a are of one size.
        b = factors.b * (scale / new_scale)
        fitted[name] = Factors(torch.cat([factors.a, noise], 1), torch.cat([b, torch.zeros(spare, fan_out)]))
    return fitted


# The adapter that all members of a run start near, and which base a folder's adapter was made for.

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


def check_targets(targets: Collection[str], present: Collection[str]) -> None:
    """Raises AdapterError if `model.targets` names a layer that is not among those of the base."""
    if missing := set(targets) - set(present):
        raise AdapterError(
            f"the model has no module named {', '.join(sorted(missing))} (model.targets): choose among "
            f"{', '.join(sorted(present))}"
        )


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
