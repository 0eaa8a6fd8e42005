"""What hostile programs start with: everything that introspection can reach, and how a refused C call shows."""

from __future__ import annotations

import struct

from redqueen.sandbox.child.values import encode

REACH = """
import functools
real_import = functools.__builtins__["__import__"]
sys, os, ctypes, signal, resource, io = map(real_import, "sys os ctypes signal resource io".split())
jail = sys.modules["__main__"]
libc = ctypes.CDLL(None, use_errno=True)
def spin(*arguments, **named):
    while True:
        pass
def must(result):
    if result != -1:
        return "it worked"
    raise OSError(ctypes.get_errno(), "refused")
"""


def reach(code: str) -> str:
    """A program whose `f(canary, port, sibling)` does `code` with everything in reach."""
    return REACH + "def f(canary=None, port=0, sibling=0):\n" + "".join(f"    {line}\n" for line in code.split("\n"))


def frame(kind: bytes, data: bytes) -> bytes:
    """What a child writes, as the parent reads it: a letter, a length, that many bytes."""
    return kind + struct.pack("!I", len(data)) + data


def value(of: object) -> bytes:
    """The frame of one value."""
    return frame(b"V", encode(of))


def end(status: object = "ok", detail: object = "") -> bytes:
    """The frame of the end."""
    return frame(b"E", encode((status, detail)))
