"""What hostile programs start with: everything that introspection can reach, and how a refused C call shows."""

from __future__ import annotations

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
