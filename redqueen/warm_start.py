"""The warm start: a short supervised fit of one adapter on verified tasks, so that members begin by playing.

Round 0 learns from the seed programs. Each further round lets the adapter propose, keeps what the verifier accepts
(its outputs are the truth, so no answer has to be trusted), and continues on seeds and own tasks together.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

from redqueen import streams
from redqueen.adapters.factors import Factors
from redqueen.adapters.initialisation import fresh, generator
from redqueen.config import Config
from redqueen.game.prompts import Prompts, prompts
from redqueen.policy.model.base import Base
from redqueen.policy.model.tokens import encode
from redqueen.policy.policy import open_policy
from redqueen.programs.normal_form import fingerprint
from redqueen.records import KINDS, Completion, Draft, Kind, Prompt, Proposal, Request, Sample, Task, Verifier
from redqueen.self_play import seed_tasks

MEMBER = "warm"
Report = Callable[[str, int, int], None]


def varied(task: Task, kind: Kind, rng: random.Random) -> Task:
    """A task of `kind` from one with several pairs: code_f keeps up to 8 in a new order, the other kinds one."""
    if kind == "code_f":
        task = replace(task, pairs=tuple(rng.sample(task.pairs, min(len(task.pairs), 8))))
    return task.as_kind(kind, rng)


class Warmup:
    """Fits the member "warm". `config` gives model, prompts and game; the learning rate is its own."""

    def __init__(self, base: Base, verifier: Verifier, config: Config, lr: float, report: Report) -> None:
        self.base, self.verifier, self.config, self.lr, self.report = base, verifier, config, lr, report
        model = config.model
        # every sequence counts the same: answers are a few tokens, proposals dozens
        learning = config.learning.model_copy(update={"loss": "sequence_mean", "lr": lr})
        # Supervised targets were not sampled at any temperature, so the fit is of the distribution at 1.
        self.policy = open_policy(base, model, 1, config.sampling, learning, temperature=1.0)
        self.policy.join(MEMBER, fresh(self.policy.shapes(), model.rank, generator(config.run.seed, "fresh")))
        self.format: Prompts = prompts(model.prompts, config.game)
        self.tasks = seed_tasks(verifier)
        self.own: dict[Kind, list[Task]] = {kind: [] for kind in KINDS}

    def fit(self, round_: int, steps: int, sequences: int) -> None:
        """`steps` optimizer steps of `sequences` each; the learning rate rises for a tenth, then falls to a tenth."""
        for step in range(steps):
            share = step / steps
            rate = self.lr * min((step + 1) / max(1, steps // 10), 1 - 0.9 * share)
            rng = streams.python(self.config.run.seed, "warmup", round_, step)
            update = self.policy.update([self._sequence(rng) for _ in range(sequences)], lr=rate)[0]
            self.report(f"round {round_}: loss {update.loss:.3f}", step + 1, steps)

    def explore(self, round_: int, count: int) -> dict[str, int]:
        """Samples `count` proposals of each kind and keeps the valid ones; counts of every status."""
        statuses: dict[str, int] = {}
        seen = {kind: {_name(task) for task in [*self.tasks, *self.own[kind]]} for kind in KINDS}
        for k, kind in enumerate(KINDS):
            proposals, unread = self._propose(kind, count, round_)
            statuses["unread"] = statuses.get("unread", 0) + unread
            for verdict, task in self.verifier.validate(proposals):
                statuses[verdict.status] = statuses.get(verdict.status, 0) + 1
                # a kind's new programs only; code_f describes programs that are there already
                if task is not None and (kind == "code_f" or _name(task) not in seen[kind]):
                    seen[kind].add(_name(task))
                    self.own[kind].append(task)
            self.report(f"round {round_}: proposals {statuses}", k + 1, len(KINDS))
        return statuses

    def adapter(self) -> dict[str, Factors]:
        return self.policy.adapter(MEMBER)

    def close(self) -> None:
        """Ends the worker processes, if there are any."""
        self.policy.close()

    def _propose(self, kind: Kind, count: int, round_: int) -> tuple[list[Proposal], int]:
        asked: list[tuple[Prompt, Task | None]] = []
        for i in range(count):
            rng = streams.python(self.config.run.seed, "explore", round_, kind, i)
            start = self._program(rng) if kind == "code_f" else None
            asked.append((self.format.propose(kind, self._references(kind, rng), start), start))
        sampling = self.config.sampling.params(self.config.sampling.proposal_tokens)
        requests = [
            Request(
                member=MEMBER,
                prompt=prompt,
                sampling=sampling,
                seed=(self.config.run.seed, "explore", round_, kind, i, "sample"),
            )
            for i, (prompt, _) in enumerate(asked)
        ]
        done = itertools.count(1)

        def report(_index: int, _completion: Completion) -> None:
            self.report(f"round {round_}: sampling {kind}", next(done), count)

        completions = self.policy.sample(requests, report)
        read = [
            self.format.read_proposal(kind, c.text, start) for c, (_, start) in zip(completions, asked, strict=True)
        ]
        drafts = [draft for draft in read if isinstance(draft, Draft)]
        proposals = [
            Proposal(id=f"{round_}-{kind}-{i}", kind=kind, author=MEMBER, step=round_, draft=d)
            for i, d in enumerate(drafts)
        ]
        return proposals, len(read) - len(drafts)

    def _program(self, rng: random.Random) -> Task:
        return rng.choice(self.tasks + self.own["code_o"] + self.own["code_i"])

    def _references(self, kind: Kind, rng: random.Random) -> list[Task]:
        return [varied(task, kind, rng) for task in rng.sample(self.tasks, self.config.game.references)]

    def _task(self, kind: Kind, rng: random.Random) -> Task:
        """A seed task, or, half of the time, one of its own."""
        if self.own[kind] and rng.random() < 0.5:
            task = rng.choice(self.own[kind])
            return varied(task, kind, rng) if kind == "code_f" else task
        return varied(rng.choice(self.tasks), kind, rng)

    def _sequence(self, rng: random.Random) -> Sample:
        """A worked proposal (a quarter) or a worked answer, with advantage 1."""
        kind = rng.choice(KINDS)
        task = self._task(kind, rng)
        if rng.random() < 0.25:
            start = task if kind == "code_f" else None
            prompt = self.format.propose(kind, self._references(kind, rng), start)
            whole = self.format.write_proposal(task)
        else:
            prompt, whole = self.format.attempt(task, ()), self.format.write_attempt(task)
        target = whole.removeprefix(prompt.prefix) + prompt.stop[0]
        tokens = tuple(self.base.tokenizer(target, add_special_tokens=False).input_ids)
        return Sample(
            member=MEMBER,
            prompt_ids=encode(self.base.tokenizer, prompt),
            token_ids=tokens,
            logprobs=(0.0,) * len(tokens),
            advantage=1.0,
        )


def _name(task: Task) -> str:
    return fingerprint(task.program)
