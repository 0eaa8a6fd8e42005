"""`python -m benchmarks evaluation RUN...`: members that are evaluated in mixed batches, against one after another.

Both ways answer the same reserved tasks greedily, with as many rows in flight. The answers are compared too: in 16 bits
a product rounds by its place in the batch, so a few texts may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.report import Report, against, finish, log, times
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns
from redqueen.config import EngineSettings
from redqueen.engine.model.base import Base, fingerprint_of, load
from redqueen.evals.benchmark import ProblemSet, form_of
from redqueen.evals.grader import OpenGraders
from redqueen.evals.registry import load_benchmarks
from redqueen.evals.runner import Plan, evaluate
from redqueen.evals.samples import SampleStore
from redqueen.evals.targets import Entrant, read_targets
from redqueen.method.verifier import LocalVerifier

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("cpu_ms", "CPU ms"),
    ("wall_ms", "wall ms"),
    ("tokens", "tokens"),
    ("right", "right answers of each"),
)
CASE = "the reserved tasks"
Found = dict[tuple[str, str], tuple[str, str]]
"""Texts with their grades, by the adapter and the problem."""


def run_bench_evaluation(
    targets: Sequence[str], dtype: str, limit: int, rows: int, threads: int, rounds: int, *, as_json: bool
) -> int:
    """Measures and prints the report; returns the exit code. Raises UserError if a target cannot be evaluated."""
    report = Report("evaluation", {"dtype": dtype, "tasks": limit, "rows": rows, "threads": threads, "rounds": rounds})
    config, entrants = read_targets(targets, "students", None)
    config = config.override(
        [f"model.dtype={dtype}", f"model.threads={threads}", "model.workers=1", f"sampling.batch_rows={rows}"]
    )
    log("loading")
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier, OpenGraders(verifier) as graders:
        (loaded,) = load_benchmarks(["reserved"], config.play_settings, verifier, None, limit)
        ways = _Ways(config.engine_settings, load(config.model), loaded, graders)
        together, apart = [entrants], [[entrant] for entrant in entrants]
        contenders = [
            Contender("all in mixed batches", partial(ways.turn, "mixed", together)),
            Contender("one after another", partial(ways.turn, "apart", apart)),
        ]
        take_turns(contenders, rounds, log, CASE)
    mixed, others = contenders
    report.results = [
        {**times(CASE, contender, mixed), "right": _right(ways.found[way])}
        for contender, way in ((mixed, "mixed"), (others, "apart"))
    ]
    one = f"{others.name} / {mixed.name}"
    report.ratio(f"CPU time, {one}", against(others, mixed, lambda turn: turn.cpu_s), "")
    report.ratio(f"time, {one}", against(others, mixed, lambda turn: turn.wall_s), "")
    for what, part in (("texts", 0), ("grades", 1)):
        same = [ways.found["apart"][key][part] == found[part] for key, found in ways.found["mixed"].items()]
        report.ratio(f"{what} that are the same both ways, of {len(same)}", sum(same) / len(same), "")
    return finish(report, COLUMNS, as_json)


class _Ways:
    """Evaluates groups of entrants, and keeps what they answered."""

    def __init__(self, settings: EngineSettings, base: Base, loaded: ProblemSet, graders: OpenGraders) -> None:
        self.settings = settings
        self.base = base
        self.loaded = loaded
        self.graders = graders
        self.plan = Plan(
            template=form_of(settings.model.prompts),
            samples=1,
            temperature=0.0,
            max_tokens=None,
            base=fingerprint_of(base),
        )
        self.found: dict[str, Found] = {}
        """The answers of the last turn, by the way's name."""

    def turn(self, way: str, groups: Sequence[Sequence[Entrant]]) -> Timing:
        """Evaluates one group after another, each in mixed batches."""
        found: Found = {}
        tokens = 0
        with Stopwatch() as watch:
            for group in groups:
                with SampleStore(None) as store:
                    evaluate(self.base, self.settings, group, [self.loaded], self.plan, self.graders, store, _silent)
                    rows = store.connection.execute("SELECT adapter, problem, text, status, tokens FROM samples")
                    for adapter, problem, text, status, count in rows:
                        found[adapter, problem] = (text, status)
                        tokens += count
        self.found[way] = found
        return Timing(cpu_s=watch.cpu_s, wall_s=watch.wall_s, tokens=tokens)


def _silent(_title: str, _done: int, _total: int) -> None:
    """Reports no progress."""


def _right(found: Found) -> str:
    """Returns how many right answers each adapter has."""
    adapters = dict.fromkeys(adapter for adapter, _ in found)
    right = [sum(found[key][1] == "correct" for key in found if key[0] == adapter) for adapter in adapters]
    return ", ".join(map(str, right))
