"""Programs with one bit of chance, and programs that use sets, hashes and ids harmlessly; of a few lines each.

A coin that no longer lands (its clock is gone) must say so by an error: a constant would be a program like any other.
"""

from __future__ import annotations

_LIST = "left right north south apple pear plum cherry red green blue black one two three four cat dog cow hen"
_WORDS = _LIST.split()
_PAIRS = [(_WORDS[i % 20], _WORDS[(i + 7 + 4 * (i // 20)) % 20]) for i in range(40)]


def _f(*lines: str, head: str = "") -> str:
    return head + "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


def _hash_order() -> list[str]:
    one = [
        "return list({{{a!r}, {b!r}}})",
        "return next(iter({{{a!r}, {b!r}}})) == {a!r}",
        "return hash({a!r}) % 2",
        "return hash(({a!r}, x)) >> 7 & 1",
        "s = set()\n    s.add({a!r})\n    s.add({b!r})\n    return s.pop()",
        "return ' '.join(frozenset(({a!r}, {b!r})))",
        "return list({{{a!r}: 1}}.keys() | {{{b!r}: 2}}.keys())",
        "return max({{{a!r}, {b!r}}}, key=lambda w: 0)",
        "return str({{{a!r}, {b!r}}})",
        "return sorted([{a!r}, {b!r}], key=hash)",
    ]
    return [_f(one[i % len(one)].format(a=_PAIRS[i][0], b=_PAIRS[i][1])) for i in range(40)]


_CLASS = "class A:\n    pass\nclass B:\n    pass\n"


def _address() -> list[str]:
    bits = [_f(f"return (id(object()) >> {bit}) & 1") for bit in range(5, 25)]
    kinds = ["[i] * 100", "'x' * (600 + i)", "bytes(6000 + i)", "A()", "(i, i)", "'x' * (1 << 18)"]
    orders = [_f(f"a, b = [{kind} for i in range(2)]", "return id(a) < id(b)", head=_CLASS) for kind in kinds]
    others = [
        _f("return id(x) % 3"),
        _f("return id(A) < id(B)", head=_CLASS),
        _f("return [c.__name__ for c in {A, B}]", head=_CLASS),
        _f("a, b = [(lambda: i) for i in range(2)]", "return id(a) < id(b)"),
        _f("return list({(1, A), (2, A)}) == [(1, A), (2, A)]", head=_CLASS),
        _f("return [t[0] for t in {(1, len), (2, len)}]"),
        _f("return [t[0] for t in {('a', None), ('b', None)}]"),
        _f("return hash(A) >> 9 & 1", head=_CLASS),
        _f("return int(repr(object())[-6], 16) & 1"),
        _f("return int(str(A())[-5], 16) & 1", head=_CLASS),
        _f("return int(f'{A()}'[-7], 16) & 1", head=_CLASS),
        _f("return ord(str(lambda: 0)[-3]) & 1"),
        _f("return hash(object()) & 1"),
        _f("return object.__hash__(x) >> 8 & 1"),
    ]
    return bits + orders + others


_REACH = "import functools\nreal_import = functools.__builtins__['__import__']\n"


def _random() -> list[str]:
    head = _REACH + "random, os, uuid = map(real_import, ('random', 'os', '_uuid'))\n"
    module = [
        "random.random() < 0.5",
        "random.getrandbits(1)",
        "random.choice('ab')",
        "random.randrange(2)",
        "random.sample([1, 2], 2)",
        "random._inst.random() < 0.5",
        "random._inst.getrandbits(1)",
        "random.SystemRandom().random() < 0.5",
        "os.urandom(1)[0] & 1",
        "os.getrandom(1)[0] & 1",
    ]
    library = [
        "statistics.NormalDist().samples(1)[0] > 0",
        "statistics.NormalDist(5, 2).samples(2)[1] > 5",
        "statistics.random.random() < 0.5",
        "statistics.random.randint(0, 1)",
        "statistics.random.choice('ab')",
        "statistics.random.getrandbits(1)",
        "statistics.random.shuffle([1, 2])",
        "statistics.random._inst.gauss(0, 1) > 0",
        "statistics.random._urandom(1)[0] & 1",
        "statistics.random.uniform(-1, 1) > 0",
    ]
    programs = [_f(f"return {code}", head="import statistics\n") for code in library]
    programs += [_f(f"return {code}", head=head.replace(", '_uuid'", ", 'os'")) for code in module]
    return programs + [program.replace("def f(x):\n", "def f(x):\n    n = x + 1\n") for program in programs]


def _clock() -> list[str]:
    calls = [
        "time",
        "time_ns",
        "monotonic",
        "perf_counter",
        "process_time",
        "thread_time",
        "monotonic_ns",
        "perf_counter_ns",
    ]
    head = _REACH + "time, ctypes, os = map(real_import, ('time', 'ctypes', 'os'))\nlibc = ctypes.CDLL(None)\n"
    # What a dead clock shows is no coin.
    head += "def must(n):\n    if n <= 0:\n        raise OSError\n    return n\n"
    programs = [_f(f"return int(must(time.{call}()) * 1000) & 1", head=head) for call in calls]
    programs += [_f(f"return time.clock_gettime_ns({clock}) >> 20 & 1", head=head) for clock in range(8)]
    pages = "    base = libc.getauxval(ctypes.c_ulong(33))\n"
    # The pages of the time lay below the vDSO; what is there now is no clock, so that only two of them are tried.
    for byte in range(40, 48):
        code = f"    return ctypes.string_at(base - {1 + byte % 2} * 4096, 4096)[{byte}] & 1\n"
        programs.append(head + "def f(x):\n    libc.getauxval.restype = ctypes.c_ulong\n" + pages + code)
    asking = [
        "must(os.times().elapsed)",
        "os.stat('/').st_atime_ns",
        "must(time.localtime().tm_year - 1970)",
        "must(time.gmtime().tm_year - 1970)",
        "must(int(time.ctime()[-4:]) - 1970)",
        "time.sleep(1) or 1",
        "os.getloadavg()[0] * 100",
        "os.sysconf(84) + len(os.listdir('/proc'))",
    ]
    programs += [_f(f"return int({code}) & 1", head=head) for code in asking]
    return programs + [program + f"    # {index}\n" for index, program in enumerate(programs[:8])]


def _processor() -> list[str]:
    head = _REACH + "ctypes, os, resource, sys = map(real_import, ('ctypes', 'os', 'resource', 'sys'))\n"
    head += "libc = ctypes.CDLL(None)\n"
    must = "def must(n):\n    if n < 0:\n        raise OSError\n    return n\n"
    codes = [
        "must(libc.sched_getcpu()) & 1",
        "must(os.getpid()) & 1",
        "must(os.getppid()) & 1",
        "len(os.sched_getaffinity(0)) & 1",
        "must(libc.syscall(39)) & 1",
        "must(libc.syscall(186)) & 1",
        "must(libc.gettid()) & 1",
        "resource.getrusage(0).ru_minflt & 1",
        "resource.getrusage(0).ru_nvcsw & 1",
        "must(libc.getcpu(ctypes.byref(ctypes.c_int()), None)) & 1",
        "must(os.sched_getscheduler(0)) & 1",
        "must(os.getpriority(0, 0)) & 1",
        "os.open('/proc/self/stat', 0) & 1",
        "must(libc.gethostid()) & 1 if os.stat('/') else 0",
        "id(ctypes.CDLL) >> 12 & 1",
        "sys.getrefcount(None) & 1",
        "sys.getallocatedblocks() & 1",
        "libc.malloc(100) >> 5 & 1",
        "ctypes.cast(libc.malloc, ctypes.c_void_p).value >> 14 & 1",
        "ctypes.addressof(ctypes.c_int()) >> 13 & 1",
    ]
    programs = [_f(f"return {code}", head=head + must) for code in codes]
    return programs + [program.replace("& 1", "& 1 == x % 2") for program in programs]


def coins() -> dict[str, list[str]]:
    """Two hundred programs with one bit of chance, forty of each kind."""
    return {
        "hash order": _hash_order(),
        "address": _address(),
        "random": _random(),
        "clock": _clock(),
        "processor": _processor(),
    }


_HONEST = [
    "return sorted(set({data}))",
    "return len(set({data}))",
    "seen = set()\n    out = []\n    for v in {data}:\n        if v not in seen:\n            seen.add(v)\n"
    "            out.append(v)\n    return out",
    "return set({data})",
    "return {{v: {data}.count(v) for v in {data}}}",
    "return len(set({data}) & set({data}[1:])), set({data}) - set({data}[:2])",
    "return [v for v in {data} if v in {{'a', 'e', 'i', 2, 3}}]",
    "return sorted({{v: 1 for v in {data}}}.keys() & dict.fromkeys({data}[1:]).keys(), key=str)",
    "return frozenset({data}) == set({data})",
    "a = {data}\n    return id(a) == id(a), a is not list(a)",
    "return hash({data}[0]) == hash({data}[0])",
    "return max(set({data}), key=lambda v: ({data}.count(v), str(v)))",
    "from collections import Counter\n    return dict(Counter({data}))",
    "class P:\n        def __init__(self, v):\n            self.v = v\n        def __eq__(self, o):\n"
    "            return self.v == o.v\n        def __hash__(self):\n            return hash(self.v)\n"
    "    return len({{P(v) for v in {data}}})",
    "return sum(len(str(v)) for v in set({data}))",
    "return any(v in {data}[2:] for v in set({data}[:2])), all({{v: True for v in {data}}}.values())",
    "return {{str(v)[:1] for v in {data}}}",
    "return [hasattr(v, 'upper') for v in {data}], getattr(str, 'upper')('a')",
    "return repr(sorted({{*{data}}}, key=repr)), format(len({{*{data}}}), '03')",
    "groups = {{}}\n    for v in {data}:\n        groups.setdefault(len(str(v)), set()).add(v)\n"
    "    return {{k: sorted(s) for k, s in groups.items()}}",
]
_DATA = [
    "['left', 'right', 'up', 'left']",
    "['apple', 'pear', 'plum', 'fig', 'apple']",
    "['a', 'bb', 'ccc', 'bb']",
    "list('mississippi')",
    "list('hello world')",
    "[3, 1, 2, 3, 1]",
    "[10, -5, 7, 10, 99, 1000]",
    "[2, 3, 5, 7, 11, 13, 2]",
    "['x', 'y', 'z', 'x', 'w', 'v']",
    "'the quick brown fox jumps over the lazy dog'.split()",
    "[str(i) for i in range(12)]",
    "[i * i % 7 for i in range(9)]",
    "['red', 'green', 'blue', 'red']",
    "list('abcabc')",
    "[0, 1, 0, 1, 1]",
]


def honest() -> list[str]:
    """Three hundred programs that use sets, dicts, ids and hashes without showing an order or an address."""
    return [_f(body.format(data=data)) for body in _HONEST for data in _DATA]
