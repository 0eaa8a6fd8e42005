"""A child's work, done in the zygote before it forks, so that caches are filled there and cost no child a page.

Child-side, standard library only.
"""

from __future__ import annotations

import sys
from marshal import loads

from program import Rules, run
from protocol import FRAME, VALUE
from values import encode, marshalled, pack

# It uses what most programs use: classes, loops, dicts, exceptions, values of each kind.
_SAMPLE = """
class Box:
    def __init__(self, x):
        self.x = x
def helper(box, n=2):
    return [i * n for i in range(box.x) if i % 2]
def ENTRY(x, *rest):
    total, seen = 0, {}
    for i, letter in enumerate(str(x)):
        total += i
        seen[letter] = seen.get(letter, 0) + 1
    while total > 3:
        total -= 1
    try:
        return sorted(helper(Box(3))), total, seen, {1, 2}, "a".join(["b", "c"]), -1.5, x
    except ValueError:
        return None
"""


def warm_up(rules: Rules) -> None:
    """Loads, calls, encodes and frames a sample program until the interpreter has specialised all of it."""
    program = _SAMPLE.replace("ENTRY", rules.entry)
    inputs = [pack((value,)) for value in (1, "a", [1, -2], (2.5, None), {"k": True})]
    request = marshalled((program, inputs))
    status = detail = ""
    own = sys.modules["program"]
    # CPython specialises a code object after a few calls.
    for _ in range(20):
        text, arguments = loads(request)
        status, detail = run(rules, text, arguments, 2, 1 << 16, _frame)
        encode((status, detail))
    sys.modules["program"] = own
    if status != "ok":
        raise RuntimeError(f"the sample program: {status} {detail}")


def _frame(data: bytes, kind: bytes = VALUE) -> bytes:
    return FRAME.pack(kind, len(data)) + data
