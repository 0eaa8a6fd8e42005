"""A child's work, done in the zygote before it forks: caches that are filled there cost no child a page.

Child-side, standard library only.
"""

from __future__ import annotations

from program import run
from values import decode, encode
from wire import VALUE, pack_frame

_SAMPLE = """
class Box:
    def __init__(self, x):
        self.x = x
def helper(box, n=2):
    return [i * n for i in range(box.x) if i % 2]
def f(x, *rest):
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


def warm_up() -> None:
    """Load, call, encode and frame a sample program until the interpreter has specialised all of it."""
    work = encode((_SAMPLE, [encode((value,)) for value in (1, "a", [1, -2], (2.5, None), {"k": True})]))
    status = detail = ""
    for _ in range(20):
        text, inputs = decode(work)
        status, detail = run(text, inputs, 2, 1 << 16, lambda data: pack_frame(VALUE, len(data)) + data)
        encode((status, detail))
    if status != "ok":
        raise RuntimeError(f"the sample program: {status} {detail}")
