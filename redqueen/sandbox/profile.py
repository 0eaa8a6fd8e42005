"""What a kind of program may do in the sandbox. It is data: the child has no rules of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from redqueen.sandbox.child.values import encode
from redqueen.sandbox.job import Limits

# Pure and deterministic modules; `collections.abc` and other loaded submodules come with their parent.
_GAME_MODULES = (
    "math itertools functools collections re string heapq bisect operator statistics fractions decimal "
    "copy typing dataclasses enum textwrap json abc cmath numbers __future__"
)
# Builtins that reach outside or make code.
_OUTSIDE = "open eval exec compile input __import__ globals breakpoint"


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

    def with_limits(self, limits: Limits) -> Profile:
        """The same rules with other limits."""
        return replace(self, limits=limits)

    def encoded(self) -> bytes:
        """The rules as the zygote reads them; the limits come with each request, since they differ between passes."""
        return encode((self.entry, self.modules, self.withheld, self.stdin))


GAME = Profile(
    entry="f",
    modules=tuple(_GAME_MODULES.split()),
    withheld=tuple(_OUTSIDE.split()),
    stdin="",
    limits=Limits(),
)
"""The rules for the programs of the game."""
