"""Lets members answer the problems of benchmarks: all members in mixed batches, each text graded as it ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import product

from redqueen import __version__
from redqueen.base.futures import finished
from redqueen.config import EngineSettings
from redqueen.engine.adapters import Adapter, Factors, fresh, generator, refit
from redqueen.engine.model.base import Base
from redqueen.engine.policy import Policy, open_policy
from redqueen.errors import AdapterError, UserError
from redqueen.evals.benchmark import Benchmark, Form, ProblemSet, Template, own_code
from redqueen.evals.grader import Grader, OpenGraders, Problem
from redqueen.evals.samples import SampleRow, SampleStore
from redqueen.evals.scores import Results, ScoreEntry
from redqueen.evals.targets import Entrant
from redqueen.method.judging import ask, cut_off
from redqueen.records import Completion, Progress, Request, Sampler, SamplingParams, Verdict

SEED = 0
"""Names the random numbers of the samples. All members draw the same ones at one problem."""
WAVE = 384
"""About how many samples are made and stored together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How every benchmark is sampled."""

    template: Template
    samples: int
    """How many answers each member gives to each problem."""
    temperature: float
    max_tokens: int | None
    """The most tokens of an answer; None: each benchmark's own number."""
    base: str
    """SHA-256 of the base's weights."""
    top_p: float = 1.0
    """As `SamplingParams` has it, and `top_k` too."""
    top_k: int = 0

    def sampling(self, benchmark: Benchmark) -> SamplingParams:
        return SamplingParams(
            max_tokens=self.max_tokens or benchmark.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """One adapter that answers."""

    name: str
    """Its name in the policy."""
    adapter: str
    """The checksum of its weights."""
    label: str
    """The target and the member, for people."""


Place = tuple[Problem, int, Player]
"""A problem, the number of the sample, and who makes it."""


def digest(adapter: Adapter | None, alpha: float) -> str:
    """Returns a checksum of an adapter's update; "base" without an adapter."""
    if adapter is None:
        return "base"
    total = hashlib.sha256(repr(alpha).encode())
    for name in sorted(adapter):
        total.update(name.encode())
        for matrix in (adapter[name].a, adapter[name].b):
            total.update(matrix.detach().float().contiguous().numpy().tobytes())
    return total.hexdigest()[:24]


class Runner:
    """Samples what is missing in a store, and grades it."""

    def __init__(self, plan: Plan, sampler: Sampler, graders: OpenGraders, store: SampleStore) -> None:
        self.plan = plan
        self.sampler = sampler
        self.graders = graders
        self.store = store

    def run(
        self, loaded: ProblemSet, players: Sequence[Player], progress: Progress | None = None
    ) -> list[list[SampleRow]]:
        """Returns the samples of each player, by problem and number; those that were there are among them."""
        settings = self.settings(loaded)
        done = self.store.finished(settings, loaded.benchmark.name)
        # Equal adapters answer once.
        distinct = list({player.adapter: player for player in players}.values())
        count = len(distinct) * self.plan.samples
        # In 16 bits a product rounds by its place in the batch, and then a greedy text may go on with another word. So
        # a wave is stored as a whole: after a kill the next waves are those that there would have been.
        size = max(1, WAVE // count)
        total = len(loaded.problems) * count
        for start in range(0, len(loaded.problems), size):
            wave = loaded.problems[start : start + size]
            # Players take turns in the requests, so that they are sampled side by side in mixed batches.
            places: list[Place] = []
            for problem, number, player in product(wave, range(self.plan.samples), distinct):
                if (player.adapter, problem.id, number) not in done:
                    places.append((problem, number, player))
            before = min(start + size, len(loaded.problems)) * count - len(places)
            for row in self._sample(settings, loaded, places, _shifted(progress, before, total)):
                done[row.adapter, row.problem, row.number] = row
        samples: list[list[SampleRow]] = []
        for player in players:
            keys = product([player.adapter], [problem.id for problem in loaded.problems], range(self.plan.samples))
            samples.append([done[key] for key in keys])
        return samples

    def settings(self, loaded: ProblemSet) -> dict[str, str]:
        """Returns by problem the checksum of what its samples and their verdicts depend on, but for the adapter."""
        benchmark = loaded.benchmark
        form = benchmark.form(self.plan.template)
        # The limit is not in it: more problems may be added. So each task of the reserved programs, which have no file,
        # stands for itself. The release judges.
        in_rows = bool(benchmark.source.files or benchmark.source.made)
        data = loaded.sha256 if in_rows else loaded.origin
        sampling = repr(self.plan.sampling(benchmark))
        shared = [__version__, self.plan.base, data, sampling, SEED, *own_code(benchmark)]
        settings: dict[str, str] = {}
        for problem in loaded.problems:
            own = [repr(benchmark.pose(problem, form)), "" if in_rows else repr(problem.data)]
            settings[problem.id] = hashlib.sha256(json.dumps([*shared, *own]).encode()).hexdigest()[:24]
        return settings

    def _sample(
        self, settings: Mapping[str, str], loaded: ProblemSet, places: Sequence[Place], progress: Progress | None
    ) -> list[SampleRow]:
        benchmark = loaded.benchmark
        if not places:
            return []
        form = benchmark.form(self.plan.template)
        sampling = self.plan.sampling(benchmark)
        grader = self.graders.get(benchmark.grader)
        prompts = {problem.id: benchmark.pose(problem, form) for problem, _, _ in places}
        requests = [
            Request(
                member=player.name,
                prompt=prompts[problem.id],
                sampling=sampling,
                seed=(SEED, "eval", benchmark.name, problem.id, number),
            )
            for problem, number, player in places
        ]
        answers: dict[int, str | None] = {}

        def submit(index: int, completion: Completion) -> Future[Verdict]:
            answers[index], verdict = judge(benchmark, grader, places[index][0], form, completion)
            return verdict

        rows: list[SampleRow] = []
        for index, (completion, verdict) in enumerate(ask(self.sampler, requests, submit, progress)):
            problem, number, player = places[index]
            row = SampleRow(
                setting=settings[problem.id],
                adapter=player.adapter,
                benchmark=benchmark.name,
                problem=problem.id,
                number=number,
                label=player.label,
                text=completion.text,
                answer=answers[index],
                status=verdict.status,
                detail=verdict.detail,
                tokens=len(completion.token_ids),
                cut_off=int(completion.finish_reason == "length"),
            )
            rows.append(row)
        self.store.add(rows)
        return rows


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Returns the progress of a wave as that of the whole benchmark."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def judge(
    benchmark: Benchmark, grader: Grader, problem: Problem, form: Form, completion: Completion
) -> tuple[str | None, Future[Verdict]]:
    """Returns the answer in a text, and the verdict on it to come."""
    verdict = cut_off(completion) if benchmark.cut_off_is_malformed else None
    if verdict is not None:
        return None, finished(verdict)
    answer = benchmark.read(problem, form, completion.text)
    if answer is None:
        return None, finished(Verdict("malformed", detail="no answer"))
    return answer, grader.submit(problem, answer)


# Evaluates adapters side by side, on one base in memory: all of them in mixed batches, benchmark by benchmark.

Report = Callable[[str, int, int], None]
"""Is told what is evaluated, and how many of how many samples are done."""


def evaluate(
    base: Base,
    settings: EngineSettings,
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
    model = settings.model
    for entrant in entrants:
        if entrant.fingerprint not in (None, plan.base):
            raise UserError(f"{entrant.target} was made on other weights than {model.name} has in {model.dtype}")
    # One bank holds adapters of one rank. The largest fits all without a change of any adapter's update.
    model = model.model_copy(update={"rank": max(_rank(entrant, model.rank) for entrant in entrants)})
    entries = [
        ScoreEntry(target=entrant.target, member=entrant.member, single_agent=entrant.single_agent, step=entrant.step)
        for entrant in entrants
    ]
    results = Results(entries, benchmarks)
    with open_policy(base, replace(settings, model=model), len(entrants)) as policy:
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
    noise = generator(0, "fresh")
    shapes = policy.shapes()
    if entrant.adapter is None:
        # The matrix b of a fresh adapter is zero: it leaves the base as it is.
        return fresh(shapes, rank, noise)
    if entrant.adapter.keys() != shapes.keys():
        raise AdapterError(f"{entrant.target} was made for another base or other model.targets")
    own_rank = next(iter(entrant.adapter.values())).a.shape[1]
    return refit(entrant.adapter, entrant.alpha / own_rank, rank, scale, noise)
