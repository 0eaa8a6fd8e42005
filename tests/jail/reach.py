"""What hostile programs start with: everything that introspection can reach, and the frames of a transcript."""

from __future__ import annotations

from redqueen.jail.child import protocol
from redqueen.jail.child.values import encode

# Any program can reach this: a standard module still holds the real builtins, and they hold everything that is loaded.
REACH = """
import functools
real_import = functools.__builtins__["__import__"]
sys, os, ctypes, posix, signal, resource, gc, struct, io = map(
    real_import, "sys os ctypes posix signal resource gc struct io".split()
)
jail = sys.modules["__main__"]
libc = ctypes.CDLL(None, use_errno=True)
def spin(*arguments, **named):
    while True:
        pass
def must(result):
    if result != -1:
        return "it worked"
    raise OSError(ctypes.get_errno(), "refused")
def frame(kind, data):
    return kind + struct.pack("!I", len(data)) + data
def value(of):
    return frame(b"V", jail.encode(of))
def end(status="ok", detail=""):
    return frame(b"E", jail.encode((status, detail)))
"""


def reach(code: str, arguments: str = "canary=None, port=0, sibling=0") -> str:
    """A program whose `f(canary, port, sibling)` does `code` with everything in reach."""
    return REACH + f"def f({arguments}):\n" + "".join(f"    {line}\n" for line in code.split("\n"))


def frame(kind: bytes, data: bytes) -> bytes:
    """What a child writes, as the parent reads it: a letter, a length, that many bytes."""
    return protocol.FRAME.pack(kind, len(data)) + data


def value(of: object) -> bytes:
    """The frame of one value."""
    return frame(protocol.VALUE, encode(of))


def end(status: object = "ok", detail: object = "") -> bytes:
    """The frame of the end."""
    return frame(protocol.END, encode((status, detail)))
