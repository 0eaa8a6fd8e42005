"""What the students solve of held-out problems while a run goes on, beside the adapter that they started from.

It is logged, and nothing is selected by it. A problem is attempted and sampled as in the game, since that
is what training changes first and most: greedy scores, and several attempts, are for `redqueen eval --step all`.
Problems and random numbers are the same each time, so a difference from the start is paired, problem by problem.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from redqueen.config import EvalsConfig, LeagueConfig, PlaySettings
from redqueen.evals.benchmark import HALF, ProblemSet, form_of, load_own
from redqueen.evals.grader import OpenGraders
from redqueen.evals.held_out import HeldOutAnswer
from redqueen.evals.registry import chosen, load_benchmarks
from redqueen.evals.runner import Plan, Player, Runner
from redqueen.evals.samples import SampleStore
from redqueen.records import Progress, Sampler, Task, Verifier
from redqueen.tasks.kinds import held_out_kinds


def load_held_out(
    evals: EvalsConfig, league: LeagueConfig, settings: PlaySettings, verifier: Verifier
) -> list[ProblemSet]:
    """Returns the problems of `evals.benchmarks`. Raises UserError if one is not known or its data cannot be had."""
    folder = Path(evals.data) if evals.data else None
    # The order of the kinds decides which problems a limit leaves, so it is the same for all runs.
    kinds = sorted(held_out_kinds(settings.game.kinds))
    # Where students are selected by one half of the reserved programs, that half is no longer held out.
    half = HALF if league.student_fitness == "held_out" else None
    return load_benchmarks(chosen(evals.benchmarks), settings, verifier, folder, evals.limit, kinds, half)


def checksum(benchmarks: Sequence[ProblemSet]) -> str:
    """Returns what tells these problems from others, in few characters."""
    # A file has the same checksum whatever the limit is, so the problems are named too.
    content = [[one.benchmark.name, one.sha256, [problem.id for problem in one.problems]] for one in benchmarks]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


class TrainingEvaluation:
    """Holds the problems and the graders of `evals.benchmarks`."""

    def __init__(
        self,
        evals: EvalsConfig,
        league: LeagueConfig,
        settings: PlaySettings,
        sampler: Sampler,
        verifier: Verifier,
        base: str,
    ) -> None:
        """Loads the problems. `base` is the checksum of the base's weights.

        Raises UserError if a benchmark is not known or its data cannot be had.
        """
        self.limit = evals.limit
        self.settings = settings
        self.verifier = verifier
        self.loaded = load_held_out(evals, league, settings, verifier)
        self.asked = checksum(self.loaded)
        """Is the same in two runs that are asked the same problems, whatever either is asked of its user's own."""
        self.plan = Plan(
            template=form_of(settings.prompts),
            samples=1,
            temperature=settings.sampling.temperature,
            top_p=settings.sampling.top_p,
            top_k=settings.sampling.top_k,
            max_tokens=evals.max_tokens or None,
            base=base,
        )
        self.sampler = sampler
        self.graders = OpenGraders(verifier)

    def add_own(self, tasks: Sequence[Task]) -> None:
        """Also asks the user's held-out tasks, as far as `evals.limit` allows."""
        self.loaded.append(load_own(self.settings, self.verifier, tasks, self.limit))

    def answers(self, members: Sequence[str], progress: Progress) -> list[HeldOutAnswer]:
        """Returns each member's answer to each problem, by benchmark and then by member."""
        # The weights of a name change from step to step, so no sample is kept for later.
        players = [Player(name=name, adapter=name, label=name) for name in members]
        answers: list[HeldOutAnswer] = []
        with SampleStore(None) as store:
            runner = Runner(self.plan, self.sampler, self.graders, store)
            for loaded in self.loaded:
                for member, rows in zip(members, runner.run(loaded, players, progress), strict=True):
                    answers += [
                        HeldOutAnswer(
                            member=member,
                            benchmark=row.benchmark,
                            problem=row.problem,
                            text=row.text,
                            status=row.status,
                            tokens=row.tokens,
                            cut_off=bool(row.cut_off),
                        )
                        for row in rows
                    ]
        return answers

    def close(self) -> None:
        self.graders.close()
