"""What parent, interpreter and child send to each other: every struct and letter, once for both sides.

Standard library only, and data only: both sides import this file.

The parent and the interpreter talk over a socket that keeps messages apart. The parent sends `START` and a profile, and
the interpreter answers with what it achieved. From then on it is a mother, and each message to it is an order: one byte
and one end of a new socket, which becomes the child's.

Over that socket the child first sends `PID`. The parent sends `LIMITS`, the processors that the child may use, and what
`marshal` makes of the program and the list of its inputs. Only the parent makes such bytes and only a child reads them,
since `marshal` trusts what it reads.
Then the child writes `LOCKED`, perhaps a `FRAME` that says `UNSTEADY`, one for each value, and one for the end. Where
the mother is not the machine code of `mother.py` the last bytes are hers: a `TRAILER`.
"""

from __future__ import annotations

import struct

ORDERS = 0
"""The interpreter's descriptor of its socket to the parent."""

RESULT = 3
"""A child's descriptor of its socket to the parent, and its only one: the first that is free in the mother."""

START = struct.Struct("!III")
"""How many equal mothers to be, the uid to take, the number of the interpreter."""

MOST_START_BYTES = 1 << 16

PID = struct.Struct("@i")
"""The child's process id."""

TRAILER = struct.Struct("@iQ")
"""The child's wait status and the CPU microseconds that it took."""

LIMITS = struct.Struct("!IQQII")
"""Bytes of the request that follow, CPU microseconds, bytes of memory, passes over the inputs, most bytes of an encoded
value. `PROCESSORS_BYTES` follow, then the request."""

PROCESSORS_BYTES = 128
"""A set of processors as the kernel takes it: one bit for each (sched_setaffinity(2))."""

FRAME = struct.Struct("!cI")
"""What it is (`UNSTEADY`, `VALUE` or `END`) and the bytes that follow."""

UNRANDOMISED = "unrandomised"
"""The zygote's argument if its memory shall lie where that of every such interpreter lies."""

LOCKED = b"L"
"""The first byte of an answer: the child has given up every right and is about to start the program."""

# The kinds of frame, and how long an honest end can be. `UNSTEADY` has no content. It is written before the program
# starts, so that no program can keep it back: its value may depend on hashes or addresses.
UNSTEADY = b"U"
VALUE = b"V"
END = b"E"
MOST_END_BYTES = 4_096

FROM_CHILD = ("ok", "malformed", "forbidden", "error", "memory", "oversize", "unsupported")
"""The only statuses that a child may claim; the others are the parent's to give."""
