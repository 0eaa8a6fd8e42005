"""The typed configuration of a run. Every field can be overridden as `section.field=value`.

Values that the paper does not publish have their reason next to them; docs/ALGORITHM.md has the whole list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from redqueen.config_keys import keys, parse_value, unknown_key
from redqueen.errors import UserError
from redqueen.records import Kind, SamplingParams

BUNDLED = "smollm2-135m-instruct"

# copy_parent, fresh and linear_mean are controls, which the others must beat. The operators' names are repeated here,
# because the operators import torch and the configuration does not. A test compares the two.
Mutation = Literal[
    "svd_spectral", "layer_gaussian", "component_mask", "full_gaussian", "neftune", "copy_parent", "fresh"
]
Crossover = Literal["dare", "slot_swap", "svd_subspace", "extrapolate", "linear_mean"]
GameRule = Literal["par", "half"]
Matchmaking = Literal["balanced", "hard", "uniform", "round_robin"]
TeacherFitness = Literal["lcb", "mean_reward", "learnability"]
FitnessName = Literal[TeacherFitness, "held_out"]
ReferenceSource = Literal["all", "seeds", "newest"]
SurvivorSelection = Literal["truncation", "tournament"]
ParentSelection = Literal["rank", "tournament", "uniform"]


class ConfigError(UserError):
    """A configuration that cannot be run. The message is one line and says what to do."""


class Section(BaseModel):
    """One section. Unknown keys are refused, and so are infinities and NaN."""

    # JSON has no infinity, so a run with one could not be read back.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class ModelConfig(Section):
    """The frozen base and how members are attached to it."""

    name: str = BUNDLED
    """The bundled model, a Hugging Face id or a local folder."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """auto: bf16 where the processor multiplies it natively, else fp32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: CUDA where there is a device."""
    prompts: Literal["completion", "chat"] = "completion"
    """completion for base and small models, chat for instruct models."""
    rank: int = Field(default=8, ge=1, le=1024)
    """The rank of every adapter."""
    alpha: float = Field(default=16.0, gt=0)
    """ΔW is scaled by alpha / rank."""
    targets: tuple[str, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), min_length=1
    )
    """The linear layers of a block that adapters change."""
    workers: int = Field(default=0, ge=0)
    """Processes that sample and train on a CPU; 0: one for each core, as far as memory allows (3 GiB each)."""
    threads: int = Field(default=0, ge=0)
    """Threads of each process; 0: the cores are divided among the processes."""


class PopulationConfig(Section):
    """The members of a run."""

    teachers: int = Field(default=2, ge=1)
    """Living teachers, T."""
    students: int = Field(default=2, ge=1)
    """Living students, S."""
    single_agent: bool = False
    """One member plays both roles: the AZR baseline."""
    init: str = "auto"
    """"auto" (the shipped warm start where it fits, else fresh), "fresh", or a PEFT folder."""
    perturbation: float = Field(default=0.05, ge=0)
    """Each member starts at `init` plus noise of this share of each tensor's standard deviation (b of a new adapter: of
    a's), so that members differ."""

    @model_validator(mode="after")
    def _one_member(self) -> Self:
        if self.single_agent and (self.teachers, self.students) != (1, 1):
            raise ValueError("single_agent needs population.teachers=1 and population.students=1")
        return self


class GameConfig(Section):
    """The tasks and their rewards (docs/ALGORITHM.md; student rewards as in AZR's code)."""

    kinds: tuple[Kind, ...] = Field(default=("code_o", "code_i", "code_f"), min_length=1)
    """The kinds of tasks that are played."""
    proposals: int = 4
    """Proposals of each kind in a match: one group, so at least 2."""
    attempts: int = 6
    """Attempts at each task, n: one group, so at least 2."""
    matches: int = Field(default=0, ge=0)
    """Matches a step; 0: max(T, S). Only for the single agent, to match a population's compute."""
    references: int = Field(default=3, ge=0)
    """Tasks of the bank that a teacher sees before it writes."""
    shots: int = Field(default=0, ge=0)
    """Worked seed tasks that a student sees (completion prompts only)."""
    min_inputs: int = Field(default=4, ge=2)
    """Distinct inputs that a code_f proposal must have; half of them stay hidden."""
    max_inputs: int = Field(default=10, ge=2, le=256)
    """Inputs of a code_f proposal that are used."""
    references_from: ReferenceSource = "all"
    """Tasks that references are drawn from: all of the bank, its seeds, or the 64 newest of the kind."""
    seed_tasks: int | None = Field(default=None, ge=0)
    """Seed programs that the task bank starts with, drawn by the run's seed; none: all of them; 0: the identity
    function alone, which is AZR's start."""
    seed_lines: int | None = Field(default=None, ge=2)
    """Lines of the longest seed program in the task bank; none: any. What teachers write may be longer."""
    bank_size: int = Field(default=4096, ge=16)
    """Tasks of each kind that the task bank holds."""
    teacher_invalid: float = -1.0
    """Reward of a proposal that does not become a valid task."""
    teacher_unsolved: float = 0.0
    """Reward of a task without a correct attempt; otherwise it is 1 - rho."""
    student_correct: float = 1.0
    """Reward of a correct answer."""
    student_wrong: float = -0.5
    """Reward of a well-formed but wrong answer."""
    student_malformed: float = -1.0
    """Reward of a text without an answer."""

    @field_validator("kinds")
    @classmethod
    def _distinct(cls, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
        # A kind given twice would give two proposals one id, which is a primary key of the archive.
        if len(set(kinds)) != len(kinds):
            raise ValueError("a kind is given twice")
        return kinds

    @field_validator("proposals", "attempts")
    @classmethod
    def _comparable(cls, count: int) -> int:
        # A text is compared with the others of its group. Alone, a right one is worth no more than a wrong one.
        if count < 2:
            raise ValueError(f"{count} can never learn: a text is compared with others of its group, choose 2 or more")
        return count

    @model_validator(mode="after")
    def _inputs(self) -> Self:
        if self.max_inputs < self.min_inputs:
            raise ValueError("max_inputs must be at least min_inputs")
        return self


class SamplingConfig(Section):
    """How completions are sampled."""

    temperature: float = Field(default=1.0, gt=0)
    """1: the policy gradient's samples come from the policy itself."""
    proposal_tokens: int = Field(default=96, ge=1)
    """Longest proposal."""
    attempt_tokens: int = Field(default=64, ge=1)
    """Longest attempt."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """1: the whole vocabulary. Below it samples are off-policy, and a run says so when it starts."""
    top_k: int = Field(default=0, ge=0)
    """0: the whole vocabulary. Above it samples are off-policy, and a run says so when it starts."""
    batch_rows: int = Field(default=64, ge=1)
    """Completions that are sampled at once."""

    @property
    def truncates(self) -> bool:
        """Whether some tokens can never be sampled."""
        return self.top_p < 1 or self.top_k > 0

    def params(self, max_tokens: int) -> SamplingParams:
        """Returns how a completion of at most `max_tokens` is sampled."""
        return SamplingParams(max_tokens=max_tokens, temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)


class LearningConfig(Section):
    """REINFORCE++ with a group baseline; one step on fresh samples, so no ratio, no clip, no KL."""

    lr: float = Field(default=1e-4, ge=0)
    """Learning rate of AdamW."""
    loss: Literal["token_mean", "sequence_mean"] = "token_mean"
    """AZR's loss is token-weighted."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm of a member."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """AdamW's decay of the first moment."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """AdamW's decay of the second moment."""
    batch_tokens: int = Field(default=4096, ge=64)
    """Tokens in a micro-batch."""
    lr_warmup: int = Field(default=0, ge=0)
    """A newborn's own steps in which its learning rate grows linearly to `lr`."""
    checkpointing: bool = False
    """Recompute activations: about 4 times less memory, slower by a few per cent."""


class LeagueConfig(Section):
    """Who plays whom, and how members are ranked. Ratings have TrueSkill's defaults (docs/EVOLUTION.md)."""

    matchmaking: Matchmaking = "balanced"
    """How opponents are drawn."""
    teacher_fitness: TeacherFitness = "lcb"
    """The fitness that teachers are ranked by."""
    student_fitness: FitnessName = "lcb"
    """The fitness that students are ranked by."""
    lcb: float = Field(default=0.0, ge=0)
    """Fitness lcb = mu - lcb * sigma. The more sigma costs, the more newborns are replaced for being new."""
    game: GameRule = "par"
    """What a match is won against. par: the mean of the run's recent matches; half: a solve rate of one half."""
    par_matches: int = Field(default=20, ge=1)
    """Game par: how many recent matches it is the mean of, at least all of the present step."""
    draw_band: float = Field(default=0.03, ge=0, lt=1)
    """A match whose mean solve rate is within this of par is a draw."""
    held_out_tasks: int = Field(default=63, ge=1)
    """Fitness held_out: tasks on reserved programs that every student attempts once, the kinds in turn; at most 210."""
    hall_of_fame: int = Field(default=0, ge=0)
    """Past champions kept, of each role; the fittest enter every `evolution.every` steps."""
    hall_matches: float = Field(default=0.0, ge=0, le=1)
    """Share of a member's games that is against past champions."""

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


class EvolutionConfig(Section):
    """How members are replaced. `every`, `gamma` and `burn_in` are not published (docs/EVOLUTION.md)."""

    enabled: bool = True
    """Off: no member is replaced."""
    every: int = Field(default=10, ge=1)
    """k: steps between two rounds of replacements."""
    gamma: float = Field(default=0.25, gt=0, lt=1)
    """Share of a role that is replaced in a round, on average: 0.35 of two is one in 7 rounds of 10."""
    burn_in: int = Field(default=5, ge=0)
    """Matches that a member plays before it can be replaced."""
    crossover: float = Field(default=0.5, ge=0, le=1)
    """The probability that a child has two parents."""
    mutations: tuple[Mutation, ...] = Field(
        default=("svd_spectral", "layer_gaussian", "component_mask", "full_gaussian"), min_length=1
    )
    """One-parent operators, drawn uniformly."""
    crossovers: tuple[Crossover, ...] = Field(
        default=("dare", "slot_swap", "svd_subspace", "extrapolate"), min_length=1
    )
    """Two-parent operators, drawn uniformly."""
    survivors: SurvivorSelection = "truncation"
    """How the members at risk are chosen."""
    parents: ParentSelection = "rank"
    """How parents are drawn among those that stay."""
    contestants: int = Field(default=2, ge=1)
    """Members in a tournament, of survivors or of parents."""
    elite: int = Field(default=0, ge=0)
    """The fittest of a role that are never replaced."""
    min_distance: float = Field(default=0.0, ge=0, lt=2)
    """A child closer than this to a living member (`adapters.distance`) is drawn again; 0: not measured."""


class SandboxConfig(Section):
    """The limits of a program in the sandbox."""

    cpu_s: float = Field(default=1.0, gt=0)
    """CPU seconds for one program."""
    wall_s: float = Field(default=4.0, gt=0)
    """Wall-clock seconds for one program."""
    memory_mb: int = Field(default=256, ge=32)
    """Address space of one program."""
    value_bytes: int = Field(default=4096, ge=16, le=16_384)
    """Longest input or output of a task as literal text. A longer one is refused, never cut."""
    unsafe_no_isolation: bool = False
    """Run programs even if the kernel gives no isolation; the run records this."""
    workers: int = Field(default=0, ge=0)
    """Sandbox processes; 0: one for each core."""


class RunConfig(Section):
    """How long a run is, and which checkpoints it keeps."""

    steps: int = Field(default=10, ge=1)
    """Steps of the whole run."""
    seed: int = Field(default=0, ge=0)
    """All randomness of the run follows from it."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Steps between two checkpoints."""
    keep_last: int = Field(default=2, ge=1)
    """Newest checkpoints that are kept."""
    keep_every: int = Field(default=0, ge=0)
    """Checkpoints at multiples of this step are kept too; 0: none."""


class Config(Section):
    """A whole run."""

    recipe: str = "quickstart"
    """The recipe that it started from."""
    model: ModelConfig = ModelConfig()
    population: PopulationConfig = PopulationConfig()
    game: GameConfig = GameConfig()
    sampling: SamplingConfig = SamplingConfig()
    learning: LearningConfig = LearningConfig()
    league: LeagueConfig = LeagueConfig()
    evolution: EvolutionConfig = EvolutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _matches(self) -> Self:
        if self.game.matches and not self.population.single_agent:
            raise ValueError("game.matches is for the single agent; populations play max(teachers, students)")
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
                f"evolution.elite={self.evolution.elite} leaves nobody of {smallest} to replace: choose fewer"
            )
        return self

    def override(self, assignments: Iterable[str]) -> Config:
        """Returns a copy with `section.field=value` assignments applied.

        Raises ConfigError, with the nearest valid key, for an unknown key or an impossible value.
        """
        # All assignments are applied before any is validated: single_agent=true needs teachers=1 and students=1 too.
        data = self.model_dump()
        valid = set(keys(type(self)))
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            name = name.strip().lstrip("-")
            if not equals:
                raise ConfigError(f"'{assignment}' is not an override: write section.field=value, e.g. run.steps=20")
            if name not in valid:
                raise ConfigError(unknown_key(name, keys(type(self))))
            section, _, field = name.rpartition(".")
            target = cast(dict[str, Any], data[section]) if section else data
            target[field] = parse_value(text.strip(), target[field])
        return resolve(data)


def resolve(data: dict[str, Any]) -> Config:
    """Returns the configuration that plain data describe. Raises ConfigError, in one line, if they are invalid."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            raise ConfigError(unknown_key(where, keys(Config))) from None
        given = "" if first["type"] == "value_error" else f" (given: {first['input']!r})"
        raise ConfigError(f"{where}: {message}{given}" if where else message) from None
