"""The typed configuration of a run. Every field can be overridden as `section.field=value`.

Values that the paper does not publish carry their reason beside them; docs/ALGORITHM.md has the whole list.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from redqueen.errors import UserError
from redqueen.records import Kind

EMBEDDED = "smollm2-135m-instruct"

# copy_parent, fresh and linear_mean are controls: what the others must beat
Mutation = Literal[
    "svd_spectral", "layer_gaussian", "component_mask", "full_gaussian", "neftune", "copy_parent", "fresh"
]
Crossover = Literal["dare", "slot_swap", "svd_subspace", "extrapolate", "linear_mean"]


class ConfigError(UserError):
    """A configuration that cannot be run; the message is one line and says what to do."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class ModelConfig(Section):
    """The frozen base and how members are attached to it."""

    name: str = EMBEDDED  # the embedded model, a Hugging Face id or a local folder
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"  # auto: bf16 where the processor multiplies it
    device: Literal["auto", "cpu", "cuda"] = "auto"
    prompts: Literal["completion", "chat"] = "completion"
    rank: int = Field(default=8, ge=1, le=1024)
    alpha: float = Field(default=16.0, gt=0)  # ΔW is scaled by alpha / rank
    targets: tuple[str, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), min_length=1
    )
    # processes that sample and train on a CPU; 0: one for each core, as far as memory goes (3 GiB each)
    workers: int = Field(default=0, ge=0)
    threads: int = Field(default=0, ge=0)  # of each process; 0: the cores shared out among them


class PopulationConfig(Section):
    """Who there is. `single_agent` puts one member in both roles: the AZR baseline."""

    teachers: int = Field(default=2, ge=1)
    students: int = Field(default=2, ge=1)
    single_agent: bool = False
    init: str = "auto"  # "auto" (the shipped warm start where it fits, else fresh), "fresh", or a PEFT folder
    perturbation: float = Field(
        default=0.05, ge=0
    )  # each member starts at init plus noise of this share of a tensor's std

    @model_validator(mode="after")
    def _one_member(self) -> Self:
        if self.single_agent and (self.teachers, self.students) != (1, 1):
            raise ValueError("single_agent needs population.teachers=1 and population.students=1")
        return self


class GameConfig(Section):
    """The tasks and what they pay (DESIGN.md §3; student rewards as in AZR's code)."""

    kinds: tuple[Kind, ...] = Field(default=("code_o", "code_i", "code_f"), min_length=1)
    proposals: int = Field(default=4, ge=1)  # of each kind in a match
    attempts: int = Field(default=6, ge=1)  # n, at each task
    matches: int = Field(default=0, ge=0)  # 0: max(T, S); more only for the single agent, to match total compute
    references: int = Field(default=3, ge=0)  # bank tasks a teacher sees before it writes
    shots: int = Field(default=0, ge=0)  # worked seed tasks a student sees (completion prompts only)
    min_inputs: int = Field(default=4, ge=2)  # distinct inputs a code_f proposal must have; half stay hidden
    max_inputs: int = Field(default=10, ge=2, le=256)
    start_lines: int = Field(default=0, ge=0)  # longest program a code_f proposal starts from; 0: any
    bank_size: int = Field(default=4096, ge=16)
    teacher_invalid: float = -1.0
    teacher_unsolved: float = 0.0
    student_correct: float = 1.0
    student_wrong: float = -0.5
    student_malformed: float = -1.0

    @field_validator("kinds")
    @classmethod
    def _distinct(cls, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
        if len(set(kinds)) != len(kinds):
            raise ValueError("a kind is given twice")
        return kinds

    @model_validator(mode="after")
    def _inputs(self) -> Self:
        if self.max_inputs < self.min_inputs:
            raise ValueError("max_inputs must be at least min_inputs")
        return self


class SamplingConfig(Section):
    temperature: float = Field(default=1.0, gt=0)  # 1: the policy gradient's samples come from the policy itself
    proposal_tokens: int = Field(default=96, ge=1)
    attempt_tokens: int = Field(default=64, ge=1)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)  # 0: the whole vocabulary
    batch_rows: int = Field(default=64, ge=1)  # rows written at once


class LearningConfig(Section):
    """REINFORCE++ with a group baseline; one step on fresh samples, so no ratio, no clip, no KL."""

    lr: float = Field(default=1e-4, ge=0)
    loss: Literal["token_mean", "sequence_mean"] = "token_mean"  # AZR's loss is token-weighted
    clip: float = Field(default=1.0, gt=0)  # largest gradient norm of a member
    weight_decay: float = Field(default=0.0, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.99, ge=0, lt=1)
    batch_tokens: int = Field(default=4096, ge=64)  # padded tokens in a micro-batch
    warmup: int = Field(default=0, ge=0)  # steps of its own in which a newborn's learning rate grows linearly to lr
    checkpointing: bool = False  # recompute activations: about 4 x less memory, slower by a few per cent


class LeagueConfig(Section):
    """Ratings are TrueSkill's defaults; `every`, `gamma` and `burn_in` are not published (docs/EVOLUTION.md)."""

    matchmaking: Literal["balanced", "hard", "uniform", "round_robin"] = "balanced"
    evolution: bool = True
    every: int = Field(default=10, ge=1)  # k: steps between replacements
    gamma: float = Field(default=0.25, gt=0, lt=1)  # share of a role replaced
    burn_in: int = Field(default=5, ge=0)  # matches a member plays before it can be replaced
    crossover: float = Field(default=0.5, ge=0, le=1)
    mutations: tuple[Mutation, ...] = Field(
        default=("svd_spectral", "layer_gaussian", "component_mask", "full_gaussian"), min_length=1
    )
    crossovers: tuple[Crossover, ...] = Field(
        default=("dare", "slot_swap", "svd_subspace", "extrapolate"), min_length=1
    )
    teacher_fitness: Literal["lcb", "mean_reward", "learnability"] = "lcb"
    student_fitness: Literal["lcb", "mean_reward", "learnability", "held_out"] = "lcb"
    lcb: float = Field(default=3.0, ge=0)  # fitness lcb = mu - lcb * sigma
    probe_tasks: int = Field(default=64, ge=1)  # fitness held_out: seed tasks that every student attempts once
    survivors: Literal["truncation", "tournament"] = "truncation"
    parents: Literal["rank", "tournament", "uniform"] = "rank"
    contestants: int = Field(default=2, ge=1)  # in a tournament
    elite: int = Field(default=0, ge=0)  # the fittest of a role that are never replaced
    # a child closer than this to a living member is drawn again: Frobenius norm of the difference of two ΔW as a share
    # of the larger one's
    min_distance: float = Field(default=0.0, ge=0, lt=2)
    hall_of_fame: int = Field(default=0, ge=0)  # past champions kept, of each role
    hall_matches: float = Field(default=0.0, ge=0, le=1)  # share of a member's games that is against past champions

    @field_validator("teacher_fitness", mode="before")
    @classmethod
    def _teachers_have_no_outside(cls, name: object) -> object:
        if name == "held_out":
            raise ValueError(
                "held_out is for students only: a teacher is judged by its students, so it has no score outside the "
                "game. Choose lcb, mean_reward or learnability"
            )
        return name

    @model_validator(mode="after")
    def _champions(self) -> Self:
        if self.hall_matches and not self.hall_of_fame:
            raise ValueError("hall_matches needs champions: set league.hall_of_fame to how many of a role are kept")
        return self


class SandboxConfig(Section):
    cpu_s: float = Field(default=1.0, gt=0)
    wall_s: float = Field(default=4.0, gt=0)
    memory_mb: int = Field(default=256, ge=32)
    # longest input or output of a task, as literal text: what is longer is refused, never cut, and never a prompt
    value_bytes: int = Field(default=4096, ge=16, le=16_384)
    unsafe_no_isolation: bool = False  # run programs where the kernel gives no isolation; in the run's record
    workers: int = Field(default=0, ge=0)  # 0: one for each core


class RunConfig(Section):
    steps: int = Field(default=10, ge=1)
    seed: int = Field(default=0, ge=0)
    checkpoint_every: int = Field(default=1, ge=1)
    keep_last: int = Field(default=2, ge=1)
    keep_every: int = Field(default=0, ge=0)  # 0: no other checkpoint is kept


class Config(Section):
    recipe: str = "quickstart"
    model: ModelConfig = ModelConfig()
    population: PopulationConfig = PopulationConfig()
    game: GameConfig = GameConfig()
    sampling: SamplingConfig = SamplingConfig()
    learning: LearningConfig = LearningConfig()
    league: LeagueConfig = LeagueConfig()
    sandbox: SandboxConfig = SandboxConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _matches(self) -> Self:
        if self.game.matches and not self.population.single_agent:
            raise ValueError("game.matches is for the single agent; populations play max(teachers, students)")
        return self

    @model_validator(mode="after")
    def _league(self) -> Self:
        population, league = self.population, self.league
        if population.single_agent and league.hall_of_fame:
            raise ValueError("the single agent plays itself and has no champions: set league.hall_of_fame=0")
        smallest = min(size for size in (population.teachers, population.students, 10**9) if size > 1)
        if league.evolution and league.elite >= smallest:
            raise ValueError(f"league.elite={league.elite} leaves nobody of {smallest} to replace: choose fewer")
        return self

    def override(self, assignments: Iterable[str]) -> Config:
        """A copy with `section.field=value` assignments applied.

        Raises ConfigError, with the nearest valid key, for an unknown key or an impossible value.
        """
        data = self.model_dump()
        valid = list(keys(type(self)))
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            name = name.strip().lstrip("-")
            if not equals:
                raise ConfigError(f"'{assignment}' is not an override: write section.field=value, e.g. run.steps=20")
            if name not in valid:
                near = difflib.get_close_matches(name, valid, n=1, cutoff=0.0)[0]
                raise ConfigError(f"unknown key '{name}': did you mean '{near}'?")
            section, _, field = name.rpartition(".")
            target = cast(dict[str, Any], data[section]) if section else data
            target[field] = _value(text.strip(), target[field])
        return resolve(data)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key that can be overridden, e.g. "learning.lr"."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        elif name != "recipe":
            yield prefix + name


def resolve(data: dict[str, Any]) -> Config:
    """A configuration from plain data. Raises ConfigError in one line."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(where, list(keys(Config)), n=1, cutoff=0.0)[0]
            raise ConfigError(f"unknown key '{where}': did you mean '{near}'?") from None
        given = "" if first["type"] == "value_error" else f" (given: {first['input']!r})"
        raise ConfigError(f"{where}: {message}{given}" if where else message) from None


def _value(text: str, current: object) -> object:
    """Tuples are written with commas; everything else is pydantic's to parse."""
    if isinstance(current, tuple):
        return tuple(part.strip() for part in text.strip("()[]").split(",") if part.strip())
    return text
