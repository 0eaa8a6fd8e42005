"""Our side of all measurements: the base with its members, the sampler and the learner on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
import transformers

from benchmarks.timing import BenchmarkError, Stopwatch, Timing
from benchmarks.workload import name
from redqueen.config import BUNDLED, EngineSettings, LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.adapters import Adapter, Factors, fresh, generator
from redqueen.engine.model.base import Base, dtype_of, load
from redqueen.engine.policy import Policy, open_policy
from redqueen.records import Request, Sample

Dtype = Literal["bfloat16", "float32"]
# About as large as after some training. A new adapter's B is zero, so that its product is zero and a contender could
# skip it; its members would also all sample alike.
B_STD = 0.02


@dataclass(frozen=True, slots=True)
class BenchmarkConfig:
    """Base, dtype, threads and adapters, the same for our side and for the peers."""

    model: str = BUNDLED
    """Hugging Face id or local folder of the base."""
    threads: int = 1
    """Threads of each process."""
    rank: int = 16
    """Rank of every adapter; `alpha` is the same, so that updates are not scaled."""
    dtype: Dtype = field(default_factory=lambda: native_dtype())
    """Dtype of the base, for our side and for the peers: by default the one that a run would have on this machine."""
    workers: int = 1
    """Processes in which our side samples and trains."""

    @property
    def model_config(self) -> ModelConfig:
        """Returns the configuration of our side's base."""
        return ModelConfig(
            name=self.model,
            dtype=self.dtype,
            device="cpu",
            workers=self.workers,
            threads=self.threads,
            rank=self.rank,
            alpha=self.rank,
        )


def native_dtype() -> Dtype:
    """Returns the dtype in which a run on this machine's CPU would take the base."""
    dtype = dtype_of(ModelConfig(), torch.device("cpu"))
    return "bfloat16" if dtype == torch.bfloat16 else "float32"


def build(config: BenchmarkConfig, members: int, *, batch_tokens: int = 4096, batch_rows: int = 1024) -> Policy:
    """Returns our side: a policy with the members "m0", "m1", ...; it must be closed."""
    sampling = SamplingConfig(temperature=1.0, batch_rows=batch_rows)
    learning = LearningConfig(batch_tokens=batch_tokens)
    policy = open_policy(quiet_base(config), EngineSettings(config.model_config, sampling, learning), members)
    for number in range(members):
        policy.join(name(number), adapter(policy, number))
    return policy


def quiet_base(config: BenchmarkConfig) -> Base:
    """Loads the base with no end token, so that every row has the requested length, for us and for the peers."""
    # With an end token, rows would end at random, and each contender would have written another number of tokens.
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    base = load(config.model_config)
    base.model.generation_config.eos_token_id = None
    base.tokenizer.eos_token = None
    return base


def adapter(policy: Policy, number: int) -> Adapter:
    """Returns the weights of member `number`: A as in a new adapter, B Gaussian."""
    noise = generator("bench", number)
    return {
        site: Factors(f.a, B_STD * torch.randn(f.b.shape, generator=noise))
        for site, f in fresh(policy.shapes(), policy.adapters.rank, noise).items()
    }


def sample(ours: Policy, requests: Sequence[Request]) -> Timing:
    """Samples all requests and returns the timing; its `tokens` are those written."""
    with Stopwatch() as watch:
        completions = ours.sample(requests)
    return Timing(watch.cpu_s, watch.wall_s, sum(len(c.token_ids) for c in completions))


def update(ours: Policy, samples: Sequence[Sample]) -> Timing:
    """Makes one joint update and returns the timing; its `tokens` are the input tokens.

    Raises BenchmarkError if a member was not trained.
    """
    # The learner reports progress after each micro-batch: what follows the last one is the optimizer's part.
    passes = Stopwatch()

    def progress(done: int, total: int) -> None:
        if done == total:
            passes.stop()

    with Stopwatch() as watch:
        passes.start()
        updates = ours.update(samples, progress)
    # An update without advantages, or with a gradient that is not finite, returns early and would look fast.
    if skipped := [f"{u.member}: {u.skipped}" for u in updates if u.skipped]:
        raise BenchmarkError(f"members were not trained ({'; '.join(skipped)}): this would measure nothing")
    tokens = sum(len(s.prompt_ids) + len(s.token_ids) - 1 for s in samples)
    return Timing(watch.cpu_s, watch.wall_s, tokens, watch.cpu_s - passes.cpu_s)
