"""Runs a whole program inside the jail: the profile `PROGRAMS` has this module loaded before the first fork.

Nothing here is a wall or a judge. A program shares the process with it and may change what it says; but the expected
output is not here, so to say it a program would have to compute it. Child-side, standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
from typing import Any

MOST_OUTPUT = 1 << 20
"""The most bytes that a program may print."""
MOST_ERRORS = 1 << 14
"""The bytes of standard error that are kept."""
MOST_FRAMES = 20
"""The lines of a traceback that are kept, the last ones."""
LONG = 1 << 63
"""An exit code from here on, in either direction, is what C makes of -1."""
LOADED: list[dict[str, Any]] = []
"""The names of the program whose expressions are asked for; one process belongs to one program."""


def run(visible: dict[str, Any], source: str, text: str | None, expression: str | None) -> Any:
    """Runs a program on standard input, or loads it once and returns the value of an expression over its names.

    `visible` are the builtins that it sees.
    """
    names: dict[str, Any] = {"__builtins__": visible}
    if expression is None:
        return run_script(source, text or "", names)
    if not LOADED:
        names["__name__"] = "program"
        execute(source, names)
        LOADED.append(names)
    return eval(compile(expression, "<test>", "eval", dont_inherit=True), LOADED[0])


def run_script(source: str, text: str, names: dict[str, Any]) -> tuple[str, str, int]:
    """Runs a program on a standard input. Returns its standard output, its standard error and its exit code."""
    out = Printed(MOST_OUTPUT)
    errors = Printed(MOST_ERRORS, drops=True)
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogatepass")), encoding="utf-8", errors="replace")
    sys.stdout = out.stream
    sys.stderr = errors.stream
    code = 0
    names = names | {"__name__": "__main__", "open": open_input, "exit": sys.exit, "quit": sys.exit}
    try:
        execute(source, names)
    except SystemExit as leaving:
        code = exit_code(leaving.code, errors)
    except MemoryError:
        # A status of its own: `memory`.
        raise
    except BaseException as error:  # noqa: BLE001 - a program may raise anything at all
        errors.say(traceback_of(error))
        code = 1
    if "__del__" in source:
        # An interpreter lets its objects go at its end, and what they print then is printed. Functions and the names
        # that they see hold each other.
        del names
        gc.collect()
    # It may have put a stream of its own in this place, which keeps text back until it is told.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    return out.text(), errors.text(), code


def execute(source: str, names: dict[str, Any]) -> None:
    """Executes a text in a namespace."""
    exec(compile(source, "<program>", "exec", dont_inherit=True), names)


def exit_code(said: object, errors: Printed) -> int:
    """Returns the exit code for what `sys.exit` was given, which is a message if it is neither a number nor None."""
    if said is None:
        return 0
    if isinstance(said, int):
        return said & 255 if -LONG <= said < LONG else 255
    errors.say(f"{said}\n")
    return 1


def traceback_of(error: BaseException) -> str:
    """Returns a traceback like Python's, of the program's own lines only."""
    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == "<program>":
            lines.append(f'  File "<program>", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    last = f"{type(error).__name__}: {error}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *lines[-MOST_FRAMES:], last, ""])


class Printed(io.BytesIO):
    """What a program prints, up to a limit: an endless one would otherwise fill the memory first."""

    def __init__(self, most: int, *, drops: bool = False) -> None:
        super().__init__()
        self.most = most
        self.drops = drops
        self.kept = b""
        self.stream = io.TextIOWrapper(self, encoding="utf-8", errors="surrogateescape", write_through=True)

    def write(self, data: Any, /) -> int:
        """Keeps the bytes; beyond the limit it drops them, or raises OutputError."""
        remaining = self.most - self.tell()
        if len(data) <= remaining:
            return super().write(data)
        if not self.drops:
            raise OutputError(f"more than {self.most} bytes of output")
        super().write(bytes(data)[: max(0, remaining)])
        return len(data)

    def close(self) -> None:
        """Keeps what was printed: a program may close its standard output."""
        self.kept = self.kept if self.closed else self.getvalue()
        super().close()

    def say(self, text: str) -> None:
        """Adds a text, unless the program has closed the stream."""
        if not self.closed:
            self.write(text.encode("utf-8", "replace"))

    def text(self) -> str:
        """Returns all that was printed."""
        # Closed or taken apart by the program, the stream has nothing more to hand on: it keeps no text back.
        with contextlib.suppress(ValueError):
            self.stream.flush()
        return (self.kept if self.closed else self.getvalue()).decode("utf-8", "replace")


class OutputError(Exception):
    """A program printed more than `MOST_OUTPUT` bytes."""


def open_input(file: object = 0, *_: object, **__: object) -> Any:
    """Stands for `open`: programs read standard input as file 0."""
    if file not in (0, "/dev/stdin"):
        raise PermissionError("no files here")
    return sys.stdin
