"""Which programs may depend on chance by their code, and so meet more interpreters."""

from __future__ import annotations

import pytest

from redqueen.sandbox.child.chance import unsteady

STRANGERS = frozenset(("sys", "os"))
STEADY = [
    "def f(x):\n    return sorted(x, key=len)[::-1]",
    "def f(x):\n    return x in {'a', 'b', 1}",
    "def f(x):\n    return {k: str(v) for k, v in x.items() if v - 1 > 2}, f'{x}'",
    "import math\ndef f(x):\n    return math.sqrt(x) | 3",
    "def f(x):\n    return ''.join(str(i) for i in x)",
    "if __name__ == '__main__':\n    print(1)\ndef f(x):\n    return list(map(lambda y: y, x))",
]
UNSTEADY = [
    "def f(x):\n    return list(set(x))",
    "def f(x):\n    return [v for v in {'a', 'b'}]",
    "def f(x):\n    return {v for v in x}",
    "def f(x):\n    return {*x}",
    "def f(x):\n    return {x, 1}",
    "def f(x):\n    return hash(x)",
    "def f(x):\n    return sorted(x, key=id)",
    "def f(x):\n    return list(x.keys() & {})",
    "def f(x):\n    def g(y):\n        return frozenset(y)\n    return g(x)",
    "class A:\n    pass\ndef f(x):\n    return str(A())",
    "def f(x):\n    return f'{(lambda: 0)}'",
    "import typing\ndef f(x):\n    return typing.sys.maxsize",
    "from functools import __builtins__ as b\ndef f(x):\n    return 1",
    "def f(x):\n    return x.__class__",
    "def f(x):\n    return getattr(x, 'a' + 'b')",
    "def f(x):\n    return object()",
]


@pytest.mark.parametrize("program", STEADY)
def test_steady(program: str) -> None:
    assert not unsteady(compile(program, "<program>", "exec"), STRANGERS)


@pytest.mark.parametrize("program", UNSTEADY)
def test_unsteady(program: str) -> None:
    assert unsteady(compile(program, "<program>", "exec"), STRANGERS)
