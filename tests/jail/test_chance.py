"""Which programs may depend on chance by their code, and so meet more interpreters."""

from __future__ import annotations

import pytest

from redqueen.jail.child.chance import ITERATORS, look_at
from redqueen.jail.child.function_text import shows_functions, shows_iterators
from redqueen.jail.child.set_order import holds, is_set, shows_order

STRANGERS = frozenset(("sys", "os", "values"))


def unsteady(program: str, *arguments: object) -> bool:
    """What `program.depends_on_chance` puts together."""
    look = look_at(compile(program, "<program>", "exec"), STRANGERS)
    return (
        look.chance
        or holds(arguments, is_set)
        or (look.functions_as_text and shows_functions(program))
        or (look.iterators_as_text and shows_iterators(program, ITERATORS))
        or (look.sets and shows_order(program, "f", list(arguments)))
    )


STEADY = [
    "def f(x):\n    return sorted(x, key=len)[::-1]",
    "def f(x):\n    return x in {'a', 'b', 1}",
    "def f(x):\n    return {k: str(v) for k, v in x.items() if v - 1 > 2}, f'{x}'",
    "import math\ndef f(x):\n    return math.sqrt(x) | 3",
    "def f(x):\n    return ''.join(str(i) for i in x)",
    "if __name__ == '__main__':\n    print(1)\ndef f(x):\n    return list(map(lambda y: y, x))",
    "def f(x):\n    return list(x.values())",
    "def f(x):\n    return [i % 2 for i, v in enumerate(zip(x, x))]",
    "def f(x):\n    return [str(i) + v for i, v in enumerate(x)]",
    "def f(x):\n    first, last = map(str, x)\n    return ''.join(map(str, [*zip(x, x)])) + f'{first}'",
    "def f(n):\n    return str(sum(map(int, str(n))))",
    "import operator\ndef f(x):\n    return operator.and_(x, 3), operator.sub(7, x)",
    "import operator\ndef f(x):\n    return sorted(x.items(), key=operator.itemgetter(1))",
    # Sets whose order nobody sees.
    "def f(x):\n    return sorted(set(x))[-1], len(set(x)), sum({*x}), max(set(x), default=0)",
    "def f(x):\n    return {v for v in x}",
    "def f(x):\n    return [{'a': set(x)}, {1, x}]",
    "def f(x):\n    seen = set()\n    for v in x:\n        if v not in seen:\n            seen.add(v)\n    return seen",
    "def f(x, y):\n    return sorted(set(x) & set(y) | {1} - set(x).union(y), reverse=True)",
    "def f(x, y):\n    return len(x.keys() & y.keys()), sorted(k for k in set(x) if k in y)",
    "def f(x):\n    return {c: x.count(c) for c in set(x)}",
    "def g(x):\n    return {v for v in x}\ndef f(x):\n    return sorted(g(x))",
    "def f(x):\n    both = set(x)\n    both |= {1}\n    return all(v > 0 for v in both) and not both",
    # Functions that are only called.
    "def f(x):\n    g = lambda v: v + 1\n    return str(g(x)), sorted(x, key=lambda v: -v)",
    "def f(x):\n    def g(v):\n        return v\n    return f'{g(x)}' + str(list(map(g, [x])))",
]
UNSTEADY = [
    # Iterators have no text of their own.
    "def f(x):\n    return '%r' % zip()",
    "def f(x):\n    return '%r' % (zip(),)",
    "def f(x):\n    return int(('%s' % iter([]))[-4], 16)",
    "def f(x):\n    return str(enumerate([]))[-4]",
    "def f(x):\n    return f'{reversed([])}'",
    "from string import Formatter\ndef f(x):\n    return Formatter().format('{}', iter([]))",
    "def f(x):\n    both = zip(x, x)\n    return str(both)",
    "def list(x):\n    return str(x)\ndef f(x):\n    return list(map(abs, x))",
    "def f(x):\n    return list(set(x))",
    "def f(x):\n    return [v for v in {'a', 'b'}]",
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
    "def f(x):\n    return (v for v in x).gi_frame.f_builtins",
    # Sets whose order shows.
    "def f(x):\n    return set(x).pop()",
    "def f(x):\n    for v in set(x):\n        return v",
    "def f(x):\n    s = set(x)\n    s = list(s)\n    return s",
    "def f(x):\n    return str(set(x))",
    "def f(x):\n    return f'{ {*x} }'",
    "def f(x):\n    y = []\n    y += set(x)\n    return y",
    "def f(x):\n    a, b = {'a', 'b'}\n    return a",
    "def f(x):\n    return [*{'a', 'b'}]",
    "def f(x, s={'a', 'b'}):\n    return [v for v in s]",
    "def f(x):\n    return max(set(x), key=len), sorted(set(x), key=len)",
    "def f(x):\n    return sum({(1,), (2,)}, ())",
    "def f(x):\n    return {len(c): c for c in set(x)}",
    "def f(x):\n    d = {c: 1 for c in set(x)}\n    return list(d)",
    "def f(x):\n    out = []\n    any(out.append(c) for c in set(x))\n    return out",
    "def f(x):\n    it = iter(x)\n    return {c: next(it) for c in set(x)}",
    "def f(x):\n    return sorted({1.5, float('nan'), 2.0})",
    "def f(x):\n    try:\n        return sorted({1, 'a'})\n    except TypeError as e:\n        return str(e)",
    "def f(x):\n    g = lambda: {'a', 'b'}\n    return list(g())",
    "def g(x):\n    return {'a', 'b'}\ndef f(x):\n    return list(g(x))",
    "def g(x):\n    return {'a', 'b'}\ndef f(x):\n    h = g\n    return list(h(x))",
    "def g(x):\n    return [{'a', 'b'}]\ndef f(x):\n    return list(g(x)[0])",
    "def g(x):\n    return list(x)\ndef f(x):\n    return g({'a', 'b'})",
    "def f(x):\n    if x:\n        return {'a', 'b'}\n    return list(f(1))",
    "def f(x):\n    sorted = list\n    return sorted({'a', 'b'})",
    "def f(x):\n    def len(s):\n        return list(s)\n    return len({'a', 'b'})",
    "def f(x):\n    return list(map(set, x))[0]",
    "from collections import defaultdict\ndef f(x):\n    d = defaultdict(set)\n    return list(d[1])",
    "import operator\ndef f(x):\n    return list(operator.sub(x.keys(), {1: 1}.keys())), {1}",
    "def g(a, b):\n    return list(a - b)\ndef f(x):\n    return g(x.keys(), x.items())",
    "def f(x):\n    a = x.keys()\n    return list(a - {})",
    "class A:\n    s = {'a', 'b'}\ndef f(x):\n    return list(A.s)",
    "def f(x):\n    s = yield {'a', 'b'}",
    "def f(x):\n    return list(s) if (s := {'a', 'b'}) else 0",
    "def f(x):\n    s = {'a', 'b'} or [1]\n    return list(s)",
    "def f(x):\n    return [v for v in {'a', 'b'} if v]",
    "def f(x):\n    [s] = [{'a', 'b'}]\n    return list(s)",
    "def f(x):\n    return ','.join({'a', 'b'} if x else [])",
    # Sets that views of dicts make, by functions, and by the views' own classes.
    "import operator\ndef f(x):\n    return list(operator.and_(x.keys(), {1: 1}.keys()))",
    "from operator import or_ as both\ndef f(x):\n    return list(both(x.items(), x.items()))",
    "import operator, functools\ndef f(x):\n    return list(functools.reduce(operator.xor, map(dict.keys, x)))",
    "import operator\ndef f(x):\n    s = x.keys()\n    return list(operator.isub(s, {}.keys()))",
    "import operator\ndef f(x):\n    g = operator.ior\n    return next(iter(g(x.keys(), x.keys())))",
    "from collections.abc import KeysView\ndef f(x):\n    return list(KeysView(x) & ['a', 'b'])",
    "import collections\ndef f(x):\n    return list(collections.abc.ItemsView(x) | [(1, 2)])",
    "import typing\nfrom operator import and_\ndef f(x):\n    return list(and_(typing.KeysView(x), 'ab'))",
    "from typing import KeysView as K\ndef f(x):\n    return list(K(x) ^ ['a', 'b'])",
    "import typing\ndef f(x):\n    return list(typing.get_origin(typing.Set[int])(x))",
    # Functions that show where they lie.
    "def f(x):\n    def g():\n        return 1\n    return str(g)",
    "def g():\n    return 1\ndef f(x):\n    return str([g])",
    "def f(x):\n    g = lambda: 1\n    h = g\n    return f'{h}'",
]


@pytest.mark.parametrize("program", STEADY)
def test_steady(program: str) -> None:
    assert not unsteady(program)


@pytest.mark.parametrize("program", UNSTEADY)
def test_unsteady(program: str) -> None:
    assert unsteady(program)


def test_sets_and_floats_among_the_inputs() -> None:
    assert unsteady("def f(x):\n    return list(x)", [{"a", "b"}])
    assert unsteady("def f(x):\n    return list(x)", {"k": (frozenset("a"),)})
    # The order of numbers is steady, and that of nothing too; but the program may add what is not.
    assert unsteady("def f(x):\n    return list(x.union('ab'))", {1, 2})
    assert unsteady("def f(x):\n    x.add('a')\n    x.add('b')\n    return list(x)", set[str]())
    assert unsteady("def f(x):\n    return list(type(x)('ab'))", [frozenset((1,))])
    # A set of numbers one of which is no number has no order.
    assert unsteady("def f(x):\n    return sorted(set(x))", [1.5])
    assert not unsteady("def f(x):\n    return sorted(set(x))", [1])


def test_a_program_that_nests_too_deep_may_show_anything() -> None:
    assert shows_order("def f(x):\n    return list(" + "|".join("a" * 3000) + ")", "f", [])
