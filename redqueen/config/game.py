"""The configuration of the tasks and their rewards."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from redqueen.config.section import PartName, Section
from redqueen.records import Kind
from redqueen.tasks.kinds import BUILT_IN, InputCounts, is_made

ReferenceSource = Literal["all", "seeds", "newest"]


class GameConfig(Section):
    """The tasks and their rewards (docs/ALGORITHM.md; student rewards as in AZR's code)."""

    kinds: tuple[Annotated[Kind, PartName("kind", BUILT_IN, is_made)], ...] = Field(
        default=("code_o", "code_i", "code_f"), min_length=1
    )
    """The kinds of tasks that are played; for students alone also reasoning_gym:NAME, a generator of that library:
    game.source=reasoning_gym:NAME,NAME is short for those (docs/DATA.md)."""
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
    """Tasks that references are drawn from: all of the bank, its seeds, or the 64 newest of the kind."""
    seed_tasks: int | None = Field(default=None, ge=0)
    """Seed programs of each language that the task bank starts with, drawn by the run's seed; none: all of them; 0: the
    identity function alone, which is AZR's start."""
    seed_lines: int | None = Field(default=None, ge=2)
    """Lines of the longest seed program in the task bank; none: any. What teachers write may be longer."""
    seeds: str | None = None
    """A file of your own seed programs, which take the place of the shipped ones; none: the shipped ones."""
    tasks: str | None = None
    """Students alone: whose tasks they are posed, a run's folder or a file of `redqueen tasks export` or
    `import`; none: the seeds."""
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
