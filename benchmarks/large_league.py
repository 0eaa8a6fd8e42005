"""A step of a large league: the seconds of everything that is neither sampling nor training, in one process.

The step is the real one (`redqueen.run.trainer.Trainer.step`, with records and without a checkpoint). Texts, verdicts
and updates are drawn instead of being computed, because machines elsewhere would compute them: a policy that answers at
once, and a verifier whose answers are ready. Programs are pairs of seed programs, so nearly all of them are new.
Children are made of tiny adapters; what one costs at the size of a real base is what `benchmarks operators` measures.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch

from benchmarks.report import Report, finish, log
from redqueen.base import streams
from redqueen.base.futures import finished
from redqueen.config import PlaySettings
from redqueen.config.recipes import recipe
from redqueen.engine.adapters import Adapter, Factors
from redqueen.engine.model.base import BaseFacts
from redqueen.engine.policy import Policy
from redqueen.engine.work import Work
from redqueen.method.planting import seed_tasks
from redqueen.method.prompts import prompts
from redqueen.method.verifier import LocalVerifier
from redqueen.records import (
    ROLES,
    Answer,
    Completion,
    MemberUpdate,
    Pair,
    Proposal,
    Request,
    Sample,
    Task,
    Verdict,
    Verifier,
)
from redqueen.run.trainer import Trainer
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import find
from redqueen.tasks.python import PYTHON

_VALID = 0.8
"""The share of proposals that are valid."""
_TOKENS = 256
"""Tokens of every text. Only their count matters here."""
COLUMNS = (("phase", "phase"), ("s", "median, s"), ("rounds", "s in each step"))


class _Texts:
    """Answers every request at once. It is the sampler and the policy of the league."""

    def __init__(self, settings: PlaySettings, seeds: Sequence[Task]) -> None:
        self.seeds = seeds
        self.format = prompts(settings.prompts, settings.game)
        self.rng = streams.python(settings.seed, "large league")
        self.ids = tuple(range(_TOKENS))
        self.logprobs = (-0.5,) * _TOKENS
        factors = Factors(torch.zeros(4, 2), torch.zeros(2, 4))
        self.weights: Adapter = {"layer": factors}
        self.proposals = [self._proposal(number) for number in range(4096)]

    def _proposal(self, number: int) -> dict[str, str]:
        """Returns the text of a proposal by kind."""
        first, second = self.rng.sample(self.seeds, 2)
        helper = second.program.replace("def f(", f"def g{number}(")
        task = Task(
            id="",
            kind="code_o",
            author="",
            step=0,
            program=f"{first.program}\n\n{helper}",
            pairs=first.pairs[:1],
        )
        examples = Task(
            id="", kind="code_f", author="", step=0, program="", pairs=first.pairs, message=first.message or "message"
        )
        text = self.format.write_proposal(task)
        return {"code_o": text, "code_i": text, "code_f": self.format.write_proposal(examples)}

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        completions = [self._completion(request) for request in requests]
        if on_completion is not None:
            for index, completion in enumerate(completions):
                on_completion(index, completion)
        return completions

    def _completion(self, request: Request) -> Completion:
        purpose, name = request.seed[1:3]
        text = "<answer>\n```output\n1\n```\n"
        if purpose == "proposal":
            text = self.rng.choice(self.proposals)[str(name).split(".")[2]]
        return Completion(
            member=request.member,
            version=1,
            prompt_ids=self.ids,
            token_ids=self.ids,
            logprobs=self.logprobs,
            text=text,
            finish_reason="stop",
        )

    def update(self, samples: Sequence[Sample], *_: object) -> list[MemberUpdate]:
        """Returns an update of every member that has samples; nothing is computed."""
        members = dict.fromkeys(sample.member for sample in samples)
        return [
            MemberUpdate(member=name, loss=0.0, grad_norm=1.0, adapter_norm=1.0, logprob_gap=0.0, tokens=_TOKENS)
            for name in members
        ]

    def take_work(self) -> Work:
        """Returns that nothing was computed."""
        return Work()

    def adapter(self, name: str) -> Adapter:
        """Returns a member's weights, which are the same for all."""
        del name
        return self.weights

    def join(self, *_: object, **__: object) -> None:
        """Does nothing: members have no weights here."""

    def leave(self, *_: object) -> None:
        """Does nothing: members have no weights here."""


class _Verdicts:
    """Judges at once, by chance: nothing is run. The outputs of all programs are 1."""

    def __init__(self, seed: int) -> None:
        self.rng = streams.python(seed, "large league", "verdicts")

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Returns a task with as many pairs as the draft has inputs, or an error in one case of five."""
        if self.rng.random() > _VALID:
            return finished((Verdict("error", detail="ValueError at line 2"), None))
        draft = proposal.draft
        task = Task(
            id=proposal.id,
            kind=proposal.kind,
            author=proposal.author,
            step=proposal.step,
            program=draft.program,
            pairs=tuple(Pair(text, "1") for text in draft.inputs),
            message=draft.message,
        )
        return finished((Verdict("valid", output="1", cpu_ms=1.0), task))

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        """Returns right or wrong, with even chances."""
        del answer
        return finished(Verdict(self.rng.choice(("correct", "wrong")), output="1", cpu_ms=1.0))

    def run(self, program: str, inputs: tuple[str, ...], cpu_s: float) -> Future[tuple[str, ...]]:
        """Returns 1 for each input, in the form of a call that ended."""
        del program, cpu_s
        return finished(("(True, 1)",) * len(inputs))


class _LargeLeague(Trainer):
    """A run whose members are everywhere else: all of the trainer but its policy and its verifier."""

    def __init__(self, seeds: Sequence[Task], directory: RunDirectory) -> None:
        config = directory.config()
        players = cast(Policy, _Texts(config.play_settings, seeds))
        base = BaseFacts(name="none", fingerprint="", device="cpu", dtype="float32")
        super().__init__(config, players, base, cast(Verifier, _Verdicts(config.run.seed)), directory)
        for role in ROLES:
            for _ in range(config.population.teachers):
                self.population.add_member(role, 0)
        for task in seeds:
            for kind in dict.fromkeys(config.game.kinds):
                posed = find(kind).of_program(task)
                if posed is not None:
                    self.self_play.task_bank.add(posed, None)
        self.archive.begin(self.population.members.values(), ())


def run_bench_large_league(members: int, proposals: int, steps: int, profile: bool, *, as_json: bool) -> int:
    """Plays steps of a league of `members` teachers and as many students; prints the report, returns the exit code."""
    config = recipe("paper_7b").override(
        [
            f"population.teachers={members}",
            f"population.students={members}",
            f"game.proposals={proposals}",
            "game.min_inputs=2",
            "evolution.every=1",
            "evolution.gamma=0.025",
            "evolution.burn_in=0",
            "evals.every=0",
        ]
    )
    report = Report("large-league", {"members": [members, members], "proposals": proposals, "steps": steps})
    log("judging the seed programs ...")
    with LocalVerifier(config.sandbox) as verifier:
        seeds = seed_tasks(verifier, PYTHON, range(400))
    profiler = cProfile.Profile()
    seconds: dict[str, list[float]] = {}
    with TemporaryDirectory(prefix="redqueen-bench-") as scratch:
        directory = RunDirectory(Path(scratch) / "run")
        directory.create(config, {})
        league = _LargeLeague(seeds, directory)
        for step in range(1, steps + 1):
            log(f"step {step} ...")
            if profile:
                profiler.enable()
            _play(league, step, seconds)
            profiler.disable()
        report.settings["attempts"] = _attempts(directory)
        league.archive.close()
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    report.results = [
        {"case": "a step", "phase": phase, "s": round(median(values), 2), "rounds": [round(s, 2) for s in values]}
        for phase, values in seconds.items()
    ]
    return finish(report, COLUMNS, as_json)


def _play(league: _LargeLeague, step: int, seconds: dict[str, list[float]]) -> None:
    """Plays and records one step, and notes the seconds of its phases."""
    began = time.perf_counter()
    record = league.step(step)
    played = time.perf_counter()
    league.archive.record(record)
    archived = time.perf_counter()
    league.metrics.record(record)
    ended = time.perf_counter()
    times: dict[str, Any] = {**record.seconds}
    # The trainer measures the tasks after its last phase.
    times["measures"] = played - began - times.pop("total")
    times["archive"] = archived - played
    times["metrics"] = ended - archived
    times["all"] = ended - began
    for phase, value in times.items():
        seconds.setdefault(phase, []).append(value)


def _attempts(directory: RunDirectory) -> int:
    """Returns how many attempts the archive holds."""
    with ArchiveReader(directory.archive) as reader:
        return reader.connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
