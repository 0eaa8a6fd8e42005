"""The records that flow through a step. Each stage makes a new frozen one; no field means "not computed yet".

Completion -> Rollout -> Proposed | Attempted -> GradedRollout -> Sample        Draft -> Proposal -> Task
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal, Protocol

Kind = Literal["code_o", "code_i", "code_f"]
KINDS: tuple[Kind, ...] = ("code_o", "code_i", "code_f")

FinishReason = Literal["stop", "length"]

Role = Literal["teacher", "student"]
ROLES: tuple[Role, ...] = ("teacher", "student")

Status = Literal[
    "valid",
    "correct",
    "wrong",
    "malformed",
    "forbidden",
    "error",
    "timeout",
    "memory",
    "oversize",
    "unsupported",
    "nondeterministic",
    "infra_error",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verifier's structured answer, e.g. `Verdict("error", "", "ZeroDivisionError at line 2", 1.3)`.

    `output` holds the literals that the program returned, joined by "; ": one for code_o and code_i, several for a
    code_f proposal. It is "" where no program ran or none of its values was read.
    """

    status: Status
    output: str = ""
    detail: str = ""
    cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Draft:
    """What could be read from a teacher's text: `Draft("def f(x):\\n    return x", ("3",), "")`.

    `inputs` are literal argument lists; code_o and code_i have one, code_f several and a `message`.
    """

    program: str
    inputs: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A draft with its author: what a teacher wrote, before it is known to be a valid task."""

    id: str
    kind: Kind
    author: str
    step: int
    draft: Draft


@dataclass(frozen=True, slots=True)
class Pair:
    """One input and the output that the task's program gives for it, both literals: `Pair("[1, 2]", "3")`."""

    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A verified program with its inputs and outputs. code_o and code_i have one pair."""

    id: str
    kind: Kind
    author: str
    step: int
    program: str
    pairs: tuple[Pair, ...]
    message: str = ""

    @property
    def shown(self) -> tuple[Pair, ...]:
        """The pairs that a code_f student sees: the first half, rounded up."""
        return self.pairs[: (len(self.pairs) + 1) // 2]

    @property
    def hidden(self) -> tuple[Pair, ...]:
        """The pairs that a code_f student's function is judged on."""
        return self.pairs[(len(self.pairs) + 1) // 2 :]

    def as_kind(self, kind: Kind, rng: random.Random | None = None) -> Task:
        """A task of `kind` from this one, which has several pairs: `seed-0` becomes `seed-0-code_o`.

        code_f keeps all pairs. The other kinds keep one: `rng` draws it, without `rng` it is the first.
        """
        pairs = self.pairs
        if kind != "code_f":
            pairs = (rng.choice(pairs) if rng else pairs[0],)
        return replace(self, id=f"{self.id}-{kind}", kind=kind, pairs=pairs)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text to complete. `prefix` is the part already written on the writer's behalf, e.g. `"def f("`.

    With `chat` the text is one user message that goes through the model's chat template, else it is raw.
    """

    text: str
    stop: tuple[str, ...]
    prefix: str = ""
    chat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLengths:
    """The longest prompts of a batch in tokens, e.g. `PromptLengths(proposal=400, attempt=96)`."""

    proposal: int
    """A teacher's prompt."""
    attempt: int
    """A student's prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one completion is sampled, e.g. `SamplingParams(max_tokens=64, temperature=0)` for greedy decoding."""

    max_tokens: int
    """The most tokens that are sampled."""
    temperature: float = 1.0
    """What the logits are divided by; 0 takes the likeliest token each time, whatever `top_p` and `top_k` are."""
    top_p: float = 1.0
    """Only the fewest likeliest tokens whose probability reaches this can be sampled; 1: all."""
    top_k: int = 0
    """Only so many of the likeliest tokens can be sampled; 0: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion to sample. Requests of one member for one prompt share the prompt's prefill."""

    member: str
    """Who writes it."""
    prompt: Prompt
    """What it continues."""
    sampling: SamplingParams
    """How its tokens are sampled."""
    seed: tuple[str | int, ...]
    """The name of its random stream (see `redqueen.streams`); greedy decoding draws nothing from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a member wrote."""

    member: str
    """Who wrote it."""
    version: int
    """The version of the member's weights that wrote it."""
    prompt_ids: tuple[int, ...]
    """The prompt's tokens."""
    token_ids: tuple[int, ...]
    """The sampled tokens; the one that completed a stop string, or ended the text, is the last."""
    logprobs: tuple[float, ...]
    """Their log-probabilities, in nats, under the distribution that they were sampled from: at the request's
    temperature, and after `top_p` and `top_k`. With temperature 0 they are those of the whole vocabulary at
    temperature 1."""
    text: str
    """The text: it starts with the prompt's prefix and ends before the stop string."""
    finish_reason: FinishReason
    """"stop": an end token or a stop string ended it; "length": it was cut off after `max_tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A completion with its place in the game. `group` is what its reward is centred with."""

    member: str
    role: Role
    kind: Kind
    group: str
    completion: Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRollout:
    """A rollout with its reward; a machine's fault never becomes one."""

    rollout: Rollout
    reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the learner trains on: the completion's tokens, each weighted by the advantage."""

    member: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdate:
    """What one optimizer step did to one member. Norms are L2; `entropy` is nats per trained token.

    `logprob_gap` is the mean absolute difference of the sampler's and the learner's log-probabilities.
    `skipped` says why the member did not move ("" if it did).
    """

    member: str
    loss: float
    grad_norm: float
    adapter_norm: float
    entropy: float
    logprob_gap: float
    tokens: int
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One proposal of a step, judged. `task` is None unless the verdict is `valid`."""

    id: str
    match: str
    student: str
    prompt: str
    rollout: Rollout
    verdict: Verdict
    task: Task | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt of a step, judged; `number` counts the attempts at one task."""

    task: Task
    number: int
    rollout: Rollout
    verdict: Verdict


class Sampler(Protocol):
    """Draws completions from members; the local one runs in process, others may be served elsewhere."""

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Completions in the order of `requests`; `on_completion(index, completion)` is called as each is done."""
        ...


class Verifier(Protocol):
    """The only judge: runs programs outside the trainer's process. Verdicts come in the order asked."""

    def submit_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Submits one proposal and returns at once: a task where the verdict is `valid`, else None."""
        ...

    def submit_attempt(self, task: Task, answer: str | None) -> Future[Verdict]:
        """Submits one answer to a task and returns at once; None is a text in which no answer was found."""
        ...

    def validate(self, proposals: Sequence[Proposal]) -> list[tuple[Verdict, Task | None]]:
        """`submit_proposal` for many, and their results."""
        ...

    def grade(self, attempts: Sequence[tuple[Task, str | None]]) -> list[Verdict]:
        """`submit_attempt` for many, and their results."""
        ...
