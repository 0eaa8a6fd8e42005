"""The configuration of the evaluation while a run goes on."""

from __future__ import annotations

from pydantic import Field, field_validator

from redqueen.config.section import Section


class EvalsConfig(Section):
    """What students solve of held-out problems while a run goes on (docs/EVALUATION.md). Nothing is selected by it."""

    every: int = Field(default=0, ge=0)
    """Steps between two evaluations of the students; the start and the last step have one too. 0: none."""
    benchmarks: tuple[str, ...] = ("reserved",)
    """Names of benchmarks, or code, maths or all."""
    limit: int = Field(default=30, ge=1)
    """Problems of each benchmark, at most."""
    max_tokens: int = Field(default=0, ge=0)
    """Tokens of the longest answer; 0: each benchmark's own number."""
    own: float = Field(default=0.2, ge=0, le=0.5)
    """The share of your own programs, those of `game.seeds` or `game.tasks`, that is held out if `every` is not 0: at
    least 10 programs, at most half of them, similar ones together. 0: all are trained on."""
    data: str = ""
    """The folder of the benchmarks' files; empty: the Hugging Face hub. The reserved programs need neither."""

    @field_validator("benchmarks", mode="before")
    @classmethod
    def _some(cls, value: object) -> object:
        if not value:
            raise ValueError("it names no benchmark: to evaluate nothing while a run goes on, write evals.every=0")
        return value
