"""The lines of metrics.jsonl, one for each step of a run.

Rates and means are null where there was nothing to average, and they are over what living members wrote: champions of
the hall of fame play, but count in `statuses`, `dropped` and `tokens_sampled` only. Faults of the machine count in
`statuses` and `dropped` and in nothing else, so that a busy or broken machine does not look like a weak population.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class StatusCounts(TypedDict):
    """How many proposals and attempts ended with each status."""

    proposals: dict[str, int]
    attempts: dict[str, int]


class TruncatedRates(TypedDict):
    """The shares of proposals and attempts that the token limit cut off; such a text is malformed."""

    proposals: float | None
    attempts: float | None


class ThroughputMetrics(TypedDict):
    """What the machine did in a phase. Nothing of a run depends on it."""

    sampled_per_second: float | None
    """Tokens sampled in a second of sampling."""
    prompt_tokens: int
    """Tokens of prompts that were computed for sampling; a prompt that several rows share counts once."""
    decode_rows: float | None
    """Mean number of rows of a decode step that had not ended; of a process, where there are several."""
    trained_rows_per_second: float | None
    """Tokens that went through the model, those of prompts included, in a second of training."""
    mfu: float | None
    """Model FLOPs / (seconds x the device's peak in bf16); null where the peak is not known."""
    device_gib: float | None
    """The most memory that tensors had on the GPU in the phase; null on a CPU."""
    host_gib: float
    """The most memory that the run's main process has had so far."""


class RatioMetrics(TypedDict):
    """A member's importance ratios over the tokens that were trained: learner's / sampler's probability, truncated."""

    mean: float | None
    std: float | None
    clipped: float | None
    """The share of the tokens whose ratio was truncated."""
    gap: float | None
    """The member's own `logprob_gap`."""


class MemberMetrics(TypedDict):
    """A living member after the step's births."""

    role: str
    mu: float
    sigma: float
    fitness: float | None
    record: list[int]
    """Games won, drawn and lost."""
    born: int
    """The step after which it was born; 0 for the first population."""
    parents: list[str]


class OutcomeCounts(TypedDict):
    """How many games of the step ended how."""

    student: int
    draw: int
    teacher: int


class MatchMetrics(TypedDict):
    """A match and its game; `score` is the mean over its tasks of solve rate minus par, above 0 for the student.

    `score` is None without a task that has a solve rate, `outcome` where there was no game.
    """

    teacher: str
    student: str
    score: float | None
    outcome: str | None


class ReplacementMetrics(TypedDict):
    """A birth. `distance` and `tries` are there if `evolution.min_distance` is set."""

    victim: str
    child: str
    parents: list[str]
    operator: str
    age: int
    """The steps that the victim lived."""
    games: int
    """The games that the victim played."""
    tie: bool
    """Whether a member that stayed had the victim's fitness."""
    distance: NotRequired[float]
    tries: NotRequired[int]


class ComplexityMetrics(TypedDict):
    """Means over tasks of the measures of `redqueen.programs.complexity`."""

    depth: float
    cyclomatic: float
    lines: float
    variables: float
    nodes: float
    node_types: float


class TaskComplexityMetrics(TypedDict):
    """The complexity of programs as they were written, and of what is left without code that can never run."""

    written: ComplexityMetrics
    reached: ComplexityMetrics


class SizeMetrics(TypedDict):
    """The mean sizes of a task's inputs and outputs (`redqueen.programs.signatures.size_of`)."""

    input: float
    output: float


class ExecutedMetrics(TypedDict):
    """What ran of the programs when they were validated."""

    tasks: int
    """The tasks whose lines could be counted."""
    lines: float
    """Mean number of different lines that ran on a task's inputs."""
    events: float
    """Mean number of times that a line began, up to 20,000 a task."""


class CoverageMetrics(TypedDict):
    """What the run's tasks have covered, from its first step to this one (`redqueen.programs.coverage`)."""

    tasks: int
    """The tasks that were counted."""
    cells: int
    """The different cells in them."""
    beyond_seeds: int
    """The cells that no seed program has."""
    rarefied: dict[str, float]
    """By a number of tasks (10, 100, ...): the expected cells in so many tasks, drawn at random from all of the run."""
    rarefied_beyond_seeds: dict[str, float]
    rarefied_by_nodes: dict[str, float]
    """By a number of nodes of programs (1000, ...): the expected cells in as many tasks as have so many nodes. The
    control for verbosity: longer programs get fewer tasks."""


class GuessableMetrics(TypedDict):
    """How many of the step's new tasks can be solved without understanding their programs.

    Each program is called on about 20 fixed inputs of the types that it takes (`redqueen.behaviour`).
    """

    tasks: int
    """The novel tasks whose programs were called; the shares are of these."""
    rate: float | None
    """Tasks that can be guessed in one of the three ways."""
    by_random: float | None
    """Tasks whose output at least 40 % of the inputs give."""
    by_echo: float | None
    """Tasks whose output, given as the input, gives itself."""
    by_few_outputs: float | None
    """Tasks whose program gives at most three different outputs."""


class MeasureMetrics(TypedDict):
    """What the step's valid tasks are like, and what the run has covered; docs/METRICS.md gives the sources."""

    complexity_by_kind: dict[str, TaskComplexityMetrics | None]
    """The programs of code_f are given to the teacher."""
    dead_code_by_kind: dict[str, float | None]
    """Mean over tasks of the share of a program's nodes that can never run."""
    sizes_by_kind: dict[str, SizeMetrics | None]
    executed_by_kind: dict[str, ExecutedMetrics | None]
    """A statistic that a program may spoil: nothing is paid for it."""
    coverage: dict[str, CoverageMetrics]
    """By what is counted: `programs` (up to names and constants), `paths` (of syntax), `functions` (of the library),
    `signatures` (types of inputs and outputs), `behaviours` (outputs on fixed typed inputs, of novel tasks)."""
    paths_per_node: float | None
    """Mean over tasks of a program's different paths / its nodes, of what is reached."""
    new_shape_rate: float | None
    """Tasks whose program, up to names and constants, neither a seed nor an earlier task of the run has / tasks."""
    new_paths: float | None
    """Mean number of a task's paths that neither a seed nor an earlier task of the run has."""
    repeated_rate: float | None
    """Tasks with the program, inputs and message of an earlier task of the run / tasks."""
    guessable: GuessableMetrics


class HeldOutScore(TypedDict):
    """What one student solves of the held-out problems, and how far that is above the start."""

    rate: float
    """Right answers / judged answers."""
    gain: float
    """The mean over problems of the student's answer (1: right) less the start's, on the problems that both have."""
    low: float | None
    """The lower end of the gain's 95 % interval (Student's t over problems); None if no problem tells them apart."""
    high: float | None


class HeldOutMetrics(TypedDict):
    """The students on the held-out problems, all benchmarks of `evals.benchmarks` together."""

    problems: int
    start: float
    """What the adapter solves that all members started from: right answers / judged answers."""
    students: dict[str, HeldOutScore]


class StepMetrics(MeasureMetrics):
    """One line of metrics.jsonl."""

    step: int
    """Counted from 1."""
    time: NotRequired[str]
    """When the line was written, in UTC: 2026-01-31T12:00:00Z."""
    evals: NotRequired[dict[str, dict[str, float | None]]]
    """Right answers / judged answers by benchmark and living student; only in the steps that `evals.every` names."""
    held_out: NotRequired[HeldOutMetrics]
    """The same for all benchmarks together, beside the start; in the same steps."""
    valid_rate: float | None
    """Valid tasks / judged proposals."""
    valid_rate_by_kind: dict[str, float | None]
    novel_rate: float | None
    """Valid tasks with a new idea / valid tasks. The idea of code_o and code_i is the program up to names and
    constants, that of code_f the message up to case and punctuation; new is what neither a seed nor the task bank has.
    """
    novel_rate_by_kind: dict[str, float | None]
    lines_by_kind: dict[str, float | None]
    """Mean lines of the valid tasks' programs. The programs of code_f are given to the teacher."""
    seed_references: float | None
    """References that are seed programs / references that teachers were shown."""
    solve_rate: float | None
    """Correct / judged attempts, in sample: at the tasks that the step trains on."""
    solve_rate_by_kind: dict[str, float | None]
    tasks_by_kind: dict[str, int]
    """Tasks of living teachers with a solve rate of a living student."""
    contested_by_kind: dict[str, int]
    """Those of `tasks_by_kind` with a solve rate between 0 and 1, both excluded."""
    teacher_reward: float | None
    student_reward: float | None
    statuses: StatusCounts
    truncated_rate: TruncatedRates
    truncated_rate_by_kind: dict[str, TruncatedRates]
    dropped: int
    """Proposals and attempts without a reward: faults of the machine, and attempts at tasks that were withdrawn because
    their programs did not repeat their own outputs (`nondeterministic` in `statuses`, for the attempts too)."""
    tokens_sampled: int
    tokens_trained: int
    tokens_by_phase: dict[str, int]
    """Tokens that were sampled in `propose`, `solve` and `evolve` (held-out attempts), and trained on in `learn`. Its
    `propose` and `solve` add up to `tokens_sampled`."""
    response_tokens: dict[str, float | None]
    """By role: the mean length of what living members wrote, in tokens."""
    entropy: dict[str, dict[str, float]]
    """By role and living member: an estimate from all tokens that it sampled in the step, their mean negative
    log-probability, in nats per token. It is of the distribution that was sampled from: at the sampling temperature and
    after `top_p` and `top_k`."""
    logprob_gap: float | None
    """Mean absolute difference of the sampler's and the learner's log-probabilities, in nats per trained token."""
    importance_ratio: dict[str, RatioMetrics]
    """By member that was trained, whether or not `learning.importance_ratio` is off."""
    loss: dict[str, float | None]
    grad_norm: dict[str, float | None]
    adapter_norm: dict[str, float]
    skipped: dict[str, str]
    """Why a member was not updated."""
    members: dict[str, MemberMetrics]
    matches: list[MatchMetrics]
    outcomes: OutcomeCounts
    par: dict[str, float]
    """The solve rate, by kind, that games were judged by; a kind that was never solved has none."""
    replacements: list[ReplacementMetrics]
    hall: list[str]
    """Names of the champions in the hall of fame."""
    task_bank_size: int
    """Tasks in the task bank."""
    throughput: dict[str, ThroughputMetrics]
    """By phase in which something was sampled or trained: `play` (proposals and attempts), `learn`, `evolve`
    (held-out attempts), `evaluate`."""
    seconds: dict[str, float]
    """Wall time by phase, and `total`. Attempts begin while proposals are still being written: `propose` ends when the
    last one is, and `solve` is the rest."""
