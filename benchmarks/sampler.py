"""`python -m benchmarks sampler`: tokens per CPU-second, compared with other ways to generate on the same base.

Every row has another prompt. All rows have the same lengths, temperature 1 and no stop. Peers without adapters do less
work than we do. Members have unequal numbers of our rows. Each turn is made twice, with one token for each row and with
all of them: the first is the cost of the prompts, and the difference is decoding alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks import system, workload
from benchmarks.llama import Llama
from benchmarks.peers import Missing, Peft, Populora, faster_attention, generate, plain
from benchmarks.report import Report, against, finish, log, named
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("per_cpu_s", "tokens per CPU-s"),
    ("decoding_per_cpu_s", "decoding alone"),
    ("per_wall_s", "tokens per s"),
    ("tokens", "tokens"),
)
TRANSFORMERS, LLAMA = "transformers generate, no adapter", "llama.cpp, no adapter"
NOTES = (
    "ratio: tokens per CPU-second, prompts included, against transformers' generate.",
    "decoding alone: tokens per CPU-second after the first token of each row.",
)
# vLLM and this project need different versions of torch, so that the two cannot be in one environment. A contender that
# was never run would be no measurement.
VLLM = "not measured: 0.33 asks for exactly torch 2.14 (docs/reports/BENCHMARKS.md)"
Way = Callable[[int], Timing]
"""Samples as many tokens for each row as it is told."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Numbers of tokens of each row."""

    prompt: int
    new: int


def run_bench_sampler(
    config: BenchmarkConfig, members: int, rows: Sequence[int], lengths: Lengths, rounds: int, *, as_json: bool
) -> int:
    """Measures and prints the report; returns the exit code."""
    settings = {**asdict(config), "members": members, **asdict(lengths), "rounds": rounds}
    report = Report("sampler", settings)
    report.unavailable("vLLM", VLLM)
    log("loading")
    models = Contenders(config, members, lengths, report)
    # llama.cpp allocates its cache for a number of rows, so it is opened and closed with each case.
    for count in rows:
        case = f"{count} rows, {lengths.prompt} + {lengths.new} tokens"
        with ExitStack() as stack:
            contenders = models.contenders(count, stack)
            take_turns(list(contenders.values()), rounds, log, case)
        reference = contenders[TRANSFORMERS]
        # A row's first token comes from the pass over its prompt, so it does not count for decoding.
        later = (lengths.new - 1) / lengths.new
        report.results += [_row(case, contender, reference, later) for contender in contenders.values()]
        _ratios(report, case, contenders, members, target=count == 32)
    return finish(report, COLUMNS, as_json, NOTES)


class Contenders:
    """Us and the peers, loaded once for all numbers of rows."""

    def __init__(self, config: BenchmarkConfig, members: int, lengths: Lengths, report: Report) -> None:
        self.config = config
        self.members = members
        self.lengths = lengths
        self.report = report
        self.ours = system.build(config, members)
        adapters = {workload.name(i): system.adapter(self.ours, i) for i in range(members)}
        self.plain = plain(config)
        self.peft = Peft(config, adapters)
        self.populora: Populora | None = None
        try:
            self.populora = Populora(config, adapters)
        except Missing as why:
            report.unavailable("populora", why)

    def contenders(self, rows: int, stack: ExitStack) -> dict[str, Contender]:
        """Returns the contenders by name; `stack` frees what they allocate for this number of rows."""
        texts = workload.prompts(self.ours.base, rows, self.lengths.prompt)
        ids = torch.tensor([self.ours.base.tokenizer(text).input_ids for text in texts])
        # Members of a run have unequal numbers of rows, and equal ones would suit batched products best. The peers that
        # hold several adapters get the same uneven rows.
        owners = workload.owners(workload.falling(rows, self.members))
        attention = faster_attention(self.plain, ids, self.lengths.new)
        for model in self._transformers():
            model.set_attn_implementation(attention)
        # A single row has a single owner, and the contender with many members would be the one with one member.
        found: dict[str, Way] = {}
        if len(set(owners)) > 1:
            found[named(len(set(owners)))] = partial(self._ours, texts, owners)
        found[named(1)] = partial(self._ours, texts, ["m0"] * rows)
        found[TRANSFORMERS] = partial(generate, self.plain, ids)
        found["PEFT, mixed batch"] = partial(generate, self.peft.model, ids, adapter_names=owners)
        if self.populora is not None:
            found["populora's hooks"] = self._population(self.populora, ids, owners)
        self._llama(found, ids, stack)
        return {name: Contender(name, partial(_twice, way, self.lengths.new)) for name, way in found.items()}

    def _ours(self, texts: Sequence[str], owners: Sequence[str], new: int) -> Timing:
        return system.sample(self.ours, workload.requests(texts, owners, new))

    def _transformers(self) -> list[Any]:
        return [self.plain, self.peft.model, *([self.populora.model] if self.populora else [])]

    def _population(self, population: Populora, ids: Tensor, owners: Sequence[str]) -> Way:
        def way(new: int) -> Timing:
            # populora can keep the rows' factors over the steps; without that it would gather them again in each step.
            with population.population.routing_cache(), population.rows(owners):
                return generate(population.model, ids, new)

        return way

    def _llama(self, found: dict[str, Way], ids: Tensor, stack: ExitStack) -> None:
        length = sum(asdict(self.lengths).values())
        try:
            llama = Llama(self.plain, len(ids), length, self.config.threads)
        except Missing as why:
            if not any(entry["peer"] == "llama.cpp" for entry in self.report.missing):
                self.report.unavailable("llama.cpp", why)
            return
        stack.callback(llama.close)

        def way(new: int) -> Timing:
            with Stopwatch() as watch:
                tokens = llama.generate(ids, new)
            return Timing(watch.cpu_s, watch.wall_s, sum(map(len, tokens)))

        found[LLAMA] = way


def _twice(way: Way, new: int) -> Timing:
    """Returns the timing of all tokens, with the part after the first token of each row."""
    first = way(1)
    whole = way(new)
    # both are measured, so the difference of two noisy numbers may come out negative
    return replace(whole, decoding_cpu_s=max(whole.cpu_s - first.cpu_s, 1e-9))


def _rate(timing: Timing) -> float:
    """Returns tokens per CPU-second."""
    return timing.tokens / timing.cpu_s


def _decoding(timing: Timing) -> float:
    """Returns tokens per CPU-second of decoding alone, up to a factor that all contenders of a case share."""
    return timing.tokens / timing.decoding_cpu_s


def _row(case: str, contender: Contender, reference: Contender, later: float) -> dict[str, Any]:
    rates = [_rate(turn) for turn in contender.turns]
    return {
        "ratio": round(against(contender, reference, _rate), 3),
        "case": case,
        "how": contender.name,
        "per_cpu_s": round(median(rates), 1),
        "decoding_per_cpu_s": round(median(later * _decoding(turn) for turn in contender.turns), 1),
        "per_wall_s": round(median(turn.tokens / turn.wall_s for turn in contender.turns), 1),
        "tokens": contender.turns[0].tokens,
        "per_cpu_s_rounds": [round(rate, 1) for rate in rates],
    }


def _ratios(report: Report, case: str, contenders: dict[str, Contender], members: int, *, target: bool) -> None:
    """Adds the ratios of whole turns and of decoding alone, if all members have a row."""
    many = contenders.get(named(members))
    if many is None:
        return
    aims = ("<= 1.15", ">= 2.0", ">= 0.85") if target else ("", "", "")
    for what, rate in (("prompts included", _rate), ("decoding alone", _decoding)):
        report.ratio(
            f"{case}, {what}: CPU time of {members} members / of 1", against(contenders[named(1)], many, rate), aims[0]
        )
        for peer, aim in ((TRANSFORMERS, aims[1]), (LLAMA, aims[2])):
            if peer in contenders:
                label = f"{case}, {what}: tokens per CPU-s of {members} members / {peer}"
                report.ratio(label, against(many, contenders[peer], rate), aim)
