"""Standard input and output of a script, as `python3 program < file | other` has them, without any descriptor.

Programs wrap the streams anew, open files 0, 1 and 2, detach buffers, and rely on what is flushed when they end.
Nothing here is a wall or a judge: a program shares the process with it. Child-side, standard library only.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import io
import sys
from typing import Any

NAMES = ("<stdin>", "<stdout>", "<stderr>")
PATHS = {
    **{f"/dev/{name.strip('<>')}": number for number, name in enumerate(NAMES)},
    **{f"/dev/fd/{number}": number for number in range(3)},
    **{f"/proc/self/fd/{number}": number for number in range(3)},
}


MOST_SAID = 1 << 13
"""The bytes that are kept of what is said about a program."""


class OutputError(Exception):
    """A program printed more than it may."""


class Printed:
    """What a program prints, up to a limit: an endless one would otherwise fill the memory first."""

    def __init__(self, most: int, *, drops: bool = False) -> None:
        self.most = most
        self.drops = drops
        self.exceeded = False
        self.data = bytearray()

    def write(self, data: Any) -> int:
        """Keeps the bytes; beyond the limit it drops them, or raises OutputError."""
        data = memoryview(data).cast("B")
        remaining = self.most - len(self.data)
        self.data += data[: max(0, remaining)]
        if len(data) > remaining and not self.drops:
            self.exceeded = True
            raise OutputError(f"more than {self.most} bytes of output")
        return len(data)

    def say(self, text: str) -> None:
        """Adds the end of a text, whatever the limit is: it says how the program ended."""
        self.data += text.encode("utf-8", "replace")[-MOST_SAID:]

    def text(self) -> str:
        """Returns all that was printed."""
        return self.data.decode("utf-8", "replace")


class Source(io.RawIOBase):
    """Standard input as an open file. All such files share one place in the text, as those of one descriptor do."""

    name: object = NAMES[0]
    mode = "rb"

    def __init__(self, data: io.BytesIO) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        return self._data.readinto(buffer)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._data.seek(offset, whence)

    def fileno(self) -> int:
        return 0


class Sink(io.RawIOBase):
    """Standard output or standard error as an open file."""

    mode = "wb"

    def __init__(self, number: int, printed: Printed) -> None:
        self.name: object = NAMES[number]
        self._number = number
        self._printed = printed

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._printed.write(data)

    def fileno(self) -> int:
        return self._number


class StandardStreams:
    """The three streams of one script."""

    def __init__(self, text: str, out: Printed, errors: Printed) -> None:
        self._input = io.BytesIO(text.encode("utf-8", "surrogatepass"))
        self._printed = {1: out, 2: errors}
        # Kept, so that what wraps them can be found when the script ends.
        self._sinks: list[Sink] = []

    def install(self) -> None:
        """Puts the streams in their places in `sys`, and `open` where programs look for it."""
        sys.stdin = sys.__stdin__ = self._standard(0, "r", errors="replace")  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._standard(1, "w", errors="surrogateescape")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._standard(2, "w", errors="backslashreplace", line_buffering=True)  # type: ignore[misc]
        builtins.open = io.open = self.open  # type: ignore[assignment]

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """Stands for `open`: the only files are 0, 1 and 2, also by their paths."""
        del closefd, opener
        number = PATHS.get(file) if isinstance(file, str) else file
        if type(number) is not int or number not in (0, 1, 2):
            raise PermissionError(f"no files here: {file!r}")
        kind = mode.replace("b", "").replace("t", "").replace("+", "")
        if kind not in ("r", "w", "a") or ("b" in mode and "t" in mode):
            raise ValueError(f"invalid mode: {mode!r}")
        raw = self._raw(number)
        raw.name = file
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("can't have unbuffered text I/O")
            return raw
        binary = io.BufferedReader(raw) if kind == "r" else io.BufferedWriter(raw)
        if "b" in mode:
            return binary
        if number == 0:
            errors = errors or "replace"
        text = io.TextIOWrapper(binary, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text

    def end(self) -> None:
        """Writes what the streams, and all that wraps them, still hold. Raises OutputError if that is too much."""
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        for sink in self._sinks:
            _flush_around(sink, [])

    def _standard(self, number: int, mode: str, **options: Any) -> io.TextIOWrapper:
        raw = self._raw(number)
        binary = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        text = io.TextIOWrapper(binary, "utf-8", **options)
        text.mode = mode  # type: ignore[misc]
        return text

    def _raw(self, number: int) -> Source | Sink:
        if number == 0:
            return Source(self._input)
        sink = Sink(number, self._printed[number])
        self._sinks.append(sink)
        return sink


def _flush_around(stream: Any, seen: list[Any]) -> None:
    """Flushes what wraps a stream, the outermost first: it writes into what is within."""
    for holder in gc.get_referrers(stream):
        if isinstance(holder, (io.TextIOWrapper, io.BufferedWriter)) and not any(holder is each for each in seen):
            seen.append(holder)
            _flush_around(holder, seen)
            _flush(holder)


def _flush(stream: Any) -> None:
    # It may be anything, or be closed. Python lets a program end all the same.
    with contextlib.suppress(ValueError, OSError, AttributeError):
        stream.flush()
