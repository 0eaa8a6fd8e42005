"""Evaluates adapters side by side, on one base in memory: all of them in mixed batches, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redqueen.config import Config
from redqueen.engine.adapters.factors import Factors
from redqueen.engine.adapters.initialisation import fresh, generator
from redqueen.engine.adapters.peft_files import refit
from redqueen.engine.model.base import Base
from redqueen.engine.policy import Policy, open_policy
from redqueen.errors import AdapterError, UserError
from redqueen.evals.benchmarks.benchmark import ProblemSet
from redqueen.evals.graders.opened import OpenGraders
from redqueen.evals.runner import Plan, Player, Runner, digest
from redqueen.evals.samples import SampleStore
from redqueen.evals.scores import Results, ScoreEntry
from redqueen.evals.targets import Entrant

SEED = 0
Report = Callable[[str, int, int], None]
"""Is told what is evaluated, and how many of how many samples are done."""


def evaluate(
    base: Base,
    config: Config,
    entrants: Sequence[Entrant],
    benchmarks: Sequence[ProblemSet],
    plan: Plan,
    graders: OpenGraders,
    store: SampleStore,
    report: Report,
) -> Results:
    """Returns the results of all entrants on all benchmarks; what the store has is not sampled again.

    Raises UserError if a run was made on other weights than `base` has, AdapterError if an adapter does not fit it.
    """
    for entrant in entrants:
        if entrant.fingerprint not in (None, plan.base):
            raise UserError(
                f"{entrant.target} was made on other weights than {config.model.name} has in {config.model.dtype}"
            )
    # One bank holds adapters of one rank. The largest fits all without a change of any adapter's update.
    ranks = [_rank(entrant, config.model.rank) for entrant in entrants]
    model = config.model.model_copy(update={"rank": max(ranks)})
    entries = [
        ScoreEntry(target=entrant.target, member=entrant.member, single_agent=entrant.single_agent, step=entrant.step)
        for entrant in entrants
    ]
    results = Results(entries, benchmarks)
    with open_policy(base, model, len(entrants), config.sampling, config.learning) as policy:
        players: list[Player] = []
        for number, entrant in enumerate(entrants):
            name = f"{number}"
            policy.join(name, _fitted(entrant, policy, model.rank, model.alpha / model.rank), trained=False)
            weights = digest(entrant.adapter, entrant.alpha)
            players.append(Player(name=name, adapter=weights, label=entries[number].label))
        runner = Runner(plan, policy, graders, store)
        for loaded in benchmarks:
            title = loaded.benchmark.title

            def progress(done: int, total: int, title: str = title) -> None:
                report(title, done, total)

            results.add(loaded, runner.run(loaded, players, progress))
    return results


def _rank(entrant: Entrant, of_the_base: int) -> int:
    if entrant.adapter is None:
        return of_the_base
    return next(iter(entrant.adapter.values())).a.shape[1]


def _fitted(entrant: Entrant, policy: Policy, rank: int, scale: float) -> dict[str, Factors]:
    """Returns the entrant's update of the weights as an adapter of this rank and scale."""
    noise = generator(SEED, "fresh")
    shapes = policy.shapes()
    if entrant.adapter is None:
        # The matrix b of a fresh adapter is zero: it leaves the base as it is.
        return fresh(shapes, rank, noise)
    if entrant.adapter.keys() != shapes.keys():
        raise AdapterError(f"{entrant.target} was made for another base or other model.targets")
    own_rank = next(iter(entrant.adapter.values())).a.shape[1]
    return refit(entrant.adapter, entrant.alpha / own_rank, rank, scale, noise)
