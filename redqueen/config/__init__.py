"""The typed configuration of a run. Every field can be overridden as `section.field=value`.

Values that the paper does not publish have their reason next to them; docs/ALGORITHM.md has the whole list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from pydantic import ValidationError, model_validator

from redqueen.config.game import EvalsConfig, EvolutionConfig, GameConfig, LeagueConfig, ReferenceSource
from redqueen.config.keys import ANY_PART, Section, describe, flat, keys, parse_value, unknown_key
from redqueen.config.training import (
    AUTO_TARGETS,
    BUNDLED,
    ClusterConfig,
    LearningConfig,
    ModelConfig,
    PopulationConfig,
    RunConfig,
    SamplingConfig,
    SandboxConfig,
)
from redqueen.errors import UserError
from redqueen.plugins import are_loaded, load
from redqueen.tasks.kinds import find_or_plain

__all__ = [
    "AUTO_TARGETS",
    "BUNDLED",
    "AdvantageSettings",
    "ClusterConfig",
    "Config",
    "ConfigError",
    "EvalsConfig",
    "EvolutionConfig",
    "EvolutionSettings",
    "GameConfig",
    "LeagueConfig",
    "LearningConfig",
    "ModelConfig",
    "PlaySettings",
    "PopulationConfig",
    "ReferenceSource",
    "RunConfig",
    "SamplingConfig",
    "SandboxConfig",
    "Section",
    "resolve",
]


SOURCE = "game.source"
"""Short for `game.kinds` where these are generators of a library."""


class ConfigError(UserError):
    """A configuration that cannot be run. The message is one line and says what to do."""


class Config(Section):
    """A whole run."""

    recipe: str = "quickstart"
    """The recipe that it started from."""
    plugins: tuple[str, ...] = ()
    """Your own modules, imported before the run starts: their parts can be used by name (docs/EXTENDING.md)."""
    model: ModelConfig = ModelConfig()
    population: PopulationConfig = PopulationConfig()
    game: GameConfig = GameConfig()
    sampling: SamplingConfig = SamplingConfig()
    learning: LearningConfig = LearningConfig()
    league: LeagueConfig = LeagueConfig()
    evolution: EvolutionConfig = EvolutionConfig()
    evals: EvalsConfig = EvalsConfig()
    sandbox: SandboxConfig = SandboxConfig()
    cluster: ClusterConfig = ClusterConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _matches(self) -> Self:
        if self.game.matches and not self.population.single_agent:
            raise ValueError("game.matches is for the single agent; populations play max(teachers, students)")
        return self

    @model_validator(mode="after")
    def _best_of_fewer(self) -> Self:
        k, attempts = self.learning.pass_k, self.game.attempts
        # All attempts together are one try at pass@k, with nothing to compare it with.
        if self.learning.advantage == "passk" and k >= attempts:
            raise ValueError(
                f"learning.advantage=passk needs more than {k} attempts, to compare groups of {k}: set "
                f"learning.pass_k below game.attempts={attempts}"
            )
        return self

    @model_validator(mode="after")
    def _students_alone(self) -> Self:
        if self.population.teachers:
            generated = [kind for kind in self.game.kinds if find_or_plain(kind).generated]
            if generated:
                raise ValueError(
                    f"the kind {generated[0]} is for students alone: set population.teachers=0, or "
                    "train the recipe rlvr"
                )
            return self
        if self.league.hall_of_fame:
            raise ValueError(
                "population.teachers=0: students alone have no opponents and no champions: set league.hall_of_fame=0"
            )
        if self.evolution.enabled and self.league.student_fitness == "lcb":
            raise ValueError(
                "population.teachers=0: students alone have no opponents and no rating: set evolution.enabled=false, "
                "or league.student_fitness=mean_reward"
            )
        return self

    @model_validator(mode="after")
    def _league(self) -> Self:
        population = self.population
        if population.single_agent and self.league.hall_of_fame:
            raise ValueError("the single agent plays itself and has no champions: set league.hall_of_fame=0")
        # A role of one is never replaced, so it sets no limit.
        smallest = min(size for size in (population.teachers, population.students, 10**9) if size > 1)
        if self.evolution.enabled and self.evolution.elite >= smallest:
            raise ValueError(
                f"evolution.elite={self.evolution.elite} protects all {smallest} members of a role, so no member can "
                "be replaced: choose fewer"
            )
        return self

    @property
    def capacity(self) -> int:
        """How many adapters a run holds at most: the living and the champions of both roles."""
        population = self.population
        living = 1 if population.single_agent else population.teachers + population.students
        return living + 2 * self.league.hall_of_fame

    @property
    def play_settings(self) -> PlaySettings:
        """What texts are sampled and judged by."""
        return PlaySettings(game=self.game, sampling=self.sampling, prompts=self.model.prompts, seed=self.run.seed)

    @property
    def engine_settings(self) -> EngineSettings:
        """What a base with its members is opened by."""
        # The single agent is taught at `lr`, also in a step in which it made no attempt.
        alone = self.population.single_agent
        learning = self.learning.model_copy(update={"teacher_lr": None}) if alone else self.learning
        return EngineSettings(model=self.model, sampling=self.sampling, learning=learning)

    @property
    def advantage_settings(self) -> AdvantageSettings:
        """What rewards become advantages by."""
        return AdvantageSettings(game=self.game, learning=self.learning)

    @property
    def evolution_settings(self) -> EvolutionSettings:
        """What members are ranked and replaced by."""
        return EvolutionSettings(league=self.league, evolution=self.evolution, seed=self.run.seed)

    def override(self, assignments: Iterable[str]) -> Config:
        """Returns a copy with `section.field=value` assignments applied.

        `plugins=MODULE` imports that module: what an assignment says, a person of this machine has said.
        Raises ConfigError, with the nearest valid key, for an unknown key or an impossible value, PluginError if a
        module cannot be imported.
        """
        settings: dict[str, str] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                example = f"{assignment}=VALUE" if name.strip().lstrip("-") in keys(type(self)) else "run.steps=20"
                raise ConfigError(f"'{assignment}' sets nothing: write section.field=value, e.g. {example}")
            settings[name.strip().lstrip("-")] = text.strip()
        return self.with_settings(settings, load_plugins=True)

    def with_settings(self, settings: Mapping[str, Any], *, load_plugins: bool = False) -> Config:
        """Returns a copy with these settings, by their keys. Nothing is imported for it without `load_plugins`.

        A text is read as in KEY=VALUE: "none" is a missing value, and commas make a list.
        Raises ConfigError, with the nearest valid key, for an unknown key or an impossible value, PluginError if a
        module cannot be imported.
        """
        # All settings are applied before any is validated: single_agent=true needs teachers=1 and students=1 too.
        data = self.model_dump()
        valid = list(keys(type(self)))
        for name, value in settings.items():
            if name == SOURCE:
                name = "game.kinds"
                if name in settings:
                    raise ConfigError(f"{SOURCE} and {name} are both given, and each chooses the kinds: leave one out")
                value = kinds_of(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
            inside = [key for key in valid if key.startswith(f"{name}.")]
            if value is None and inside:
                # A section of YAML that holds comments only.
                continue
            # Who writes model=gpt2 means its name, which `unknown_key` says.
            if inside and not (isinstance(value, str) and f"{name}.name" in inside):
                raise ConfigError(f"'{name}' is a section: give its settings one by one, e.g. {inside[0]}")
            if name not in valid:
                raise ConfigError(unknown_key(name, valid))
            section, _, field = name.rpartition(".")
            target = cast(dict[str, Any], data[section]) if section else data
            target[field] = parse_value(value, target[field]) if isinstance(value, str) else value
            # What a module registers can be named by any other key, so it is imported before these are checked.
            if load_plugins and name == "plugins" and isinstance(target[field], tuple):
                load(target[field])
        return resolve(data)

    def without_isolation(self, *, allowed: bool) -> Config:
        """Returns a copy that says whether programs may run on a machine that cannot isolate them."""
        return self.with_values("sandbox", unsafe_no_isolation=allowed)

    def with_values(self, section: str, **values: object) -> Config:
        """Returns a copy with other values in one section, which are not checked."""
        return self.model_copy(update={section: getattr(self, section).model_copy(update=values)})

    def differences(self, asked: Config) -> list[tuple[str, object, object]]:
        """Returns the settings of a run that differ from those asked for, as (key, the run's value, asked value)."""
        pairs = zip(flat(self.model_dump(mode="json")), flat(asked.model_dump(mode="json")), strict=True)
        # A run has the number format that auto chose when it began, so auto asks for any. Isolation is a matter of the
        # process that runs.
        any_format = ("model.dtype", "auto")
        return [
            (key, own, value)
            for (key, own), (_, value) in pairs
            if own != value and (key, value) != any_format and key != "sandbox.unsafe_no_isolation"
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """The settings that texts are sampled and judged by."""

    game: GameConfig
    sampling: SamplingConfig
    prompts: str
    """The format of prompts, `model.prompts`."""
    seed: int


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings that a base with its members is opened by, samples and learns by."""

    model: ModelConfig
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """The settings that rewards become advantages by."""

    game: GameConfig
    learning: LearningConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionSettings:
    """The settings that members are ranked and replaced by."""

    league: LeagueConfig
    evolution: EvolutionConfig
    seed: int


def kinds_of(source: str) -> str:
    """Returns the kinds of a source of tasks, as `game.kinds` takes them: "reasoning_gym:a,b" has two.

    Raises ConfigError if it has another form.
    """
    library, colon, names = source.strip().partition(":")
    if not colon or not all(names.split(",")):
        raise ConfigError(f"{SOURCE}={source}: write {SOURCE}=reasoning_gym:NAME or reasoning_gym:NAME,NAME")
    return ",".join(f"{library}:{name.strip().removeprefix(f'{library}:')}" for name in names.split(","))


def resolve(data: dict[str, Any]) -> Config:
    """Returns the configuration that plain data describe. Nothing is imported for it.

    While the plugins that the data name are not loaded, any name may be one of their parts.
    Raises ConfigError, in one line, if the data are invalid.
    """
    modules = data.get("plugins")
    named: list[Any] = list(modules) if isinstance(modules, list | tuple) else []
    context = {ANY_PART: not are_loaded(str(module) for module in named)}
    try:
        return Config.model_validate(data, context=context)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            raise ConfigError(unknown_key(where, keys(Config))) from None
        if first["input"] is None and first["type"] != "value_error":
            raise ConfigError(f"{where} cannot be none: see redqueen keys {where}") from None
        if first["type"] == "too_short":
            choices = next((", ".join(key.choices) for key in describe(Config) if key.name == where), "")
            raise ConfigError(f"{where} is empty: name at least one{f' of {choices}' if choices else ''}") from None
        note = "" if first["type"] == "value_error" else f" (given: {first['input']!r})"
        raise ConfigError(f"{where}: {message}{note}" if where else message) from None
