"""What all sections of the configuration share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
