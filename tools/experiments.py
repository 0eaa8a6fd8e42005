"""The experiments of docs/reports as data: arms, seeds, and what is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

STRANGERS = "T"
"""The name of an arm that is no run: strangers, who are trained on the tasks of other arms."""
PASSES = (1, 4, 16)
"""The k of pass@k."""
WINDOW = 10
"""The coverage of tasks is counted in windows of so many steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Arms, which are settings, and their seeds. A run is called `{prefix}{arm}-{seed}`."""

    prefix: str
    page: str
    """The page in docs/ that says what is asked and what came out."""
    figures: str
    """What the names of its figures begin with."""
    steps: int
    common: tuple[str, ...]
    """The settings of all arms, beside those of the arm."""
    arms: Mapping[str, tuple[str, ...]]
    seeds: Mapping[str, int]
    """How many seeds each arm has."""
    order: tuple[tuple[str, ...], ...]
    """Groups of arms, each made seed by seed: if hours are short, the first ones are done."""
    compared: tuple[tuple[str, str], ...]
    """The pairs of arms whose gains are compared."""
    slopes: tuple[tuple[str, str], ...]
    """The pairs of arms whose tasks' growth is compared."""
    primary: tuple[str, ...] = ()
    """The held-out sets of the primary endpoints; all of them if it is empty."""
    by_depth: bool = False
    """Whether the tasks are expressions, and scores are those of the run's own evaluations, by depth."""
    late: bool = False
    """Whether it is asked if students still learn in the second half."""

    def plan(self, only: str | None = None, seeds: int | None = None) -> Iterator[tuple[str, int]]:
        """Yields the runs as (arm, seed), in the order in which they are made."""
        for arms in self.order:
            for seed in range(max(self.seeds.values())):
                for arm in arms:
                    if only in (None, arm) and seed < min(self.seeds[arm], seeds or self.seeds[arm]):
                        yield arm, seed

    def settings(self, arm: str) -> list[str]:
        """Returns the words of the command that trains an arm, without its seed."""
        return [*self.arms[arm], *self.common]


ONE_OF_EACH = ("population.teachers=1", "population.students=1", "evolution.enabled=false")
TWO_OF_EACH = ("population.teachers=2", "population.students=2")
BIRTHS = (*TWO_OF_EACH, "evolution.enabled=true")
AS_IN_THE_PAPER = ("game.teacher_reward=populora", "game.references_from=all", "learning.teacher_lr=none")

CODE = Experiment(
    prefix="",
    page="reports/RESULTS.md",
    figures="results",
    steps=60,
    common=("run.steps=60", "evals.every=20", "run.keep_every=20"),
    arms={
        "R": ("rlvr", "game.proposals=10", "game.attempts=16"),
        "A": ("overnight", "matched=per_adapter"),
        "B": ("overnight", "matched=total"),
        "S": ("overnight", *ONE_OF_EACH, "learning.teacher_lr=none"),
        "C": ("overnight", *ONE_OF_EACH),
        "D": ("overnight", "evolution.enabled=false"),
        "E": ("overnight",),
        "P": ("overnight", *AS_IN_THE_PAPER),
        "Q": ("overnight", *AS_IN_THE_PAPER, "matched=per_adapter"),
    },
    seeds={"A": 4, "C": 4, "E": 4, "T": 4, "R": 3, "P": 3, "Q": 3, "S": 3, "B": 3, "D": 3},
    order=(("C", "A", "E", "R"), ("D", "B"), ("T",), ("S", "Q"), ("P",)),
    compared=(("E", "A"), ("C", "A"), ("E", "C")),
    slopes=(("E", "A"), ("C", "A")),
)


def _wrong(share: str) -> tuple[str, ...]:
    """Returns the settings of a single agent of whose tasks a share has a wrong gold (tools/faulty_gate.py)."""
    kinds = ",".join(f"{kind}_wrong{share}" for kind in ("expr_o", "expr_i"))
    return ("expr", "plugins=tools.faulty_gate", f"game.kinds={kinds}", "matched=per_adapter")


EXPR = Experiment(
    prefix="expr-",
    by_depth=True,
    page="reports/RESULTS_EXPR.md",
    figures="results-expr",
    steps=40,
    common=(
        *("run.steps=40", "evals.every=20", "evals.limit=480", "run.keep_every=20"),
        # What the recipe was then: students answered at once.
        *("game.proposals=8", "game.attempts=12"),
        *("model.prompts=completion", "model.rank=8", "model.alpha=16", "sampling.attempt_tokens=16"),
        *("learning.lr=2e-4", "learning.teacher_lr=3e-5", "learning.imitation=0", "game.references_from=seeds"),
    ),
    arms={
        "R": ("expr", "population.teachers=0", "population.students=1", "evolution.enabled=false"),
        "A": ("expr", "matched=per_adapter"),
        "B": ("expr", *TWO_OF_EACH, "matched=total"),
        "C": ("expr", *ONE_OF_EACH),
        "D": ("expr", *TWO_OF_EACH, "evolution.enabled=false"),
        "E": ("expr", *BIRTHS),
        "W10": _wrong("10"),
        "W30": _wrong("30"),
    },
    seeds={"R": 5, "A": 5, "B": 5, "C": 5, "D": 5, "E": 5, "W10": 5, "W30": 5},
    order=(("E", "A", "C", "R", "W30", "W10", "D", "B"),),
    compared=(("E", "A"), ("C", "A"), ("E", "C"), ("W10", "A"), ("W30", "A")),
    slopes=(("E", "A"), ("C", "A")),
)

# One expression language, students with work, and as many attempts a step in every arm: 12 tasks with 8 attempts each.
WITH_WORK = (
    *("plugins=tools.deep_expressions", "evals.benchmarks=reserved,deep_expressions", "evals.limit=240"),
    *("game.kinds=expr_o", "game.attempts=8", "model.workers=1"),
    *("run.steps=100", "evals.every=25", "run.keep_every=25"),
)
ALONE = ("population.teachers=0", "population.students=1", "evolution.enabled=false", "game.proposals=12")
PAIR = (*ONE_OF_EACH, "game.proposals=12")
TWO_PAIRS = (*BIRTHS, "game.proposals=6")
SINGLE_AGENT = ("matched=per_adapter", "game.proposals=12")

WORK = Experiment(
    prefix="work-",
    page="reports/THINKING.md",
    figures="work",
    steps=100,
    by_depth=True,
    late=True,
    primary=("deep 4", "deep 5", "deep 6", "deep 7"),
    common=WITH_WORK,
    arms={
        "R": ("expr", *ALONE),
        "A": ("expr", *SINGLE_AGENT),
        "C": ("expr", *PAIR),
        "D": ("expr", *TWO_PAIRS, "evolution.enabled=false"),
        "E": ("expr", *TWO_PAIRS),
        "P": ("expr", *TWO_PAIRS, *AS_IN_THE_PAPER),
    },
    seeds={"R": 5, "A": 5, "C": 5, "D": 3, "E": 5, "P": 3},
    order=(("C", "R", "A"), ("E",), ("D", "P")),
    compared=(("C", "R"), ("C", "A"), ("E", "A"), ("E", "C")),
    slopes=(("C", "A"), ("E", "A")),
)

# Python, students with work. The start is weaker there than in expressions, so steps are larger.
PYTHON = Experiment(
    prefix="python-",
    page="reports/THINKING_PYTHON.md",
    figures="python",
    steps=100,
    common=(
        *("game.kinds=code_o,code_i", "game.proposals=12", "game.attempts=8"),
        *("model.prompts=work", "sampling.attempt_tokens=160", "learning.lr=2e-4", "learning.imitation=0.5"),
        *("model.workers=1", "run.steps=100", "evals.every=25", "evals.limit=210", "run.keep_every=25"),
    ),
    arms={
        "R": ("rlvr",),
        "A": ("overnight", "matched=per_adapter"),
        "C": ("overnight", *ONE_OF_EACH),
    },
    seeds={"R": 3, "C": 3, "A": 3},
    order=(("R", "C"), ("A",)),
    compared=(("C", "R"), ("C", "A")),
    slopes=(("C", "A"),),
)

OWN_TASKS = 32
THIRTY = (f"game.seed_tasks={OWN_TASKS}",)
# Made by `redqueen warm-start` of these alone, as `tools/own_seeds.py` says.
OWN_START = ("population.init=adapters/own-32",)
MIXED = ("game.own_share=0.5", "game.pick=difficulty")

OWN = Experiment(
    prefix="own-",
    page="reports/OWN_TASKS.md",
    figures="own-tasks",
    steps=100,
    by_depth=True,
    late=True,
    common=WITH_WORK,
    arms={
        "F": ("expr", *ALONE, *THIRTY),
        "F32": ("expr", *ALONE, *THIRTY, *OWN_START),
        "G": ("expr", *ALONE, *THIRTY, "game.pick=difficulty"),
        "H": ("expr", *PAIR, *THIRTY),
        "M": ("expr", *PAIR, *THIRTY, *MIXED),
        "M32": ("expr", *PAIR, *THIRTY, *MIXED, *OWN_START),
        "N": ("expr", *TWO_PAIRS, *THIRTY, *MIXED),
        "U": ("expr", *ALONE, "game.pick=difficulty"),
    },
    seeds={"F": 5, "F32": 1, "G": 5, "H": 3, "M": 5, "M32": 1, "N": 3, "U": 5},
    order=(("M", "G", "F"), ("U",), ("H", "N"), ("F32", "M32")),
    compared=(("M", "F"), ("M", "G"), ("G", "F"), ("M", "H"), ("M", "U"), ("N", "M")),
    slopes=(("M", "H"),),
)

EXPERIMENTS = {"code": CODE, "expr": EXPR, "own": OWN, "python": PYTHON, "work": WORK}
"""By the name on the command line."""
