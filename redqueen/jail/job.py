"""What goes into the sandbox and what comes out: limits, jobs and outcomes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Status = Literal[
    "ok",
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

# A job that is larger is refused before any process starts.
MAX_PROGRAM_BYTES = 65_536
MAX_INPUTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one job may use, all its inputs together."""

    cpu_s: float = 1.0
    """CPU seconds of one child; a determinism check has half of it, a patient job twice as much."""
    wall_s: float = 4.0
    """Seconds of one child. It only catches what the CPU limit cannot: a machine that stands still. So a second try has
    four times as much."""
    memory_mb: int = 256
    """MiB on top of the bare interpreter's address space."""
    output_bytes: int = 16_384
    """Bytes of literal text of one output."""
    input_bytes: int = 16_384
    """Bytes of literal text of one input."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"Limits.{field.name} must be positive")


@dataclass(frozen=True, slots=True)
class Job:
    r"""One program to be called on some inputs.

    >>> Job("def f(xs, x):\n    return xs.count(x)", ("[1, 2, 1], 1",))  # doctest: +ELLIPSIS
    Job(program='def f...
    """

    program: str
    """Source text whose top level defines the entry function of the sandbox's profile (`f`)."""
    inputs: tuple[str, ...] | tuple[bytes, ...]
    """Each a literal argument list, e.g. `"[1, 2], 'a'"`; `""` means no arguments. Bytes are a tuple of arguments that
    the caller has encoded already (`encode_arguments`); the limit on the text of an input does not apply to them."""
    validate: bool = False
    """Whether determinism is checked: interpreter A runs it once, at half the CPU limit, and B twice in one child."""
    expected: tuple[bytes, ...] | None = None
    """Canonical bytes, one for each input; the first miss decides and ends the child. The child never gets them."""
    one_processor: bool = False
    """Whether the program runs on the processor that its text decides, which a child can find out without a call."""
    limits: Limits | None = None
    """What this job may use; None stands for the limits of the sandbox's profile."""
    patient: bool = False
    """Whether it may take twice as long, in CPU seconds and by the wall clock. The child cannot know of it."""

    def __post_init__(self) -> None:
        if len(self.inputs) > MAX_INPUTS:
            raise ValueError(f"a job has at most {MAX_INPUTS} inputs, not {len(self.inputs)}")
        if self.expected is not None and len(self.expected) != len(self.inputs):
            raise ValueError(f"{len(self.expected)} expected values for {len(self.inputs)} inputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job. Only `infra_error` is the machine's fault; it must never become a reward."""

    status: Status
    outputs: tuple[str, ...] = ()
    """Literal text of the values, as far as the program got; `parse_literal` reads them back."""
    detail: str = ""
    """One line for people, e.g. `ZeroDivisionError at line 2`; empty when there is nothing to say."""
    cpu_ms: float = 0.0
    """CPU time of the reference (A) child, its start-up included; 0 when none was started."""
