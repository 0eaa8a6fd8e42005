"""What parent, zygote and child send to each other: every struct, stop code and letter, once for both sides.

Standard library only, and data only: both sides import this file.

The parent and the zygote talk over a socket. After the start the parent sends `START` and a profile, and the zygote
answers with `SIZE` and what it achieved. Then, for each job, the parent sends `HEADER`, a request and `WATCH`. The
zygote answers with any number of `REPLY` heads, each with some of the child's bytes; the last one says how the child
was stopped. A request is `LIMITS` and what `marshal` makes of the program and the list of its inputs. Only the parent
makes such bytes and only a child reads them, since `marshal` trusts what it reads.

A child writes to the zygote: `LOCKED`, then perhaps a `FRAME` that says `UNSTEADY`, then one for each value, then one
for the end. Where line events are counted one more may follow, and what follows the end decides nothing.
"""

from __future__ import annotations

import struct

START = struct.Struct("!III")
"""Bytes of the profile that follows, the uid to take, the number of the interpreter."""

SIZE = struct.Struct("!I")
"""Bytes that follow, in the answer to the start."""

HEADER = struct.Struct("!III")
"""Bytes of the request (0: stop the child), wall-clock milliseconds, most bytes of the answer."""

WATCH = struct.Struct("!Q")
"""CPU microseconds after which the zygote ends the child; 0: never. The zygote reads it after the fork, so that no
child can tell a program that is validated from one that is graded."""

REPLY = struct.Struct("!BiQI")
"""How the child was stopped, its wait status, CPU microseconds of all children so far, bytes of the answer that
follow."""

LIMITS = struct.Struct("!QQIII")
"""CPU microseconds, bytes of memory, passes over the inputs, most bytes of an encoded value, most line events to count
(0: none)."""

FRAME = struct.Struct("!cI")
"""What it is (`UNSTEADY`, `VALUE` or `END`) and the bytes that follow."""

RAN, WALL, CPU, FLOOD, NO_FORK, STOPPED, PART = range(7)
"""How a child was stopped: it ended, met the wall clock, used more CPU time than `WATCH` allows, wrote too much, never
started, was told to stop; or it still runs (`PART`)."""

UNRANDOMISED = "unrandomised"
"""The zygote's argument if its memory shall lie where that of every such interpreter lies."""

LOCKED = b"L"
"""The first byte of an answer: the child has given up every right and is about to start the program."""

# The kinds of frame, and how long an honest end can be. `LINES` is the only one that may follow the end.
# `UNSTEADY` has no content. It is written before the program
# starts, so that no program can keep it back: its value may depend on hashes or addresses.
UNSTEADY = b"U"
VALUE = b"V"
END = b"E"
LINES = b"N"
MOST_END_BYTES = 4_096

LINES_RUN = struct.Struct("!II")
"""The content of `LINES`: how many different lines of the program ran, and how often a line began."""

FROM_CHILD = ("ok", "malformed", "forbidden", "error", "memory", "oversize", "unsupported")
"""The only statuses that a child may claim; the others are the parent's to give."""

CHUNK = 1 << 16
"""Most bytes that the zygote passes on at once."""
