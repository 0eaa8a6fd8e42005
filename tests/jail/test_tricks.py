"""Hostile programs against memory, time, the stack, the result and the programs after them. One property each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redqueen.jail import Job, Outcome, Sandbox, canonical
from tests.jail.reach import reach

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

OUTCOMES = {
    # memory
    "unicode normalisation": (
        "memory",
        "return len(real_import('unicodedata').normalize('NFKD', '\\ufdfa' * 10 ** 7))",
    ),
    "big set": ("memory", "return len(set(range(10 ** 8)))"),
    "big dict": ("memory", "return len(dict.fromkeys(range(10 ** 8)))"),
    "big tuple": ("memory", "return len((0,) * 10 ** 10)"),
    "big bytes": ("memory", "return len(b'x' * 10 ** 11)"),
    "big join": ("memory", "return len(','.join(['x' * 10 ** 6] * 10 ** 4))"),
    "big replace": ("memory", "return len(('a' * 10 ** 6).replace('a', 'b' * 10 ** 6))"),
    "big format": ("memory", "return len('{:>10000000000}'.format(1))"),
    "big padding": ("memory", "return len('x'.center(10 ** 10))"),
    "big encoding": ("memory", "return len(('x' * 5 * 10 ** 7).encode('utf-32'))"),
    "big slice assignment": ("memory", "xs = [0]\nwhile True:\n    xs[0:0] = xs"),
    "big repetition of repr": ("memory", "xs = ['x' * 1000] * 10 ** 6\nreturn len(repr(xs))"),
    "growing generator stack": ("memory", "return len(list(map(bytearray, [10 ** 6] * 10 ** 4)))"),
    "heap by hand": (
        "memory",
        "libc.sbrk.restype = ctypes.c_long\nif libc.sbrk(ctypes.c_long(1 << 40)) == -1:\n    raise MemoryError",
    ),
    # To the last block: no memory is left to say so, nor to handle the error that there is none.
    "garbage that nobody collects": ("memory", "gc.disable()\nwhile True:\n    a = []\n    a.append(a)"),
    "more of it": ("memory", "gc.disable()\nwhile True:\n    a = []\n    a.append(a)\n    b = {}\n    b['x'] = b"),
    "swallowed": (
        "timeout",
        "xs = []\nwhile True:\n    try:\n        xs.append(bytearray(10 ** 6))\n    except MemoryError:\n        pass",
    ),
    # time
    "looping str": ("timeout", "class S:\n    __str__ = spin\nreturn str(S())"),
    "looping hash": ("timeout", "class S:\n    __hash__ = spin\nreturn len({S()})"),
    "looping eq": ("timeout", "class S:\n    __hash__ = lambda s: 1\n    __eq__ = spin\nreturn len({S(), S()})"),
    "looping lt": ("timeout", "class S:\n    __lt__ = spin\nreturn sorted([S(), S()])"),
    "looping getattr": ("timeout", "class S:\n    __getattr__ = spin\nreturn S().x"),
    "looping iterator": ("timeout", "import itertools\nreturn max(itertools.count())"),
    "looping exit": ("timeout", "class S:\n    __enter__ = lambda s: s\n    __exit__ = spin\nwith S():\n    return 1"),
    "looping finally": ("timeout", "try:\n    return 1\nfinally:\n    spin()"),
    "looping generator close": (
        "timeout",
        "def g():\n    try:\n        yield 1\n    finally:\n        spin()\nx = g()\nnext(x)\ndel x\nreturn 1",
    ),
    "looping trace": ("timeout", "sys.settrace(spin)\n(lambda: 1)()\nreturn 1"),
    "looping import hook": (
        "timeout",
        "sys.meta_path[:] = [type('M', (), {'find_spec': spin})]\nreal_import('nothing')",
    ),
    "decimal power": (
        "timeout",
        "import decimal\ndecimal.getcontext().prec = 10 ** 6\nreturn decimal.Decimal(2) ** decimal.Decimal('0.3') > 0",
    ),
    "long fractions": (
        "timeout",
        "import fractions\nx, n = fractions.Fraction(1), 2\nwhile 1:\n    x, n = x + fractions.Fraction(1, n), n + 1",
    ),
    "products": ("timeout", "import itertools\nreturn sum(1 for _ in itertools.product(range(10), repeat=12))"),
    "regular expression that nests": ("timeout", "import re\nreturn bool(re.fullmatch('(x+x+)+y', 'x' * 40))"),
    "digits without limit": ("timeout", "sys.set_int_max_str_digits(0)\nreturn len(str(7 ** 10 ** 6))"),
    "slow modulo": ("timeout", "return 3 ** 10 ** 9 % 7"),
    "quadratic text": ("timeout", "return sum(('a' * 5000).count('a' * i + 'b') for i in range(10 ** 7))"),
    "switch interval": ("timeout", "sys.setswitchinterval(10 ** 6)\nwhile True:\n    pass"),
    "busy lock": (
        "timeout",
        "lock = real_import('_thread').allocate_lock()\nlock.acquire()\nwhile not lock.acquire(False):\n    pass",
    ),
    "exceptions all the way": (
        "timeout",
        "while True:\n    try:\n        raise SystemExit\n    except BaseException:\n        pass",
    ),
    # recursion and crashes
    "recursive repr": ("error", "class R:\n    def __repr__(self):\n        return repr(self)\nreturn repr(R())"),
    "recursive getattr": (
        "error",
        "class R:\n    def __getattr__(self, n):\n        return getattr(self, n)\nreturn R().x",
    ),
    "deep repr": ("error", "x = []\nfor _ in range(10 ** 5):\n    x = [x]\nreturn repr(x)"),
    "deep copy": ("error", "import copy\nx = []\nfor _ in range(10 ** 5):\n    x = [x]\nreturn copy.deepcopy(x)"),
    "deep json": ("error", "import json\nreturn json.loads('[' * 10 ** 5)"),
    "deep comparison": ("error", "x, y = [], []\nfor _ in range(10 ** 5):\n    x, y = [x], [y]\nreturn x == y"),
    "deep pattern": ("error", "import re\nreturn re.compile('(' * 10 ** 4 + ')' * 10 ** 4)"),
    "deep stack without a limit": (
        "error",
        "sys.setrecursionlimit(10 ** 9)\nclass R:\n    __repr__ = lambda self: repr(self)\nreturn repr(R())",
    ),
    "wild pointer": ("error", "ctypes.memset(1, 0, 4096)\nreturn 1"),
    "broken object": ("error", "ctypes.memset(id(int) + 16, 255, 200)\nreturn int('3') + 1"),
    "broken code": ("error", "f.__code__ = f.__code__.replace(co_code=bytes([255, 255] * 40))\nreturn f()"),
    "jump to data": ("error", "return ctypes.CFUNCTYPE(ctypes.c_int)(id(f))()"),
    "closure in executable memory": ("memory", "return ctypes.CFUNCTYPE(None)(lambda: None)"),
    "exit in a thread's place": ("error", "libc._exit(0)"),
    "exit by C": ("error", "libc.exit(0)"),
    "quick exit": ("error", "libc.quick_exit(0)"),
    # values
    "mapping proxy": ("unsupported", "return int.__dict__"),
    "memory view": ("unsupported", "return memoryview(b'x')"),
    "enum": ("unsupported", "import enum\nreturn enum.IntEnum('E', 'a').a"),
    "view of a dict": ("unsupported", "return {1: 2}.keys()"),
    "deque": ("unsupported", "import collections\nreturn collections.deque([1])"),
    "fraction": ("unsupported", "import fractions\nreturn fractions.Fraction(1, 2)"),
    "class": ("unsupported", "return int"),
    "module": ("unsupported", "return sys"),
    "exception": ("unsupported", "return ValueError('x')"),
    "not implemented": ("unsupported", "return NotImplemented"),
    "key that is no value": ("unsupported", "return {(lambda: 1): 1}"),
    "text subclass as key": ("unsupported", "return {type('T', (str,), {})('a'): 1}"),
    "lazy map": ("unsupported", "return map(int, '1')"),
    "endless iterator": ("unsupported", "import itertools\nreturn itertools.count()"),
    "long list": ("oversize", "return list(range(10 ** 5))"),
    "long text in a list": ("oversize", "return ['x' * 20_000]"),
    "many empty lists": ("oversize", "return [[] for _ in range(10 ** 5)]"),
    "wide dict": ("oversize", "return dict.fromkeys(range(10 ** 5))"),
    "escapes that grow": ("oversize", "return '\\U0010ffff' * 3_000"),
}


@pytest.mark.parametrize(("status", "code"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_every_trick_has_its_status(run: Run, run_briefly: Run, status: str, code: str) -> None:
    outcome = run_briefly(reach(code)) if status == "timeout" else run(reach(code))
    assert outcome.status == status, outcome


HARMLESS = {
    "closing every descriptor": "os.closerange(0, 64)\nreturn 1",
    "a function for the end": "real_import('atexit').register(lambda: os._exit(1))\nreturn 1",
    "a finaliser for the end": "class D:\n    def __del__(self):\n        os._exit(1)\nsys.keep = D()\nreturn 1",
    "standard output set to nothing": "sys.stdout = sys.stderr = None\nprint('x')\nreturn 1",
    "no modules left": "sys.modules.clear()\nreturn 1",
    "no builtins left": "functools.__builtins__.clear()\nreturn 1",
    "a patched exit": "os._exit = lambda code: None\nos.write = None\nreturn 1",
    "a profiler": "sys.setprofile(lambda *a: None)\nreturn 1",
    "a trace": "sys.settrace(lambda *a: None)\nreturn 1",
    "a low recursion limit": "sys.setrecursionlimit(200)\nreturn 1",
}


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_hurts_only_itself_ends_with_its_value_or_an_error(run: Run, code: str) -> None:
    outcome = run(reach(code))
    assert (outcome.status, outcome.outputs) in (("ok", ("1",)), ("error", ())), outcome


def test_the_request_of_the_program_before_is_not_in_memory(run: Run, sandbox: Sandbox) -> None:
    secret = "the-secret" + "-of-another"
    sandbox.run([Job("def f(x):\n    return x", (repr(secret),), validate=True)] * 3)
    code = (
        "needle = 'the-secret' + '-of-' + 'another'\n"
        "gc = real_import('gc')\n"
        "gc.unfreeze()\n"
        "seen = gc.get_objects()\n"
        "seen += [o for x in list(seen) for o in gc.get_referents(x)]\n"
        "data = [o for o in seen if type(o) in (bytes, bytearray) and needle.encode() in o]\n"
        "return len(data), [o for o in seen if type(o) is str and needle in o and o is not needle]"
    )
    outcome = run(reach(code))
    assert (outcome.status, outcome.outputs) == ("ok", ("(0, [])",)), outcome


@pytest.mark.parametrize("name", ["_timer", "_setting", "_event"])
def test_the_cpu_timer_cannot_be_put_off(run_briefly: Run, name: str) -> None:
    """The buffers that armed it are still there; writing them changes nothing any more."""
    code = f"buffer = sys.modules['lockdown'].{name}\nctypes.memset(ctypes.byref(buffer), 255, ctypes.sizeof(buffer))\n"
    outcome = run_briefly(reach(code + "while True:\n    pass"))
    assert (outcome.status, outcome.cpu_ms < 400) == ("timeout", True)


def test_the_builtins_of_one_program_are_not_those_of_the_next(run: Run) -> None:
    """They are made once, before the fork: what a program does to them stays in its own process."""
    spoil = (
        "frame = sys._getframe()\nwhile 'rules' not in frame.f_locals:\n    frame = frame.f_back\n"
        "rules = frame.f_locals['rules']\ntype(rules).withheld = frozenset()\nrules.builtins.clear()\nreturn 1"
    )
    assert run(reach(spoil)).outputs == ("1",)
    assert run("def f():\n    return open('x')").status == "forbidden"
    assert run("def f():\n    return len('abc')", expected=(canonical(3),)).status == "ok"
