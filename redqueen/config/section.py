"""What all sections of the configuration share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section. Unknown keys are refused, and so are infinities and NaN."""

    # JSON has no infinity, so a run with one could not be read back.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())
