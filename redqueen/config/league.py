"""The configuration of the league and of evolution."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from redqueen.config.section import PartName, Section

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
    """Who plays whom (docs/ALGORITHM.md), and how members are ranked (docs/ALGORITHM.md)."""

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
    """A child closer than this to a living member (`adapters.distance`) is drawn again; 0: not measured."""
