"""The configuration of models and members, sampling, learning, the sandbox and the run itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, ValidationInfo, field_validator, model_validator

from redqueen import extras
from redqueen.config.keys import PartName, Section
from redqueen.records import SamplingParams

BUNDLED = "smollm2-135m-instruct"
AUTO_TARGETS = ("auto",)
"""Stands for all linear layers of the base's blocks."""
_Tracker = Annotated[str, PartName("tracker", tuple(extras.OFFERS["tracker"]))]


class ModelConfig(Section):
    """The frozen base and how members are attached to it."""

    name: str = BUNDLED
    """The bundled model, a Hugging Face id or a local folder."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """The precision of the base. auto: bf16 where the processor multiplies it faster than fp32, else fp32. A run
    keeps what auto chose."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the run computes. auto: on the GPU if torch sees one, else on the CPU."""
    quantize: Literal["off", "nf4", "int8", "torchao_int8", "torchao_fp8"] = "off"
    """The frozen base's layers in fewer bits: nf4 (4) or int8 by bitsandbytes, torchao_int8 or torchao_fp8 by torchao,
    extras of the package (docs/RUNS.md)."""
    prompts: Annotated[str, PartName("prompt format", ("completion", "work", "chat"))] = "completion"
    """The format of prompts: completion for base and small models, work for the same with work before the answer, chat
    for instruct models."""
    rank: int = Field(default=8, ge=1, le=1024)
    """The rank of every adapter."""
    alpha: float = Field(default=16.0, gt=0)
    """The scale of every adapter: its update of the weights is multiplied by alpha / rank."""
    targets: tuple[str, ...] = Field(default=AUTO_TARGETS, min_length=1)
    """The linear layers of a block that adapters change, by name; auto: all but routers and experts."""
    workers: int = Field(default=0, ge=0)
    """Processes that sample and train on a CPU; 0: one for each core, as far as free memory allows."""
    threads: int = Field(default=0, ge=0)
    """Threads of each process; 0: the cores are divided among the processes."""


class PopulationConfig(Section):
    """The members of a run."""

    teachers: int = Field(default=2, ge=0)
    """How many teachers live at a time, T; 0: students alone, who are posed the fixed tasks of the task bank."""
    students: int = Field(default=2, ge=1)
    """How many students live at a time, S."""
    single_agent: bool = False
    """One member plays both roles: the AZR baseline."""
    init: str = "auto"
    """What members start from: auto (the shipped warm start where it fits, else fresh), fresh, or a PEFT folder."""
    perturbation: float = Field(default=0.05, ge=0)
    """Each member starts at `init` plus noise of this share of each tensor's standard deviation (b of a new adapter: of
    a's), so that members differ."""

    @model_validator(mode="after")
    def _one_member(self) -> Self:
        if self.single_agent and (self.teachers, self.students) != (1, 1):
            raise ValueError("single_agent needs population.teachers=1 and population.students=1")
        return self

    @property
    def who(self) -> str:
        """The members in words: `2 teachers and 1 student`."""
        if self.single_agent:
            return "a single agent in both roles"
        students = f"{self.students} student{'s' if self.students > 1 else ''}"
        if not self.teachers:
            return f"{students} alone, on fixed tasks"
        return f"{self.teachers} teacher{'s' if self.teachers > 1 else ''} and {students}"


class SamplingConfig(Section):
    """How completions are sampled."""

    engine: Literal["embedded", "vllm", "auto"] = "embedded"
    """What samples: the embedded sampler, or vLLM on the same machine (docs/extras/VLLM.md), an extra. auto: vLLM if it
    is installed and its base takes less than a fifth of the GPU's free memory."""
    vllm_cache_gb: float = Field(default=2.0, gt=0)
    """Engine vllm: GiB of keys and values. Its copy of the base and the adapters come on top."""
    temperature: float = Field(default=1.0, gt=0)
    """The divisor of the logits. At 1 members sample from their policy itself."""
    proposal_tokens: int = Field(default=96, ge=1)
    """Tokens of the longest proposal; a longer text is cut off and counts as malformed."""
    attempt_tokens: int = Field(default=64, ge=1)
    """Tokens of the longest attempt; a longer text is cut off and counts as malformed."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Share of the probability that tokens are sampled from; 1: all. Below 1 members learn off-policy."""
    top_k: int = Field(default=0, ge=0)
    """How many of the likeliest tokens are sampled from; 0: all. Above 0 members learn off-policy."""
    batch_rows: int = Field(default=64, ge=0)
    """Completions that are sampled at once; 0: as many as the free memory allows, up to 512."""
    prefill_tokens: int = Field(default=16384, ge=0)
    """Tokens of prompts that are computed in one pass, at most; a longer prompt is a pass by itself. 0: up to 16384, as
    free memory allows."""
    cache_tokens: int = Field(default=0, ge=0)
    """Tokens of all texts and prompts whose keys and values are held at once on a GPU; 0: as free memory allows. Rows
    that find no room wait. Other devices hold all that `batch_rows` rows can need."""

    @model_validator(mode="before")
    @classmethod
    def _without_a_server(cls, data: Any) -> Any:
        # Runs of earlier versions say so: only the address of a server is refused (`redqueen.config.keys`).
        if isinstance(data, dict) and data.get("vllm_url") == "":
            return {name: value for name, value in cast("dict[str, Any]", data).items() if name != "vllm_url"}
        return data

    @property
    def truncates(self) -> bool:
        """Whether some tokens can never be sampled."""
        return self.top_p < 1 or self.top_k > 0

    def params(self, max_tokens: int) -> SamplingParams:
        """Returns how a completion of at most `max_tokens` is sampled."""
        return SamplingParams(max_tokens=max_tokens, temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)


class LearningConfig(Section):
    """Policy gradient on group advantages; one step on fresh samples, so no clip and no KL."""

    advantage: Annotated[str, PartName("advantage", ("reinforce_plus_plus_baseline", "grpo", "rloo", "passk"))] = (
        "reinforce_plus_plus_baseline"
    )
    """How rewards become advantages (docs/ALGORITHM.md): REINFORCE++ with a baseline, GRPO, RLOO, or pass@k, which is
    for students and leaves teachers the first."""
    pass_k: int = Field(default=4, ge=2)
    """Advantage passk: of how many attempts the best is paid; below `game.attempts`."""
    positive_weight: float = Field(default=1.0, ge=0)
    """What a correct attempt's advantage is multiplied by. W-REINFORCE has 0.1; 0 learns from mistakes alone."""
    imitation: float = Field(default=0.0, ge=0)
    """What a solved task adds to the advantages of its correct attempts, in equal parts to different texts; 0: off."""
    entropy_bonus: float = Field(default=0.0, ge=0)
    """What is added to a token's advantage for each nat of its surprise, up to half the advantage's size; 0: off."""
    lr: float = Field(default=1e-4, ge=0, le=1)
    """Learning rate of AdamW."""
    teacher_lr: float | None = Field(default=None, ge=0, le=1)
    """The learning rate of teachers; none: `lr`. The single agent, which is both, has `lr`."""
    loss: Literal["token_mean", "sequence_mean"] = "token_mean"
    """token_mean: each token of a member counts the same, as in AZR; sequence_mean: each text does."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm of a member."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """AdamW's decay of the first moment."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """AdamW's decay of the second moment."""
    batch_tokens: int = Field(default=4096, ge=0)
    """Tokens in a micro-batch; 0: as many as the free memory allows, up to 16384."""
    lr_warmup: int = Field(default=0, ge=0)
    """A newborn's own steps in which its learning rate grows linearly to its full size."""
    checkpointing: bool | Literal["auto"] = "auto"
    """Recompute activations: much less memory, and half as much work again. auto: only where they do not fit."""
    importance_ratio: Literal["truncated", "off"] = "truncated"
    """truncated: each token counts learner's / sampler's probability, which corrects their rounding; off: 1."""
    importance_ratio_cap: float = Field(default=2.0, ge=1)
    """Largest importance ratio of a token."""
    max_staleness: int = Field(default=0, ge=0, le=1)
    """1: sample the next step while this one learns, with weights of before; needs sampling.engine=vllm or --ray."""
    max_logprob_gap: float = Field(default=0.5, gt=0)
    """The run stops if a member's sampler and learner differ by more nats a token: it sampled with other weights."""

    @field_validator("batch_tokens")
    @classmethod
    def _enough(cls, tokens: int) -> int:
        if 0 < tokens < 64:
            raise ValueError("at least 64, or 0 for as many as fit")
        return tokens

    @model_validator(mode="after")
    def _stale_texts_are_corrected(self) -> Self:
        if self.max_staleness and self.importance_ratio == "off":
            raise ValueError("learning.max_staleness=1 needs learning.importance_ratio=truncated")
        return self


class SandboxConfig(Section):
    """The limits of a program in the sandbox."""

    cpu_s: float = Field(default=1.0, gt=0, le=1e9)
    """CPU seconds for one program."""
    wall_s: float = Field(default=4.0, gt=0, le=1e9)
    """Wall-clock seconds for one program."""
    memory_mb: int = Field(default=256, ge=32)
    """Address space of one program, in MB."""
    value_bytes: int = Field(default=4096, ge=16, le=16_384)
    """Longest input or output of a task as literal text. A longer one is refused, never cut."""
    unsafe_no_isolation: bool = False
    """Run programs even if the kernel gives no isolation. Only the command line decides; a run keeps it as a record."""
    workers: int = Field(default=0, ge=0)
    """Sandbox processes; 0: one for each core."""


class ClusterConfig(Section):
    """Where a run's members live, if not in this process alone (docs/SCALING.md)."""

    address: str = ""
    """A Ray cluster, e.g. 10.0.0.1:6379; `local` starts one on this machine, an empty address uses none."""
    replicas: int = Field(default=0, ge=0)
    """Processes with a base of their own; 0: one for each GPU, or for each machine where there is none."""


class RunConfig(Section):
    """How long a run is, and which checkpoints it keeps."""

    steps: int = Field(default=10, ge=1)
    """Steps of the whole run."""
    seed: int = Field(default=0, ge=0)
    """All randomness of the run follows from it."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Steps between two checkpoints."""
    keep_last: int = Field(default=2, ge=1)
    """Newest checkpoints that are kept."""
    keep_every: int = Field(default=0, ge=0)
    """Checkpoints at multiples of this step are kept too; 0: none."""
    trackers: tuple[_Tracker, ...] = ()
    """Libraries that get each step's numbers as well (docs/extras/TRACKERS.md); each is an extra of the package."""
    samples_every: int = Field(default=10, ge=0)
    """Steps between two tables of tasks and attempts that trackers get; 0: none, so that they get no text."""
    recorders: tuple[Annotated[str, PartName("recorder", ())], ...] = ()
    """Recorders of your own modules that get each step as well (docs/EXTENDING.md)."""

    metrics: tuple[Annotated[str, PartName("metric", ())], ...] = ()
    """Metrics of your own modules, beside those of docs/reference/METRICS.md (docs/EXTENDING.md)."""

    @field_validator("trackers", "recorders", "metrics")
    @classmethod
    def _distinct(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError(f"a {(info.field_name or '').removesuffix('s')} is given twice")
        return names
