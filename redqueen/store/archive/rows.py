"""The rows of the archive: one class for each table, whose fields are the table's columns.

Nothing else names a column: the SQL is derived from these classes in `redqueen.store.archive`.
"""

from __future__ import annotations

from dataclasses import dataclass

from redqueen.method.hall_of_fame import MemberName
from redqueen.method.seeds import AUTHOR, OWN
from redqueen.records import FinishReason, Kind, Pair, Role, Status, Task

BANK = "bank"
"""Stands for the teacher of fixed tasks, which no teacher wrote."""
_FIXED = {OWN: "yours", AUTHOR: "a seed", BANK: "fixed"}


def written_by(author: str) -> str:
    """Returns who wrote a task, for people: a teacher, or what a fixed task is."""
    return _FIXED.get(author, author)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of one of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow(Row):
    """A member's birth. `step` is the one after which it was born, 0 for the first population."""

    name: MemberName
    role: str
    step: int
    parents: tuple[MemberName, ...]
    operator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRow(Row):
    """A match with its game. Ratings are those after the step's games and before its births.

    `score` is the mean over the match's tasks of solve rate minus par, where a task that was never solved counts as 0;
    None without a task that has a solve rate.
    `outcome` is None where there was no game.
    """

    id: str
    step: int
    teacher: MemberName
    student: MemberName
    score: float | None
    outcome: str | None
    teacher_mu: float
    teacher_sigma: float
    student_mu: float
    student_sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRow(Row):
    """What a teacher wrote, and what it was judged to be.

    `reference_ids` are those of the tasks that the prompt shows; `reward` is None after a fault of the machine. A task
    that was withdrawn while it was played is `nondeterministic` here, and has attempts but no row among the tasks.
    """

    id: str
    step: int
    match: str
    teacher: MemberName
    kind: Kind
    prompt: str
    reference_ids: tuple[str, ...]
    text: str
    tokens: int
    finish_reason: FinishReason
    status: Status
    output: str
    detail: str
    cpu_ms: float
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow(Row):
    """A valid task; its id is its proposal's.

    `rho` is the solve rate. `novel` says whether its idea is new (`redqueen.method.seeds`).
    """

    id: str
    step: int
    kind: Kind
    author: MemberName
    program: str
    pairs: tuple[tuple[str, str], ...]
    message: str
    rho: float | None
    novel: bool

    def task(self) -> Task:
        """Returns the task as it was played."""
        return Task(
            id=self.id,
            kind=self.kind,
            author=self.author,
            step=self.step,
            program=self.program,
            pairs=tuple(Pair(input_text, output) for input_text, output in self.pairs),
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(Row):
    """What a student wrote for a task; `number` counts the attempts at one task, and `task` is its proposal's id.

    `reward` is None after a fault of the machine, and where the task was withdrawn: then `status` is `nondeterministic`
    and `detail` says what the attempt was judged before.
    """

    task: str
    number: int
    step: int
    student: MemberName
    text: str
    tokens: int
    finish_reason: FinishReason
    status: Status
    output: str
    detail: str
    cpu_ms: float
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementRow(Row):
    """A birth: who was replaced by whose child. A fitness is None where it was not known yet.

    `victim_age` is in steps. `tie` says whether a member that stayed had the victim's fitness.
    `distance` is from the nearest living member of the role, None where the run did not ask for it.
    """

    step: int
    victim: MemberName
    child: MemberName
    parents: tuple[MemberName, ...]
    operator: str
    victim_fitness: float | None
    victim_age: int
    victim_games: int
    tie: bool
    parent_fitness: tuple[float | None, ...]
    distance: float | None
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRow(Row):
    """Where a member stood after a step's games and before its births."""

    step: int
    member: MemberName
    mu: float
    sigma: float
    games: int
    fitness: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChampionRow(Row):
    """A champion's entry into the hall of fame."""

    name: MemberName
    member: MemberName
    role: Role
    step: int
    mu: float
    sigma: float
    fitness: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow(Row):
    """One attempt at a held-out task; the mean over a member's rows of a step is its held-out score."""

    step: int
    member: MemberName
    task: str
    text: str
    tokens: int
    status: Status
    output: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow(Row):
    """A student's answer to a problem of `evals.benchmarks`. At step 0 `member` is "start": what all started from."""

    step: int
    member: MemberName
    benchmark: str
    problem: str
    text: str
    status: str
    tokens: int
    cut_off: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow(Row):
    """What a valid task is like, measured once when its step is recorded (docs/reference/METRICS.md).

    `written_` is the program as its author wrote it, `reached_` the same without what can never run. `paths`,
    `functions` and `shape` are of the reached program; the first two are words separated by spaces.
    """

    task: str
    step: int
    written_depth: int
    written_cyclomatic: int
    written_lines: int
    written_variables: int
    written_nodes: int
    written_node_types: int
    reached_depth: int
    reached_cyclomatic: int
    reached_lines: int
    reached_variables: int
    reached_nodes: int
    reached_node_types: int
    input_size: float
    output_size: float
    signature: str
    shape: str
    paths: str
    functions: str
    identity: str
    """A hash of the program, the inputs and the message: equal for tasks that are the same."""
    repeated: bool
    """Whether an earlier task of the run has the same `identity`."""
    new_shape: bool
    """Whether neither a seed nor an earlier task of the run has the same `shape`."""
    new_paths: int
    """Paths that neither a seed nor an earlier task of the run has."""
    typed_inputs: int | None
    """The fixed typed inputs that the program was called on. None, here and below, where it was not."""
    behaviour: str | None
    """A hash of what they gave."""
    distinct_outputs: int | None
    same_output_rate: float | None
    """The share of the typed inputs that give the task's own output."""
    echo: bool | None
    """Whether the task's output, as an input, gives the output again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRow(Row):
    """A proposal without its texts: what proposals are searched and sorted by, in one narrow table.

    It follows from the other rows (`store/archive/writer.py`). What only a valid task has is None for the others.
    """

    # The numbers come first: SQLite finds the first columns of a row fastest, and searches look at those of all rows.
    rho: float | None
    nodes: int | None
    """AST nodes of the reached program."""
    novel: bool | None
    reward: float | None
    tokens: int
    lines: int | None
    depth: int | None
    status: Status
    kind: Kind
    match: str
    step: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyRow(Row):
    """How many proposals of one kind and one status a match has. It follows from the other rows, as a listing does."""

    match: str
    step: int
    kind: Kind
    status: Status
    proposals: int
    rated: int
    """Those with a solve rate."""
    rho_sum: float
    """The sum of their solve rates."""
