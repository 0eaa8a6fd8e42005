"""`python -m benchmarks train`: one joint update of all members, compared with PEFT and populora.

The main peer is one PEFT adapter over the same tokens; the others are ways to train several adapters.

Every contender computes the same loss with the same chunked log-probabilities (`workload.loss`), so that only adapters
and backbone differ. A step is forward, backward and optimizer (fused AdamW); the optimizer's part is also reported. Our
master weights and moments are fp32. The peers' have the base's dtype, which is cheaper where that is bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks import system, workload
from benchmarks.peers import ATTENTIONS, Attention, Missing, Peft, Populora, plain
from benchmarks.report import Report, against, finish, log, times
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns
from benchmarks.workload import Batch
from redqueen.records import Sample

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("cpu_ms", "step, CPU ms"),
    ("optimizer_cpu_ms", "of it optimizer"),
    ("wall_ms", "step, wall ms"),
)
ATTEMPT = (128, 32)
"""Tokens of a prompt that is shared, and of each attempt."""
OURS, ONE = "Red Queen", "PEFT, one adapter"


@dataclass(frozen=True, slots=True)
class Case:
    """One workload: rows of equal length, half of whose tokens are scored."""

    name: str
    width: int
    """Input tokens of each row."""
    shares: list[int]
    """Rows of each member."""
    target: str
    """The target of the ratio to one PEFT adapter; may be empty."""

    def samples(self, vocabulary: int) -> list[Sample]:
        """Returns the samples of all members."""
        half = self.width // 2
        return workload.samples(vocabulary, workload.owners(self.shares), self.width + 1 - half, half)


def cases(tokens: Sequence[int], members: int) -> list[Case]:
    """Returns equal groups for each size in `tokens`, and unequal groups for the largest size.

    Equal groups have two rows for each member, or one below 1024 tokens.
    """
    aims = {2048: "<= 1.03", 512: "<= 1.05"}
    # Small groups are the hard case for a joint update: the products of each member's few rows are small, and one
    # adapter over all rows has large ones. Unequal groups are what a run has.
    made: list[Case] = []
    for count in tokens:
        rows = members * (2 if count >= 1024 else 1)
        made.append(
            Case(f"{count} tokens, equal groups", count // rows, workload.equal(rows, members), aims.get(count, ""))
        )
    largest = max(tokens)
    rows = 2 * members
    shares = workload.half_for_one(rows, members)
    made.append(Case(f"{largest} tokens, one member has half", largest // rows, shares, "<= 1.08"))
    return made


def run_bench_train(
    config: BenchmarkConfig, members: int, tokens: Sequence[int], attempts: int, rounds: int, *, as_json: bool
) -> int:
    """Measures and prints the report; returns the exit code."""
    report = Report("train", {**asdict(config), "members": members, "rounds": rounds})
    log("loading")
    models = Contenders(config, members, report)
    for case in cases(tokens, members):
        samples = case.samples(models.vocabulary)
        contenders = models.contenders(samples)
        take_turns(contenders, rounds, log, case.name)
        # The reference is one PEFT adapter with the faster of two attentions. The choice falls after the measurement,
        # on the medians, so that it favours the peer.
        singles = [contender for contender in contenders if contender.name.startswith(ONE)]
        reference = min(singles, key=lambda single: median(turn.cpu_s for turn in single.turns))
        report.results += [_row(case.name, contender, reference) for contender in contenders]
        ours = contenders[0]
        what = f"{case.name}: {members} members jointly / {ONE}"
        report.ratio(f"{what}, whole step", against(ours, reference, lambda t: t.cpu_s), case.target)
        report.ratio(f"{what}, forward and backward", against(ours, reference, _passes), case.target)
    _attempts(models, members, attempts, rounds, report)
    return finish(report, COLUMNS, as_json)


class Contenders:
    """Us and the peers, loaded once for all cases."""

    def __init__(self, config: BenchmarkConfig, members: int, report: Report) -> None:
        self.ours = system.build(config, members)
        self.vocabulary = int(self.ours.base.model.config.vocab_size)
        adapters = {workload.name(i): system.adapter(self.ours, i) for i in range(members)}
        self.bare = plain(config)
        self.one = Peft(config, {"m0": adapters["m0"]})
        self.many = Peft(config, adapters)
        self.populora: Populora | None = None
        try:
            self.populora = Populora(config, adapters)
        except Missing as why:
            report.unavailable("populora", why)

    def contenders(self, samples: Sequence[Sample]) -> list[Contender]:
        """Returns the contenders, all over the same tokens: ours first, then the peers' ways."""
        batch = workload.batch(samples)
        head_VH = self.many.head_VH
        best = self._faster_attention(batch)
        self.bare.set_attn_implementation(best)
        self.many.attention(best)

        def bare() -> None:
            workload.loss(self._bare_backbone, head_VH, batch).backward()

        def mixed() -> None:
            workload.loss(partial(self.many.mixed, batch.members), head_VH, batch).backward()

        found = [
            Contender(f"{OURS}, jointly", lambda: system.update(self.ours, samples)),
            *(Contender(f"{ONE} ({kind})", self._single(batch, kind)) for kind in ATTENTIONS),
            Contender(f"no adapter ({best})", lambda: _step(bare, None)),
            Contender(f"PEFT, set_adapter in turn ({best})", self._in_turn(batch)),
            Contender(f"PEFT, mixed batch ({best})", lambda: _step(mixed, self.many.optimizer)),
        ]
        if self.populora is not None:
            self.populora.model.set_attn_implementation(best)
            found.append(Contender(f"populora, jointly ({best})", self._population(self.populora, batch)))
        return found

    def _faster_attention(self, batch: Batch) -> Attention:
        """Returns the faster attention for the peers at this size, by two turns each after one that does not count."""
        turns = {kind: self._single(batch, kind) for kind in ATTENTIONS}
        for turn in turns.values():
            turn()
        return min(ATTENTIONS, key=lambda kind: min(turns[kind]().cpu_s for _ in range(2)))

    def _single(self, batch: Batch, kind: Attention) -> Callable[[], Timing]:
        def passes() -> None:
            workload.loss(self.one.backbone, self.one.head_VH, batch).backward()

        def turn() -> Timing:
            self.one.attention(kind)
            return _step(passes, self.one.optimizer)

        return turn

    def _bare_backbone(self, input_ids: Tensor, use_cache: bool) -> Any:
        # No weight of the bare base takes a gradient, so that there would be no backward pass. Its embeddings do here:
        # the pass then goes through all layers.
        leaf = self.bare.get_input_embeddings()(input_ids).requires_grad_()
        return self.bare.base_model(inputs_embeds=leaf, use_cache=use_cache)

    def _in_turn(self, batch: Batch) -> Callable[[], Timing]:
        parts = {member: batch.part(member) for member in dict.fromkeys(batch.members)}

        def passes() -> None:
            for member, part in parts.items():
                self.many.model.set_adapter(member)
                workload.loss(self.many.backbone, self.many.head_VH, part).backward()

        def turn() -> Timing:
            timing = _step(passes, self.many.optimizer)
            # `set_adapter` has frozen all but the last adapter, and the next contender needs all of them
            self.many.trainable()
            return timing

        return turn

    def _population(self, population: Populora, batch: Batch) -> Callable[[], Timing]:
        counts = {batch.members.count(member) for member in batch.members}

        def route() -> AbstractContextManager[Any]:
            # populora has a route of its own for equal groups
            return population.everyone() if len(counts) == 1 else population.rows(batch.members)

        def passes() -> None:
            with route():
                workload.loss(population.backbone, population.head_VH, batch).backward()

        return lambda: _step(passes, population.optimizer)


def _step(passes: Callable[[], None], optimizer: torch.optim.Optimizer | None) -> Timing:
    """Times forward, backward and the optimizer's step of a peer."""
    with Stopwatch() as watch:
        split = Stopwatch()
        split.start()
        passes()
        split.stop()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
    return Timing(watch.cpu_s, watch.wall_s, optimizer_cpu_s=watch.cpu_s - split.cpu_s)


def _passes(timing: Timing) -> float:
    """Returns the CPU seconds of forward and backward."""
    return timing.cpu_s - timing.optimizer_cpu_s


def _attempts(models: Contenders, members: int, attempts: int, rounds: int, report: Report) -> None:
    """Measures groups of attempts at one prompt, and as many attempts at different prompts."""
    # A joint update computes a prompt once for all attempts at it.

    def group(*, shared: bool) -> list[Sample]:
        owners = [workload.name(number) for number in range(members)]
        prompt, completion = ATTEMPT
        return workload.samples(models.vocabulary, owners, prompt, completion, attempts=attempts, shared=shared)

    case = f"{attempts} attempts per prompt, {ATTEMPT[0]} + {ATTEMPT[1]} tokens, {members} prompts"
    turns = {kind: group(shared=kind == "shared") for kind in ("shared", "unshared")}
    shared, unshared = (
        Contender(f"{OURS}, {kind} prompt", partial(system.update, models.ours, samples))
        for kind, samples in turns.items()
    )
    take_turns([shared, unshared], rounds, log, case)
    report.results += [_row(case, contender, unshared) for contender in (shared, unshared)]
    report.ratio(f"{case}: shared / unshared", against(shared, unshared, lambda t: t.cpu_s), "<= 0.45")


def _row(case: str, contender: Contender, reference: Contender) -> dict[str, Any]:
    optimizer = median(turn.optimizer_cpu_s for turn in contender.turns) * 1000
    return {**times(case, contender, reference), "optimizer_cpu_ms": round(optimizer, 1)}
