"""Sections and keys of the configuration: lists and describes keys, suggests the nearest one, and reads a value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from redqueen import extras, plugins

# What all sections of the configuration share.

ANY_PART = "any part"
"""The key of the validation context that says whether names of parts that are not registered are taken."""


MOST = 10**15
"""The most that a setting counts: more is a slip of the hand, and no archive holds the number."""


class Section(BaseModel):
    """One section. Unknown keys are refused, and so are infinities, NaN and counts above `MOST`."""

    # JSON has no infinity, so a run with one could not be read back. The docstring below each field is its description,
    # which `redqueen keys` prints.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # Pydantic takes True for 1, and `steps = true` would be a run of one step.
        annotation = cls.model_fields[str(info.field_name)].annotation
        taken = {*get_args(annotation), annotation}
        if isinstance(value, bool) and taken & {int, float}:
            raise ValueError("a number is wanted here, and not true or false")
        return value

    @field_validator("*")
    @classmethod
    def _countable(cls, value: Any, info: ValidationInfo) -> Any:
        # A seed counts nothing.
        if isinstance(value, int) and value > MOST and info.field_name != "seed":
            raise ValueError(f"{value} is more than {MOST:,}, the most that a setting counts")
        return value


@dataclass(frozen=True, slots=True)
class PartName:
    """The annotation of a field that holds a part's name: one of ours, or one that a plugin has registered."""

    part: plugins.Part
    built_in: tuple[str, ...]
    made: Callable[[str], bool] | None = None
    """Returns whether a name that is in no list is one of ours too."""

    def __post_init__(self) -> None:
        plugins.reserve(self.part, self.built_in)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self.check, handler(source))

    def choices(self) -> tuple[str, ...]:
        """Returns all names, those of plugins that are loaded among them."""
        return (*self.built_in, *plugins.names(self.part))

    def check(self, name: str, info: ValidationInfo) -> str:
        """Returns the name. Raises ValueError if there is no such part."""
        choices = self.choices()
        made = self.made is not None and self.made(name)
        if name not in choices and self.part == "kind":
            extras.require("kind", name)
        if name not in choices and not made and not (info.context or {}).get(ANY_PART):
            choose = f"choose one of {', '.join(choices)}, or " if choices else ""
            raise ValueError(f"there is no {self.part} '{name}': {choose}load your own with plugins=MODULE")
        return name


_ALIKE = 0.6
"""The least likeness of two words, in [0, 1], at which one may be the other, mistyped."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns ": did you mean 'NEAR'?" with the most similar of some names, "" if none is similar."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=_ALIKE)
    return f": did you mean '{near[0]}'?" if near else ""


FIRST = (
    "model.name",
    "population.teachers",
    "population.students",
    "game.kinds",
    "game.proposals",
    "game.attempts",
    "learning.lr",
    "evolution.every",
    "run.steps",
    "run.seed",
)
"""The settings that people touch first."""

_REMOVED = {"sampling.vllm_url": "a run starts its own vLLM (sampling.engine=vllm) and takes no server: leave it out"}
"""Keys of earlier versions, with what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key with what a person needs to know about it."""

    name: str
    default: str
    """The value that it has without a recipe, as text."""
    choices: tuple[str, ...]
    """The words that it takes; empty if it takes any text or a number."""
    text: str
    """What it means."""

    @property
    def meaning(self) -> str:
        """What it means, with the words that it takes where the sentence does not name them all itself."""
        named = all(choice in self.text for choice in self.choices)
        return self.text if named else f"{self.text} One of: {', '.join(self.choices)}."


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields every key that can be overridden, e.g. "learning.lr"."""
    for name, _ in _fields(model, prefix):
        yield name


def describe(model: type[BaseModel]) -> list[Key]:
    """Returns every key with its default, its choices and the docstring of its field."""
    described: list[Key] = []
    for name, field in _fields(model, ""):
        text = " ".join((field.description or "").split())
        choices = _choices(field.annotation)
        for named in field.metadata:
            choices += named.choices() if isinstance(named, PartName) else ()
        described.append(Key(name=name, default=as_text(field.default), choices=choices, text=text))
    return described


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation, f"{prefix}{name}.")
        # The recipe is the name that a run started from. A changed name would not change the configuration.
        elif name != "recipe":
            yield prefix + name, field


def flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the keys and the values of plain data with sections."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            # YAML's `on` and `1` are no texts; as texts they are unknown keys.
            yield f"{prefix}{name}", value


def as_text(value: object) -> str:
    """Returns a value as it is written in an override: `parse_value` reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _choices(annotation: Any) -> tuple[str, ...]:
    """Returns the words that a type admits: those of a Literal or of `PartName`, also inside a tuple."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if isinstance(annotation, PartName):
        return annotation.choices()
    # The annotations of `Annotated` are looked at like the parts of any other type.
    if get_origin(annotation) is Annotated:
        return tuple(word for metadata in annotation.__metadata__ for word in _choices(metadata))
    words: list[str] = []
    for argument in get_args(annotation):
        if argument not in (NoneType, Ellipsis):
            words += _choices(argument)
    return tuple(words)


def unknown_key(name: str, valid: Iterable[str]) -> str:
    """Returns the message for a key that does not exist, with the most similar one of `valid` if one is similar."""
    if name in _REMOVED:
        return f"{name} was removed: {_REMOVED[name]}"
    near = nearest_key(name, valid)
    section, _, field = name.rpartition(".")
    near_section, _, near_field = near.rpartition(".")
    # A section that is right says nothing about the rest of the name.
    pairs = [(near_field, field)] if section == near_section else [(near, name), (near_field, name)]
    alike = max(difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    # A word that is a part of the key may be much shorter than it, and the key may be the initials of several.
    words = field.split("_")
    shared = field in near or near_field in field or near_field == "".join(word[:1] for word in words)
    shared = shared or set(words) & set(near_field.split("_"))
    if alike < _ALIKE and not shared:
        return f"unknown key '{name}', and none is like it: redqueen keys lists them all."
    return f"unknown key '{name}': did you mean '{near}'?"


def nearest_key(name: str, valid: Iterable[str]) -> str:
    """Returns the key of `valid` that a person most likely meant by `name`."""
    field = name.rpartition(".")[2]
    candidates = list(valid)
    # Who writes `lr` means `learning.lr`, and who writes `model` means its name. Only a word that is no part of any key
    # is compared letter by letter, which would find `model.rank` for either.
    equal = [key for key in candidates if key.rpartition(".")[2] == field]
    named = [key for key in candidates if key == f"{name}.name"]
    begun = [key for key in candidates if key.rpartition(".")[2].startswith(field)]

    # The right field in a wrong section counts as much as a similar name: `league.gamma` suggests `evolution.gamma`.
    def likeness(key: str) -> tuple[float, float]:
        whole = difflib.SequenceMatcher(None, key, name).ratio()
        # A switch is compared by its section's name: `league.evolution` suggests `evolution.enabled`.
        key_field = key.removesuffix(".enabled").rpartition(".")[2]
        last = difflib.SequenceMatcher(None, key_field, field).ratio()
        return max(whole, last), whole

    return max(equal or named or begun or candidates, key=likeness)


def parse_value(text: str, current: object) -> object:
    """Reads `text` as a value for a key that holds `current`.

    Tuples are written with commas, and a missing value as `none`; everything else is left to pydantic.
    """
    if text.lower() in ("none", "null"):
        return None
    if isinstance(current, tuple):
        return tuple(item.strip() for item in text.strip("()[]").split(",") if item.strip())
    return text
