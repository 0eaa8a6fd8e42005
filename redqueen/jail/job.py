"""What goes into the sandbox and what comes out: limits, jobs and outcomes, and the rules for kinds of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Literal, cast

from redqueen.jail.child.values import encode

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

MAX_LIMIT = 1_000_000_000
"""The largest limit of any kind. A request and its timers can hold that, also several times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one job may use, all its inputs together."""

    cpu_s: float = 1.0
    """CPU seconds of one child. In a validation, interpreter A has half of it and the others one and a half times as
    much; a patient job has twice as much."""
    wall_s: float = 4.0
    """Seconds of one child, without those in which its values are read here. It only catches what the CPU limit cannot:
    a machine that stands still. So a second try has four times as much."""
    memory_mb: int = 256
    """MiB on top of the bare interpreter's address space."""
    output_bytes: int = 16_384
    """Bytes of literal text of one output."""
    input_bytes: int = 16_384
    """Bytes of literal text of one input."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: float = getattr(self, field.name)
            if not isinstance(cast("object", value), Real):
                raise ValueError(f"Limits.{field.name} must be a number, not {type_of(value)}")
            if not value > 0:
                raise ValueError(f"Limits.{field.name} must be positive")
            if value > MAX_LIMIT:
                raise ValueError(f"Limits.{field.name} must be at most {MAX_LIMIT:,}")
            if field.type == "int" and not isinstance(cast("object", value), Integral):
                raise ValueError(f"Limits.{field.name} must be a whole number")


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
    """Whether determinism is checked: interpreter A calls it once on each input, at half the CPU limit, B three times
    or more in one child, and further ones once if B finds that its code may differ between runs."""
    expected: tuple[bytes, ...] | None = None
    """Canonical bytes, one for each input; the first miss decides and ends the child. The child never gets them."""
    accepts: Callable[[int, str], bool] | None = None
    """As `expected`, by a rule of the caller's: whether the value of an input, by its number, may have this text."""
    one_processor: bool = False
    """Whether the program runs on the processor that its text decides, which a child can find out without a call."""
    limits: Limits | None = None
    """What this job may use; None stands for the limits of the sandbox's profile."""
    patient: bool = False
    """Whether it may take twice as long, in CPU seconds and by the wall clock. The child cannot know of it."""

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.program), str):
            raise ValueError(f"a program must be a text, not {type_of(self.program)}")
        # A text in place of a tuple of texts would be as many inputs as it has characters.
        _check_tuple("the inputs of a job", self.inputs, (str, bytes))
        if self.expected is not None:
            _check_tuple("the expected values of a job", self.expected, (bytes,))
        check_limits(self.limits)
        if len(self.inputs) > MAX_INPUTS:
            raise ValueError(f"a job has at most {MAX_INPUTS} inputs, not {len(self.inputs)}")
        if self.expected is not None and len(self.expected) != len(self.inputs):
            raise ValueError(f"{len(self.expected)} expected values for {len(self.inputs)} inputs")


def _check_tuple(what: str, values: object, types: tuple[type, ...]) -> None:
    """Raises ValueError if `values` is no tuple or list of values of these types."""
    if not isinstance(values, tuple | list):
        raise ValueError(f"{what} must be a tuple, not {type_of(values)}")
    for value in cast("Sequence[object]", values):
        if not isinstance(value, types):
            names = " or ".join({str: "texts", bytes: "bytes"}[one] for one in types)
            raise ValueError(f"{what} must be {names}, not {type_of(value)}")


def check_limits(limits: object) -> None:
    """Raises ValueError if `limits` is neither None nor a `Limits`."""
    if limits is not None and not isinstance(limits, Limits):
        raise ValueError(f"limits must be Limits(cpu_s=...), not {type_of(limits)}")


def type_of(value: object) -> str:
    """Returns what a value is, for a message: `a list`."""
    return "None" if value is None else f"a {type(value).__name__}"


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


# What a kind of program may do in the sandbox. It is data: the child has no rules of its own.

# Pure and deterministic modules; `collections.abc` and other loaded submodules come with their parent. Nobody can work
# out the values of `random`, and `queue` brings `threading` and a clock.
_GAME_MODULES = (
    "math itertools functools collections re string heapq bisect operator statistics fractions decimal "
    "copy typing dataclasses enum textwrap json abc cmath numbers __future__"
)
# Builtins that reach outside or make code.
_OUTSIDE = "open eval exec compile input __import__ globals breakpoint"


# What solutions of HumanEval+, MBPP+ and LiveCodeBench import beyond that. Here a result need not be the same in every
# interpreter, so `random` is admitted, with a fixed seed.
SOLUTIONS_NEED = {
    "sys": "standard input and output, `setrecursionlimit`, `maxsize`",
    "io": "standard input and output read and written at once; LiveCodeBench's own preamble",
    "builtins": "LiveCodeBench's own preamble, which brings back what `from math import *` has hidden",
    "random": "a canonical solution of HumanEval+; LiveCodeBench's own preamble",
    "contextlib": "what calls a solution needs it",
    "hashlib": "HumanEval/162 asks for an MD5 sum",
    "datetime": "dates without a clock; LiveCodeBench's own preamble",
    "_strptime": "`datetime.strptime` imports it when it is first called, when no file can be opened any more",
    "calendar": "days of a month",
    "ast": "`literal_eval`, and expressions as in HumanEval/160",
    "array": "contest programs keep numbers in it",
    "queue": "breadth-first search; a queue that would wait ends the child",
    "standard_streams": "the standard input and output of a script; loaded before the first fork",
}

PLAIN_MODULES = (
    *("base64", "binascii", "csv", "difflib", "fileinput", "graphlib", "html", "inspect", "pprint", "struct", "types"),
    *("unicodedata", "urllib", "urllib.parse", "uuid", "weakref", "zlib"),
)
"""What else of the standard library needs no file, clock or thread. It gives a program no right that it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The rules for one kind of program. A zygote gets them once, at its start; every program it runs obeys them."""

    entry: str
    """The name of the function that a program must define at its top level."""

    modules: tuple[str, ...]
    """What a program may import, with submodules that are loaded. The zygote loads them before it gives up files."""

    withheld: tuple[str, ...]
    """Builtins that a program does not get. Its own definitions may have these names."""

    stdin: str
    """What a program finds on standard input."""

    limits: Limits
    """What one job may use."""

    paths: tuple[str, ...] = ()
    """Folders where modules that are not of the standard library are looked for, when the zygote loads them."""

    def with_limits(self, limits: Limits) -> Profile:
        """The same rules with other limits."""
        return replace(self, limits=limits)

    def encoded(self) -> bytes:
        """The rules as the zygote reads them; the limits come with each request, since they differ between passes."""
        return encode((self.entry, self.modules, self.withheld, self.stdin, self.paths))


GAME = Profile(
    entry="f",
    modules=tuple(_GAME_MODULES.split()),
    withheld=tuple(_OUTSIDE.split()),
    stdin="",
    limits=Limits(),
)
"""The rules for the programs of the game."""

BENCHMARKS = Profile(
    entry="run",
    modules=(*GAME.modules, *SOLUTIONS_NEED, *PLAIN_MODULES),
    # `eval`, `exec` and `compile` stay: canonical solutions need them, and so does what calls a solution.
    withheld=("open", "breakpoint"),
    stdin="",
    limits=Limits(cpu_s=10.0, wall_s=60.0, memory_mb=2_048, output_bytes=1 << 17, input_bytes=1 << 20),
)
"""The rules for solutions of benchmarks: a wider list in the same jail."""
