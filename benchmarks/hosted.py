"""`python -m benchmarks hosted`: our own forward pass and transformers' modules, hosted, on one base that both compute.

Both are the same project around the same weights, so that the ratio is the price of hosting.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial

from benchmarks import system, workload
from benchmarks.report import Report, against, finish, log, times
from benchmarks.system import BenchmarkConfig
from benchmarks.timing import Contender, take_turns
from redqueen.config import EngineSettings, SamplingConfig
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.engine.policy import Policy, open_policy

COLUMNS = (("ratio", "ratio"), ("how", ""), ("cpu_ms", "CPU ms"), ("wall_ms", "wall ms"), ("tokens", "tokens"))
OWN, HOSTED = "our own forward pass", "transformers' modules, hosted"


@dataclass(frozen=True, slots=True)
class Shape:
    """Completions of a round."""

    completions: int
    attempts: int
    prompt: int
    new: int


def run_bench_hosted(config: BenchmarkConfig, members: int, shape: Shape, rounds: int, *, as_json: bool) -> int:
    """Measures and prints the report; returns the exit code."""
    report = Report("hosted", {**asdict(config), "members": members, **asdict(shape), "rounds": rounds})
    log("loading")
    policies = _policies(config, members)
    owners = workload.owners(workload.equal(shape.completions, members))
    texts = workload.prompts(policies[OWN].base, shape.completions, shape.prompt)
    requests = workload.requests(texts, owners, shape.new)
    groups = workload.owners(workload.equal(shape.completions // shape.attempts, members))
    vocabulary = policies[OWN].base.decoder.vocabulary
    make = partial(workload.samples, vocabulary, groups, shape.prompt, shape.new, attempts=shape.attempts)
    together, apart = make(shared=True), make(shared=False)
    cases = {
        f"sampling {shape.completions} rows, {shape.prompt} + {shape.new} tokens": partial(
            system.sample, requests=requests
        ),
        f"update, {shape.attempts} attempts at each prompt": partial(system.update, samples=together),
        "update, every prompt another one": partial(system.update, samples=apart),
    }
    for case, work in cases.items():
        contenders = [Contender(name, partial(work, policy)) for name, policy in policies.items()]
        take_turns(contenders, rounds, log, case)
        report.results += [times(case, each, contenders[0]) for each in contenders]
        report.ratio(
            f"CPU time, hosted / our own: {case}", against(contenders[1], contenders[0], lambda t: t.cpu_s), ""
        )
    for policy in policies.values():
        policy.close()
    return finish(report, COLUMNS, as_json, ["1.00 is our own forward pass"])


def _policies(config: BenchmarkConfig, members: int) -> dict[str, Policy]:
    """Returns a policy with each of the two forward passes over one base, with the same members."""
    base = system.quiet_base(config)
    model = config.model_config
    policies: dict[str, Policy] = {}
    for name, each in ((OWN, base), (HOSTED, replace(base, decoder=HostedDecoder(base.model)))):
        policy = open_policy(each, EngineSettings(model, SamplingConfig(batch_rows=1024)), members)
        for number in range(members):
            policy.join(workload.name(number), system.adapter(policy, number))
        policies[name] = policy
    return policies
