"""`python -m benchmarks step`: a whole step, sampling and training, against TRL's GRPOTrainer with one PEFT adapter.

Both write the same number of completions of the same length to the same prompts, and train on all of them once. Each
prompt has `attempts` completions. With more members than prompts, several members share the attempts at one prompt, so
that every member takes part. Rewards cost nothing on either side, since no verifier takes part.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch

from benchmarks import system, workload
from benchmarks.peers import Attention, Missing, faster_attention, plain, require
from benchmarks.report import Report, against, finish, log, named, times
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import Contender, Stopwatch, Timing, take_turns
from benchmarks.trl import Trl
from redqueen.engine.policy import Policy
from redqueen.records import Request, Sample

COLUMNS = (
    ("ratio", "ratio"),
    ("how", ""),
    ("cpu_ms", "step, CPU ms"),
    ("sampling_cpu_ms", "of it sampling"),
    ("wall_ms", "step, wall ms"),
    ("tokens", "tokens written"),
)


@dataclass(frozen=True, slots=True)
class Work:
    """The sizes of a step."""

    completions: int
    """Completions of all prompts."""
    attempts: int
    """Completions of each prompt."""
    prompt: int
    """Tokens of each prompt."""
    new: int
    """Tokens of each completion."""


def run_bench_step(config: BenchmarkConfig, members: int, work: Work, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code."""
    report = Report("step", {**asdict(config), "members": members, **asdict(work), "rounds": rounds})
    log("loading")
    ours = system.build(config, members)
    texts = workload.prompts(ours.base, work.completions // work.attempts, work.prompt)
    with ExitStack() as stack:
        contenders = [
            Contender(named(count), partial(take_step, ours, requests_of(texts, count, work))) for count in (members, 1)
        ]
        # TRL's process prepares before its first step, which the uncounted round waits for: hence one step more than
        # rounds.
        try:
            require("trl")
            best = _attention(config, ours, texts, work)
            peer = stack.enter_context(Trl(config, texts, work.attempts, work.new, rounds + 1, best))
            contenders.append(Contender(f"TRL GRPOTrainer, one PEFT adapter ({best})", peer.turn))
        except Missing as why:
            report.unavailable("trl", why)
        case = f"{work.completions} x ({work.prompt} + {work.new}) tokens, {work.attempts} attempts per prompt"
        take_turns(contenders, rounds, log, case)
    report.results = [_row(case, contender, contenders[-1]) for contender in contenders]
    if not report.missing:
        value = against(contenders[0], contenders[-1], lambda t: t.cpu_s)
        report.ratio(f"whole step, {members} members / TRL GRPO with one adapter", value, "<= 0.33")
    return finish(report, COLUMNS, as_json)


def _row(case: str, contender: Contender, reference: Contender) -> dict[str, Any]:
    sampling = median(turn.sampling_cpu_s for turn in contender.turns) * 1000
    # the steps of TRL have no hook between sampling and training, so that its part is unknown
    return {**times(case, contender, reference), "sampling_cpu_ms": round(sampling, 1) or None}


def _attention(config: BenchmarkConfig, ours: Policy, texts: list[str], work: Work) -> Attention:
    """Returns the faster attention for TRL, most of whose time goes into transformers' generate."""
    ids = torch.tensor([ours.base.tokenizer(text).input_ids for text in texts])
    return faster_attention(plain(config), ids.repeat_interleave(work.attempts, 0), work.new)


def requests_of(texts: list[str], members: int, work: Work) -> list[Request]:
    """Returns a request for each attempt; a member's attempts are neighbours."""
    attempted: list[str] = []
    for text in texts:
        attempted += [text] * work.attempts
    return workload.requests(attempted, workload.owners(workload.equal(work.completions, members)), work.new)


def take_step(ours: Policy, requests: list[Request]) -> Timing:
    """Samples and trains once. Returns the timing; its `tokens` are those written."""
    with Stopwatch() as watch:
        with Stopwatch() as sampling:
            completions = ours.sample(requests)
        # Advantages alternate, as TRL's rewards do here: no sample has advantage 0, so that none can be left out.
        samples = [
            Sample(
                member=request.member,
                prompt_ids=c.prompt_ids,
                token_ids=c.token_ids,
                logprobs=c.logprobs,
                advantage=1.0 - 2 * (i % 2),
            )
            for i, (request, c) in enumerate(zip(requests, completions, strict=True))
        ]
        system.update(ours, samples)
    return Timing(watch.cpu_s, watch.wall_s, sum(len(c.token_ids) for c in completions), sampling_cpu_s=sampling.cpu_s)
