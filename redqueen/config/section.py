"""What all sections of the configuration share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationInfo, field_validator
from pydantic_core import CoreSchema, core_schema

from redqueen import extras, plugins

ANY_PART = "any part"
"""The key of the validation context that says whether names of parts that are not registered are taken."""


class Section(BaseModel):
    """One section. Unknown keys are refused, and so are infinities and NaN."""

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
