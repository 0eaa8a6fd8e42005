"""The records that flow through a step. Each stage makes a new frozen record; a field is never a placeholder for what
comes later.

Completion -> Rollout -> Proposed | Attempted -> GradedRollout -> Sample        Draft -> Proposal -> Task
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

# The name of a kind of task. What it means, `redqueen.tasks.kinds` knows.
Kind = str

FinishReason = Literal["stop", "length"]

Role = Literal["teacher", "student"]
ROLES: tuple[Role, ...] = ("teacher", "student")

# "valid" is for proposals only, "correct" and "wrong" are for attempts. All others but the last say what was wrong with
# a text or its program. "infra_error" is a fault of the machine, which no member caused: a verdict with it is never
# paid, never counted in a rate and never trained on. The same holds for an attempt with the status "nondeterministic":
# there the task is at fault, not the student.
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

    `output` holds the literals that the program returned, joined by "; ": one for each input. Of an answer that is only
    compared it is the answer, and it is "" where no value was read.
    """

    status: Status
    output: str = ""
    detail: str = ""
    cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Draft:
    r"""A proposal as it was read from a teacher's text: `Draft("def f(x):\n    return x", ("3",), "")`.

    `inputs` are literal argument lists. Whether there is one, or several and a `message`, depends on the kind.
    """

    program: str
    inputs: tuple[str, ...]
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A draft with its author, before it is known to be a valid task."""

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
    """A verified program with its inputs and outputs. Its kind says what of them is asked."""

    id: str
    kind: Kind
    author: str
    step: int
    program: str
    pairs: tuple[Pair, ...]
    message: str = ""

    @property
    def shown(self) -> tuple[Pair, ...]:
        """The first half of the pairs, rounded up: what a student sees if the kind shows examples."""
        return self.pairs[: (len(self.pairs) + 1) // 2]

    @property
    def hidden(self) -> tuple[Pair, ...]:
        """The other half, which a student's program is judged on then."""
        return self.pairs[(len(self.pairs) + 1) // 2 :]

    @property
    def draft(self) -> Draft:
        """The task as its author wrote it, without outputs: to be verified again."""
        return Draft(self.program, tuple(pair.input for pair in self.pairs), self.message)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to complete."""

    text: str
    stop: tuple[str, ...]
    """Strings that end the completion."""
    prefix: str = ""
    """The start of the answer, already written on the member's behalf, e.g. `"def f("`."""
    max_lines: int = 0
    """The completion also ends at the end of this many lines, the prefix's line included; 0: no limit."""
    chat: bool = False
    """Whether the text is one user message that goes through the model's chat template; if not, it is used as it is."""
    tagged: bool = False
    """Whether a stop string ends the completion only where it ends an answer (`tasks/programs/tagged.py`): reasoning
    may mention it."""


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
    """The divisor of the logits; 0 takes the likeliest token each time, whatever `top_p` and `top_k` are."""
    top_p: float = 1.0
    """Only the fewest likeliest tokens whose probabilities add up to this can be sampled; 1: all."""
    top_k: int = 0
    """Only this many of the likeliest tokens can be sampled; 0: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion to sample. Requests of one member for one prompt share the prompt's prefill."""

    member: str
    """The name of the member that writes it."""
    prompt: Prompt
    """The text that it continues."""
    sampling: SamplingParams
    """How its tokens are sampled."""
    seed: tuple[str | int, ...]
    """The name of its random stream (see `redqueen.base.streams`); greedy decoding draws nothing from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The text that a member wrote for one request, as tokens and as a string."""

    member: str
    """The name of the member that wrote it."""
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
    """A completion with its place in the game."""

    member: str
    role: Role
    kind: Kind
    group: str
    """The name of its group: the rollouts of a group are compared with each other."""
    completion: Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRollout:
    """A rollout with its reward. A rollout that was lost to a fault of the machine has none and never becomes one."""

    rollout: Rollout
    reward: float
    verdict: Verdict
    """What the verifier said of the proposal or the attempt, whatever it is paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The tokens of one completion, which the learner weights by their advantage."""

    member: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """The sampler's log-probabilities of the tokens; empty if no member wrote the text."""
    advantage: float
    role: Role = "student"
    """What the member wrote it as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceRatio:
    """The learner's probability of a token divided by the sampler's, over one member's trained tokens.

    Truncated at `learning.importance_ratio_cap`, e.g. `ImportanceRatio(mean=1.0, std=0.06, clipped=0.0)`.
    """

    mean: float
    std: float
    """The standard deviation over the tokens."""
    clipped: float
    """The share of the tokens whose ratio was truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdate:
    """The effect of one optimizer step on one member. Norms are L2."""

    member: str
    loss: float
    grad_norm: float
    adapter_norm: float
    logprob_gap: float
    """Mean absolute difference of the sampler's and the learner's log-probabilities, in nats per trained token."""
    tokens: int
    """How many tokens were trained on."""
    ratio: ImportanceRatio | None = None
    """None if no trained token was sampled."""
    skipped: str = ""
    """Why the member was not updated; "" if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One proposal of a step, judged. `task` is None unless the verdict is `valid`."""

    id: str
    match: str
    student: str
    prompt: str
    references: tuple[Task, ...]
    """The tasks of the bank that the prompt shows."""
    rollout: Rollout
    verdict: Verdict
    task: Task | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PosedTask:
    """A fixed task that a student is posed in a step: no teacher wrote it, so none is paid for it."""

    practice: str
    """The id of the student's practice, which the task's id begins with."""
    student: str
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A student's answer and what it is judged on. `TaskKind.answer` makes it."""

    kind: str
    program: str
    """The task's program, which runs if the kind needs that (`TaskKind.runs_program`); "" if the task has none."""
    inputs: tuple[str, ...]
    """The inputs of the pairs that the answer is judged on. If judging runs the task's program on the student's answer,
    the program also runs again on its recorded input, to check that it still gives the recorded output. Without inputs
    that check is left out."""
    expected: tuple[bytes, ...]
    """The identities of the right outputs, one for each input."""
    text: str | None
    """The answer as `Prompts.read_attempt` returns it; None if the text had no answer."""
    patient: bool = False
    """Whether what runs to judge it may take twice the CPU limit. No program can know of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt of a step, judged; `number` counts the attempts at one task."""

    task: Task
    number: int
    rollout: Rollout
    verdict: Verdict
    work: str = ""
    """What the student wrote on the way to its answer; "" if it wrote none. It is not judged."""


Progress = Callable[[int, int], None]
"""Is called with how many parts of how many are done."""
OnCompletion = Callable[[int, Completion], None]
"""Is called with the index of a request and its completion, as each is done."""


# Self-play knows the sampler and the verifier by these two protocols alone, so that either can be served by another
# process or machine without a change to the game.
class Sampler(Protocol):
    """Draws completions from members."""

    def sample(self, requests: Sequence[Request], on_completion: OnCompletion | None = None) -> list[Completion]:
        """Returns completions in the order of `requests`; calls `on_completion(index, completion)` as each is done."""
        ...


class Verifier(Protocol):
    """The only judge. It runs programs outside the trainer's process; verdicts may come in any order."""

    @property
    def tier(self) -> str:
        """How well programs are isolated; goes into the run's record."""
        ...

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        """Submits one proposal and returns at once. The future has a task if the verdict is `valid`, else None."""
        ...

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        """Submits one answer and returns at once.

        The status `nondeterministic` is about the task and not about the answer: the task's program did not give the
        recorded output for the recorded input again.
        """
        ...

    def run(
        self,
        program: str,
        inputs: tuple[str, ...] | tuple[bytes, ...],
        cpu_s: float,
        output_bytes: int = 0,
        kind: Kind = "",
    ) -> Future[tuple[str, ...]]:
        """Submits a program to be run on inputs and returns at once; nothing is judged.

        It runs by the rules of the language of `kind`; "": by Python's.

        The future has the outputs as far as the program got within `cpu_s` seconds of CPU. It may have none. An output
        has at most `output_bytes` bytes; 0: as many as one of a task.
        """
        ...
