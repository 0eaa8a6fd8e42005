"""Calls a solution inside the jail. Graders send the text of this file with each job: standard library only.

Nothing here is a wall or a judge. A solution shares the process with it and may change what it says; but neither knows
the expected output, so to give it they would have to compute it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from types import ModuleType
from typing import Any

LARGE = 1 << 15
"""Values of about this many bytes or more leave the jail as a digest."""
LARGE_INT_BITS = 13_000
PART = 1 << 12
MOST_OUTPUT = 1 << 23
"""The most bytes that a script may print."""
MOST_DIGITS = 50_000
"""The digits of an int that LiveCodeBench's own harness reads and prints."""
PREAMBLE = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json "
    "builtins typing"
)
"""Modules that LiveCodeBench imports before a solution, with all their names, in this order."""


def load(source: str, name: str, preamble: bool = False) -> Any:
    """Executes a solution's text as a module. Returns the function, class or method `Solution.x` of that name."""
    names = names_of("solution")
    execute(source, names, preamble)
    first, _, rest = name.partition(".")
    if first not in names:
        raise NameError(name)
    return getattr(names[first](), rest) if rest else names[first]


def names_of(module: str) -> dict[str, Any]:
    """Returns the names of a new module: `dataclasses` and `typing` look names up by the name of a module."""
    made = sys.modules[module] = ModuleType(module)
    return vars(made)


def execute(source: str, names: dict[str, Any], preamble: bool, opens: Any = None) -> None:
    """Executes a text in a namespace, in which `opens` stands for `open`."""
    if preamble:
        for module in PREAMBLE.split():
            exec(f"from {module} import *\nimport {module}", names)
        sys.setrecursionlimit(50_000)
        sys.set_int_max_str_digits(MOST_DIGITS)
        names.update(open=opens or open_input, exit=sys.exit, quit=sys.exit)
    exec(compile(source, "<program>", "exec", dont_inherit=True), names)


def call(function: Any, arguments: tuple[Any, ...], what: str) -> Any:
    """Calls a solution. Returns `what` the grader's rule asks for.

    That is the "value", the same of JSON texts as arguments and with a "list" in a tuple's place, both the value and
    its "set", whether it is "not none", or "some": a truth value as it is, and of anything else whether it is not none.
    """
    if what == "list":
        arguments = tuple(map(json.loads, arguments))
    value = function(*arguments)
    if what == "set":
        # Taken first: a value that cannot be iterated is an error, as it is to evalplus.
        members = set(value)
        return (carried(value) if isinstance(value, (list, tuple, set, frozenset)) else None, carried(members))
    if what == "some":
        return value if type(value) is bool else value is not None
    if what == "not none":
        return value is not None
    # LiveCodeBench's expected outputs are JSON, which has no tuples.
    if what == "list" and isinstance(value, tuple):
        value = list(value)
    return carried(value)


def run_script(source: str, text: str, standard_streams: Any) -> str:
    """Runs a solution that reads standard input. Returns what it wrote to standard output.

    `standard_streams` is the module of that name, which only the jail has.
    """
    out = standard_streams.Printed(MOST_OUTPUT)
    streams = standard_streams.StandardStreams(text, out, standard_streams.Printed(LARGE, drops=True))
    streams.install()
    # `exit()` is the usual way to leave a script early.
    with contextlib.suppress(SystemExit):
        execute(source, names_of("__main__"), preamble=True, opens=streams.open)
    streams.end()
    if out.exceeded:
        raise standard_streams.OutputError
    return str(out.text())


def open_input(file: object = 0, *_: object, **__: object) -> Any:
    """Stands for `open`: scripts read standard input as file 0."""
    if file not in (0, "/dev/stdin"):
        raise PermissionError("no files here")
    return sys.stdin


def carried(value: Any) -> Any:
    """Returns a value, or a digest in its place if it is large: equal values have equal digests."""
    if not is_large(value):
        return value
    digest = hashlib.sha256()
    # Part by part, since the text of a long list needs much more memory than the list.
    parts = range(0, len(value), PART) if isinstance(value, (list, tuple)) else ()
    for start in parts:
        digest.update(normal(value[start : start + PART]).encode("utf-8", "surrogatepass"))
    if not parts:
        digest.update(normal(value).encode("utf-8", "surrogatepass"))
    return ("digest", digest.hexdigest())


def is_large(value: Any) -> bool:
    """Returns whether a value has more than about `LARGE` bytes."""
    left = LARGE
    waiting = [value]
    while waiting:
        item = waiting.pop()
        left -= 8
        if isinstance(item, (str, bytes)):
            left -= len(item)
        elif isinstance(item, int):
            left -= LARGE if item.bit_length() > LARGE_INT_BITS else 0
        elif isinstance(item, (list, tuple, set, frozenset, dict)):
            left -= 8 * len(item)
            if left >= 0:
                waiting.extend(item)
            if left >= 0 and isinstance(item, dict):
                waiting.extend(item.values())
        if left < 0:
            return True
    return False


def normal(value: Any) -> str:
    """Returns a text that two values share if and only if Python calls them equal, but for NaN, which equals itself."""
    if value is None:
        return "None"
    if isinstance(value, (bool, int)):
        return hex(value)
    if isinstance(value, float):
        return hex(int(value)) if value.is_integer() else value.hex()
    if isinstance(value, complex):
        return normal(value.real) if not value.imag else f"complex({normal(value.real)}, {normal(value.imag)})"
    if isinstance(value, (str, bytes)):
        return f"{'b' if isinstance(value, bytes) else 's'}{len(value)}:{value!r}"
    if isinstance(value, list):
        return "[" + ",".join(map(normal, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ",".join(map(normal, value)) + ")"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(normal, value))) + "}"
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{normal(key)}:{normal(item)}" for key, item in value.items())) + "}"
    raise TypeError(f"{type(value).__name__} is not a plain value")
