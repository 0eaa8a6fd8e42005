"""A small evaluation of the living students while a run goes on: it is logged, and nothing is selected by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from redqueen.config import Config
from redqueen.evals.benchmarks.benchmark import form_of
from redqueen.evals.benchmarks.registry import chosen, load_benchmarks
from redqueen.evals.graders.opened import OpenGraders
from redqueen.evals.runner import Plan, Player, Runner
from redqueen.evals.samples import SampleStore
from redqueen.evals.scores import Entry, Results
from redqueen.judging import Progress
from redqueen.records import Sampler, Verifier


class TrainingEvaluation:
    """Holds the problems and the graders of `evals.benchmarks`."""

    def __init__(self, config: Config, sampler: Sampler, verifier: Verifier, base: str) -> None:
        """Loads the problems. `base` is the checksum of the base's weights.

        Raises UserError if a benchmark is not known or its data cannot be had.
        """
        evals = config.evals
        folder = Path(evals.data) if evals.data else None
        self.loaded = load_benchmarks(chosen(evals.benchmarks), config, verifier, folder, evals.limit)
        self.plan = Plan(
            template=form_of(config.model.prompts),
            samples=1,
            temperature=0.0,
            max_tokens=evals.max_tokens or None,
            base=base,
        )
        self.sampler = sampler
        self.graders = OpenGraders(verifier)

    def rates(self, members: Sequence[str], progress: Progress) -> Mapping[str, Mapping[str, float | None]]:
        """Returns each member's share of right answers by benchmark; None where nothing was judged."""
        # The weights of a name change from step to step, so no sample is kept for later.
        players = [Player(name=name, adapter=name, label=name) for name in members]
        entries = [Entry(target="", member=name) for name in members]
        results = Results(entries, self.loaded)
        with SampleStore(None) as store:
            runner = Runner(self.plan, self.sampler, self.graders, store)
            for loaded in self.loaded:
                results.add(loaded, runner.run(loaded, players, progress))
        found: dict[str, dict[str, float | None]] = {}
        for name, cells in results.cells.items():
            found[name] = {
                member: cell.rate.mean if cell.rate else None for member, cell in zip(members, cells, strict=True)
            }
        return found

    def close(self) -> None:
        """Ends the graders."""
        self.graders.close()
