"""`python -m benchmarks gpu peers`: the same work by PEFT and by vLLM, where they are installed.

PEFT trains one adapter on as many tokens as all members are trained on jointly. vLLM writes texts of the same lengths
after the same prompts, with the same adapters, on a base with random weights of its own.

Shape suffixes: R rows, T tokens of a row.
"""

from __future__ import annotations

import gc
import importlib
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.clock import forget_peak, peak_gib, synchronize, timed
from benchmarks.gpu.output import say
from benchmarks.gpu.shapes import Shape, config_of, random_members, random_model, random_policy
from benchmarks.gpu.workload import ATTEMPT_PROMPT, ATTEMPTS, Draw, row_group
from redqueen.adapters.peft_files import save_adapter
from redqueen.base.optional import is_installed
from redqueen.config import LearningConfig
from redqueen.policy.lora.adapter_bank import AdapterBank
from redqueen.policy.model.decoder import decoder_of
from redqueen.policy.model.logprobs import TokenLogprobs
from redqueen.policy.policy import Policy
from redqueen.policy.sampling.continuous_batch import BatchLimits, RowGroup
from redqueen.records import Sample

MEMBERS = 8
# The members of one phase of a step.
SAMPLING_MEMBERS = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the peers do."""

    rows: int
    """Rows of a training step, a multiple of the members."""
    width: int
    """Tokens of each, half of which are scored. All are equally long, so that PEFT computes no padding."""
    batch_tokens: int
    """Tokens of a micro-batch."""
    groups: int
    """Prompts that are sampled, with `ATTEMPTS` texts each."""
    scale: int
    """Divides the lengths of prompts and texts."""
    cache_bytes: int | None
    """Bytes of vLLM's cache; None: what a GPU has free."""


LARGE = Sizes(rows=16, width=1024, batch_tokens=4096, groups=64, scale=1, cache_bytes=None)
SMALL = Sizes(rows=8, width=16, batch_tokens=64, groups=4, scale=32, cache_bytes=1 << 28)


def compare_with_peers(shape: Shape, device: torch.device, *, tiny: bool) -> None:
    """Measures us and each peer, one after the other, and prints seconds and ratios."""
    sizes = SMALL if tiny else LARGE
    if tiny:
        # vLLM's attention on a CPU takes heads of 32 numbers or more.
        shape = replace(shape, heads=2, kv_heads=1)
    model = random_model(shape, device)
    decoder = decoder_of(model, pack=False)
    bank = random_members(decoder, shape, MEMBERS)
    policy = random_policy(decoder, bank, LearningConfig(lr=1e-5, batch_tokens=sizes.batch_tokens))
    ours = _train_ours(policy, shape, sizes)
    # PEFT changes the model's modules; nothing of ours calls them.
    _train_peft(model, shape, sizes, device, ours)
    sampled = _sample_ours(policy, shape, sizes)
    with tempfile.TemporaryDirectory(prefix="redqueen-peers-") as parent:
        folders = _write_adapters(bank, Path(parent))
        # vLLM has the GPU for itself.
        del model, decoder, bank, policy
        gc.collect()
        forget_peak()
        _sample_vllm(shape, sizes, Path(parent), folders, sampled)


def _train_ours(policy: Policy, shape: Shape, sizes: Sizes) -> float:
    """Returns the seconds of an update of all members."""
    seconds: list[float] = []
    for count in (1, MEMBERS):
        samples = _samples(shape, sizes, count)
        forget_peak()
        spent = timed(lambda samples=samples: policy.learner.update(samples), 3, 1)
        seconds.append(spent.wall)
        name = f"update of {sizes.rows * sizes.width} tokens, {count} of our members: seconds, peak GiB"
        say(name, (round(spent.wall, 4), peak_gib()))
    say(f"   {MEMBERS} members over one", round(seconds[1] / seconds[0], 3), "at most 1.05")
    return seconds[1]


def _train_peft(model: Any, shape: Shape, sizes: Sizes, device: torch.device, ours: float) -> None:
    """Prints the seconds of a training step of one PEFT adapter, and ours for all members over them."""
    if not is_installed("peft"):
        say("PEFT", "not installed, so there is no ratio: pip install peft")
        return
    peft = importlib.import_module("peft")
    lora = peft.LoraConfig(
        r=shape.rank,
        lora_alpha=2 * shape.rank,
        target_modules="all-linear",
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    # With adapters in the base's dtype PEFT is fastest, and a peer is measured at its best.
    with warnings.catch_warnings():
        # PEFT reads a name that transformers has renamed.
        warnings.simplefilter("ignore", FutureWarning)
        adapted = peft.get_peft_model(model, lora, autocast_adapter_dtype=False)
    inner = adapted.get_base_model()
    weights = [weight for weight in adapted.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=True)
    samples = _samples(shape, sizes, 1)
    ids_RT = torch.tensor([sample.prompt_ids + sample.token_ids for sample in samples], device=device)
    head_VH = inner.get_output_embeddings().weight
    together = sizes.batch_tokens // sizes.width
    prompt = len(samples[0].prompt_ids)

    def step() -> None:
        for rows_RT in ids_RT.split(together):
            hidden_RTH = inner.base_model(input_ids=rows_RT, use_cache=False).last_hidden_state
            # The log-probabilities are ours: with full logits PEFT would be slower by far.
            scored_NH = hidden_RTH[:, prompt - 1 : -1].flatten(0, 1)
            logp_N: Tensor = TokenLogprobs.apply(scored_NH, head_VH, rows_RT[:, prompt:].flatten(), 1.0)
            (-logp_N.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()

    forget_peak()
    spent = timed(step, 3, 1)
    say("   PEFT, one adapter: seconds, peak GiB", (round(spent.wall, 4), peak_gib()))
    say(f"   our {MEMBERS} members over PEFT's one adapter", round(ours / spent.wall, 3), "at most 1.05")


def _samples(shape: Shape, sizes: Sizes, members: int) -> list[Sample]:
    """Returns rows of equal length with prompts of their own, every second one bad."""
    draw = Draw(shape.vocabulary)
    half = sizes.width // 2
    return [
        Sample(
            member=f"m{row * members // sizes.rows}",
            prompt_ids=draw.tokens(sizes.width - half),
            token_ids=draw.tokens(half),
            logprobs=(),
            advantage=1.0 - 2 * (row % 2),
        )
        for row in range(sizes.rows)
    ]


def _groups(shape: Shape, sizes: Sizes, count: int) -> list[RowGroup]:
    """Returns prompts with the lengths of their texts, the same at every call."""
    draw = Draw(shape.vocabulary, sizes.scale)
    return [row_group(draw, i % SAMPLING_MEMBERS, ATTEMPT_PROMPT, ATTEMPTS, i) for i in range(count)]


def _sample_ours(policy: Policy, shape: Shape, sizes: Sizes) -> float:
    """Returns how many tokens a second our sampler writes."""
    limits = BatchLimits(512, 16384)
    # Kernels are compiled before anything is measured, here and by the peer.
    policy.executor.sample(_groups(shape, sizes, 1), limits, lambda row: None)
    groups = _groups(shape, sizes, sizes.groups)
    start = time.perf_counter()
    policy.executor.sample(groups, limits, lambda row: None)
    synchronize()
    seconds = time.perf_counter() - start
    tokens = sum(len(row.token_ids) for group in groups for row in group.rows)
    say(
        f"{len(groups) * ATTEMPTS} texts of {SAMPLING_MEMBERS} members: tokens, tokens a second",
        (tokens, round(tokens / seconds)),
    )
    return tokens / seconds


def _write_adapters(bank: AdapterBank, parent: Path) -> list[Path]:
    """Writes the members that sample as PEFT folders; none where vLLM is not installed."""
    folders: list[Path] = []
    for slot in range(SAMPLING_MEMBERS if is_installed("vllm") else 0):
        folders.append(parent / f"m{slot}")
        save_adapter(
            folders[-1], bank.read(f"m{slot}"), alpha=bank.scales[slot] * bank.rank, base="base", dtype=torch.bfloat16
        )
    return folders


def _sample_vllm(shape: Shape, sizes: Sizes, parent: Path, folders: Sequence[Path], ours: float) -> None:
    """Prints how many tokens a second vLLM writes, and ours over them."""
    if not folders:
        say("   vLLM", "not installed, so there is no ratio: pip install 'redqueen[vllm]'")
        return
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # This process has used the GPU, and a process that is forked from it cannot.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    vllm = importlib.import_module("vllm")
    requests = importlib.import_module("vllm.lora.request")
    config = config_of(shape)
    config.architectures = ["Qwen2ForCausalLM"]
    config.save_pretrained(parent / "base")
    groups = _groups(shape, sizes, sizes.groups)
    engine = vllm.LLM(
        model=str(parent / "base"),
        load_format="dummy",
        skip_tokenizer_init=True,
        generation_config="vllm",
        dtype="bfloat16",
        max_model_len=max(len(group.prompt_ids) + group.max_tokens for group in groups) + 1,
        max_num_seqs=512,
        max_num_batched_tokens=16384,
        gpu_memory_utilization=0.85,
        kv_cache_memory_bytes=sizes.cache_bytes,
        enable_lora=True,
        max_loras=SAMPLING_MEMBERS,
        max_lora_rank=shape.rank,
    )
    adapters = [requests.LoRARequest(f"m{i}", i + 1, str(folder)) for i, folder in enumerate(folders)]

    def write(count: int) -> int:
        prompts: list[dict[str, list[int]]] = []
        params: list[Any] = []
        chosen: list[Any] = []
        for group in groups[:count]:
            for row in group.rows:
                prompts.append({"prompt_token_ids": list(group.prompt_ids)})
                params.append(
                    vllm.SamplingParams(
                        max_tokens=row.sampling.max_tokens, ignore_eos=True, logprobs=0, detokenize=False
                    )
                )
                chosen.append(adapters[group.slot])
        outputs = engine.generate(prompts, params, lora_request=chosen, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    write(SAMPLING_MEMBERS)
    start = time.perf_counter()
    tokens = write(len(groups))
    theirs = tokens / (time.perf_counter() - start)
    say(f"   vLLM {vllm.__version__}: tokens, tokens a second", (tokens, round(theirs)))
    say("   our tokens a second over vLLM's", round(ours / theirs, 3), "at least 1")
    engine.llm_engine.engine_core.shutdown()
