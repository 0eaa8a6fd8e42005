"""Red Queen: post-train language models by co-evolving teacher and student LoRA populations.

`redqueen.Run` reads and starts runs from Python (docs/reference/PYTHON.md).
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# The names of `redqueen.api` that are at hand as `redqueen.NAME`. `__init__.pyi` declares them for type checkers.
_API = ("Answer", "Run", "compare")


# Every module of this package imports this file first, so it imports nothing of the package: the API is at the top of
# the house, and it is loaded when one of its names is asked for.
def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(importlib.import_module("redqueen.api"), name)
    raise AttributeError(f"module 'redqueen' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
