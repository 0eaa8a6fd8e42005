"""Scores members, adapters and the bare base on held-out problems, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from redqueen.base.intervals import Interval
from redqueen.config import ModelConfig, SamplingConfig
from redqueen.engine.model.base import fingerprint_of, load
from redqueen.engine.model.source import chat_fault, read_tokenizer
from redqueen.errors import ModelError, UserError
from redqueen.evals import benchmark
from redqueen.evals.benchmark import ProblemSet, Template, form_of, load_own
from redqueen.evals.contamination import Overlap
from redqueen.evals.grader import OpenGraders
from redqueen.evals.held_out import OWN
from redqueen.evals.registry import chosen, load_benchmarks
from redqueen.evals.runner import Plan, Report, evaluate
from redqueen.evals.samples import SampleStore
from redqueen.evals.scores import Results
from redqueen.evals.targets import Entrant, Step, check_asked, own_tasks, read_targets, warnings_about
from redqueen.method.verifier import LocalVerifier
from redqueen.plugins import load as load_plugins
from redqueen.records import Task
from redqueen.run.session import Listener, fit
from redqueen.store.allowed import Permissions, with_allowed


def document(results: Results, plan: Plan, base: str, overlaps: Sequence[Overlap]) -> dict[str, object]:
    """Returns everything as plain data."""
    scores: list[dict[str, object]] = []
    for number, entry in enumerate(results.entries):
        cells = {name: asdict(cells[number]) for name, cells in results.cells.items()}
        averages = {name: _plain(results.rate(name, number)) for name in results.columns() if name not in cells}
        scores.append({**asdict(entry), "benchmarks": cells, "averages": averages})
    runs: dict[str, object] = {}
    singles = [entries[0] for entries in results.groups().values() if len(entries) == 1]
    for target, entries in results.groups().items():
        if len(entries) > 1:
            ranked = results.ranked(entries)
            runs[target] = {
                "best": results.entries[ranked[0]].member,
                "worst": results.entries[ranked[-1]].member,
                "means": {name: _plain(results.population(name, entries)) for name in results.columns()},
                "weakest_against": {
                    results.entries[single].label: _plain(results.weakest_against(entries, single))
                    for single in singles
                },
            }
    return {
        "base": base,
        "base_fingerprint": plan.base,
        "template": plan.template,
        "samples": plan.samples,
        "temperature": plan.temperature,
        "benchmarks": {loaded.benchmark.name: _data(loaded, plan) for loaded in results.benchmarks},
        "scores": scores,
        "runs": runs,
        "overlaps": [asdict(overlap) for overlap in overlaps],
    }


def _plain(interval: Interval | None) -> dict[str, object] | None:
    return None if interval is None else asdict(interval)


def _data(loaded: ProblemSet, plan: Plan) -> dict[str, object]:
    benchmark = loaded.benchmark
    return {
        "problems": len(loaded.problems),
        "available": loaded.available,
        "whole": benchmark.source.rows,
        "origin": loaded.origin,
        "sha256": loaded.sha256,
        "form": benchmark.form(plan.template),
        "max_tokens": plan.sampling(benchmark).max_tokens,
    }


EXPECTED = "expected.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """What the options of the command say."""

    benchmarks: Sequence[str] | None
    """None: the reserved programs, and what runs have held out of the user's tasks."""
    plugins: Sequence[str] = ()
    """Modules that register benchmarks of their own."""
    data: Path | None
    limit: int | None
    samples: int
    temperature: float
    template: Template | None
    max_tokens: int | None
    out: Path | None
    allowed: Permissions
    step: Step = None
    """The step of runs' checkpoints, or "all" for the curves of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """What an evaluation came to."""

    results: Results
    plan: Plan
    base: str
    """The name of the base."""


def sized(sampling: SamplingConfig, fitted: SamplingConfig) -> SamplingConfig:
    """Returns settings with the batches of `fitted`, which were made to fit into memory.

    The run's own limit stays: the reserved programs go by it.
    """
    sizes = {key: getattr(fitted, key) for key in ("batch_rows", "cache_tokens", "prefill_tokens")}
    return sampling.model_copy(update=sizes)


def evaluate_targets(
    targets: Sequence[str], members: str, model: str | None, wanted: EvalOptions, listener: Listener, report: Report
) -> EvaluationResult:
    """Evaluates the targets side by side. Raises UserError if a target, a benchmark or an option cannot be used."""
    _check(wanted)
    load_plugins(wanted.plugins)
    config, entrants = read_targets(targets, members, model, wanted.step, wanted.template)
    for line in warnings_about(targets, config.model.name):
        listener.warning(line)
    config = with_allowed(config, wanted.allowed)
    names, own = _asked(wanted.benchmarks, entrants, listener)
    if own or benchmark.NAME in names:
        check_asked(targets, wanted.max_tokens)
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier:
        # Data that are missing are known before a model is loaded.
        loaded = load_benchmarks(names, config.play_settings, verifier, wanted.data, wanted.limit)
        if own:
            loaded.append(load_own(config.play_settings, verifier, own, wanted.limit))
        template = wanted.template or form_of(config.model.prompts)
        _check_chat(config.model, loaded, template)
        longest = max(wanted.max_tokens or one.benchmark.max_tokens for one in loaded)
        fitted = fit(config.with_values("sampling", attempt_tokens=longest), len(entrants), listener)
        # What else a plan knows is about training.
        sampling = sized(config.sampling, fitted.sampling)
        config = config.model_copy(update={"sampling": sampling, "model": fitted.model})
        base = load(config.model)
        plan = Plan(
            template=template,
            samples=wanted.samples,
            temperature=wanted.temperature,
            max_tokens=wanted.max_tokens,
            base=fingerprint_of(base),
        )
        cache = wanted.out / EXPECTED if wanted.out else None
        with (
            SampleStore(wanted.out) as store,
            OpenGraders(verifier, cache) as graders,
        ):
            results = evaluate(base, config.engine_settings, entrants, loaded, plan, graders, store, report)
    return EvaluationResult(results=results, plan=plan, base=config.model.name)


def _check(wanted: EvalOptions) -> None:
    """Raises UserError for a number that no evaluation can do with: from Python nothing else has looked at them."""
    for name in ("limit", "samples", "max_tokens"):
        value: int | None = getattr(wanted, name)
        if value is not None and value < 1:
            raise UserError(f"{name}={value}: choose at least 1")
    if not 0 <= wanted.temperature < math.inf:
        raise UserError(f"temperature={wanted.temperature}: choose a number from 0 on")
    if wanted.samples > 1 and wanted.temperature == 0:
        raise UserError(f"samples={wanted.samples}: greedy answers are all the same; give a temperature too, e.g. 0.6")
    if wanted.benchmarks is not None and not wanted.benchmarks:
        raise UserError("no benchmark is named: name one or more, or leave them out")


def _asked(
    benchmarks: Sequence[str] | None, entrants: Sequence[Entrant], listener: Listener
) -> tuple[list[str], tuple[Task, ...]]:
    """Returns the names of what is asked beside the user's held-out tasks, and these.

    Raises UserError for a benchmark that there is not, and if the user's tasks are asked by name and cannot be.
    """
    if benchmarks is not None:
        names = chosen(benchmarks, of_runs=True)
        return [name for name in names if name != OWN], own_tasks(entrants) if OWN in names else ()
    try:
        return [benchmark.NAME], own_tasks(entrants)
    except UserError as error:
        # Most runs have none, and there is nothing to say of that.
        if any(entrant.own is not None for entrant in entrants):
            listener.note(f"only the reserved programs are asked: {error}")
        return [benchmark.NAME], ()


def _check_chat(model: ModelConfig, loaded: Sequence[ProblemSet], template: Template) -> None:
    """Raises ModelError, before the base is loaded, if a benchmark is posed as a chat that the base cannot have."""
    if all(one.benchmark.form(template) != "chat" for one in loaded):
        return
    # With chat prompts the tokenizer would be refused by another line, which names a setting of a run.
    if fault := chat_fault(read_tokenizer(model.model_copy(update={"prompts": "completion"}))):
        raise ModelError(f"{model.name} {fault}: use --template completion")
