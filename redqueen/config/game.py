"""The configuration of the tasks and their rewards, of the league, of evolution, and of evaluation during a run."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from redqueen.config.keys import PartName, Section
from redqueen.records import Kind
from redqueen.tasks.kinds import BUILT_IN, InputCounts, is_made

ReferenceSource = Literal["all", "seeds", "newest"]


class GameConfig(Section):
    """The tasks and their rewards (docs/ALGORITHM.md; student rewards as in AZR's code)."""

    kinds: tuple[Annotated[Kind, PartName("kind", BUILT_IN, is_made)], ...] = Field(
        default=("code_o", "code_i", "code_f"), min_length=1
    )
    """The kinds of tasks that are played; for students alone also reasoning_gym:NAME, a generator of that library:
    game.source=reasoning_gym:NAME,NAME is short for those (docs/extras/REASONING_GYM.md)."""
    proposals: int = 4
    """Proposals of each kind in a match, at least 2: they are compared with each other. For students alone, the tasks
    of each kind that a student is posed in a step."""
    attempts: int = 6
    """Attempts at each task, at least 2: they are compared with each other."""
    matches: int = Field(default=0, ge=0)
    """Matches a step; 0: max(T, S). Only for the single agent, to match a population's compute."""
    references: int = Field(default=3, ge=0)
    """Tasks of the bank that a teacher sees before it writes."""
    shots: int = Field(default=0, ge=0)
    """Worked tasks of the bank that a student sees, of seeds where it is tested (completion prompts only)."""
    min_inputs: int = Field(default=4, ge=2)
    """Distinct inputs that an induction task must have, a seed as well; half of them stay hidden."""
    max_inputs: int = Field(default=10, ge=2, le=256)
    """Inputs of a proposal of an induction task that are used."""
    references_from: ReferenceSource = "all"
    """Tasks that references are drawn from: all of the bank, its seeds, which are your own tasks if you have any, or
    the 64 newest of the kind."""
    seed_tasks: int | None = Field(default=None, ge=0)
    """Seed programs of each language that the task bank starts with, drawn by the run's seed; none: all of them; 0: the
    identity function alone, which is AZR's start."""
    seed_lines: int | None = Field(default=None, ge=2)
    """Lines of the longest seed program in the task bank; none: any. What teachers write may be longer."""
    seeds: str | None = None
    """A file of your own seed programs, which take the place of the shipped ones; none: the shipped ones."""
    tasks: str | None = None
    """Your own tasks, in place of seed programs: a run's folder or a file of `redqueen tasks export` or `import`;
    none: the seeds."""
    own_share: float = Field(default=0.0, ge=0, lt=1)
    """With teachers: the share of a student's tasks in a step that are fixed ones, those of `seeds` or `tasks`, or else
    the shipped seeds; teachers propose the others. Students alone are posed nothing else."""
    pick: Literal["in_turn", "difficulty"] = "in_turn"
    """Which fixed tasks a student is posed. in_turn: all before one comes again; difficulty: more often what is solved
    sometimes, less often what is always or never solved."""
    bank_size: int = Field(default=4096, ge=16)
    """Tasks of each kind that the task bank holds. When it is full the oldest that is no seed is dropped."""
    teacher_reward: Annotated[str, PartName("teacher reward", ("populora", "novel", "learnability"))] = "populora"
    """What a valid task pays its teacher. populora: 1 - rho, or `teacher_unsolved`; novel: the same for a new idea
    alone; learnability: 4 rho (1 - rho)."""
    student_reward: Annotated[str, PartName("student reward", ("azr",))] = "azr"
    """What an answer in the right form pays its student. azr: `student_correct` or `student_wrong`."""
    teacher_invalid: float = -1.0
    """Reward of a proposal that does not become a valid task."""
    teacher_unsolved: float = 0.0
    """Rewards populora and novel: what a task without a correct attempt pays its teacher, or without a new idea."""
    student_correct: float = 1.0
    """Reward of a correct answer."""
    student_wrong: float = -0.5
    """Reward of a well-formed but wrong answer."""
    student_malformed: float = -1.0
    """Reward of a text without an answer."""

    @property
    def own_proposals(self) -> int:
        """How many of `proposals` in a match with a teacher are replaced by fixed tasks."""
        return round(self.own_share * self.proposals)

    @property
    def teacher_proposals(self) -> int:
        """How many proposals of each kind a teacher writes in a match."""
        return self.proposals - self.own_proposals

    @property
    def input_counts(self) -> InputCounts:
        """How many inputs a proposal has whose kind shows examples."""
        return InputCounts(least=self.min_inputs, most=self.max_inputs)

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

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.own_share and (not self.own_proposals or self.teacher_proposals < 2):
            raise ValueError(
                f"own_share={self.own_share} makes {self.own_proposals} of proposals={self.proposals} fixed "
                "tasks: it has to leave 2 or more to a teacher, and 1 or more to fixed tasks"
            )
        return self


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
# These are the parts that ship. A field that is `PartName` also takes what a plugin has registered.
_Mutation = Annotated[str, PartName("mutation", get_args(Mutation))]
_Crossover = Annotated[str, PartName("crossover", get_args(Crossover))]
SurvivorSelection = Literal["truncation", "tournament"]
ParentSelection = Literal["rank", "tournament", "uniform"]


class LeagueConfig(Section):
    """Who plays whom and how members are ranked (docs/ALGORITHM.md)."""

    matchmaking: Annotated[str, PartName("matchmaking", get_args(Matchmaking))] = "balanced"
    """How opponents are drawn: balanced (near-even games), hard (teachers likely to win), uniform, or in turn."""
    teacher_fitness: Annotated[str, PartName("fitness", get_args(TeacherFitness))] = "lcb"
    """The fitness that teachers are ranked by."""
    student_fitness: Annotated[str, PartName("fitness", get_args(FitnessName))] = "lcb"
    """The fitness that students are ranked by."""
    lcb: float = Field(default=0.0, ge=0)
    """Fitness lcb = mu - lcb * sigma. The more sigma costs, the more newborns are replaced for being new."""
    game: Annotated[str, PartName("game rule", get_args(GameRule))] = "par"
    """What a match is won against. par: the mean of the run's recent matches; half: a solve rate of one half."""
    par_matches: int = Field(default=20, ge=1)
    """Game par: how many recent matches it is the mean of, at least all of the present step."""
    draw_band: float = Field(default=0.03, ge=0, lt=1)
    """A match whose tasks are solved, on average, within this of par is a draw; an unsolved task counts as par."""
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
    """How members are replaced. `every`, `gamma` and `burn_in` are not published (docs/ALGORITHM.md)."""

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
    mutations: tuple[_Mutation, ...] = Field(
        default=("svd_spectral", "layer_gaussian", "component_mask", "full_gaussian"), min_length=1
    )
    """One-parent operators, drawn uniformly."""
    crossovers: tuple[_Crossover, ...] = Field(
        default=("dare", "slot_swap", "svd_subspace", "extrapolate"), min_length=1
    )
    """Two-parent operators, drawn uniformly."""
    survivors: Annotated[str, PartName("survivor rule", get_args(SurvivorSelection))] = "truncation"
    """How the members at risk are chosen."""
    parents: Annotated[str, PartName("parent rule", get_args(ParentSelection))] = "rank"
    """How parents are drawn among those that stay."""
    contestants: int = Field(default=2, ge=1)
    """Members in a tournament, of survivors or of parents."""
    elite: int = Field(default=0, ge=0)
    """The fittest of a role that are never replaced."""
    min_distance: float = Field(default=0.0, ge=0, lt=2)
    """A child closer than this to a living member (`factors.relative_distance`) is drawn again; 0: not measured."""


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

    @property
    def held_out_share(self) -> float:
        """The share of the user's programs that is held out: what is not measured is not."""
        return self.own if self.every else 0.0

    @field_validator("benchmarks", mode="before")
    @classmethod
    def _some(cls, value: object) -> object:
        if not value:
            raise ValueError("it names no benchmark: to evaluate nothing while a run goes on, write evals.every=0")
        return value
