"""Hostile programs, one property each. They import nothing: everything is reached by introspection."""

from __future__ import annotations

import platform
from collections.abc import Callable

import pytest

from redqueen.sandbox import Job, Outcome, Sandbox, canonical

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

# What any program can reach: a standard module still holds the real builtins, and they hold everything loaded.
REACH = """
import functools
real_import = functools.__builtins__["__import__"]
sys, os, ctypes, posix, signal, resource, gc, struct = map(
    real_import, "sys os ctypes posix signal resource gc struct".split()
)
jail = sys.modules["__main__"]
libc = ctypes.CDLL(None, use_errno=True)
def frame(kind, data):
    return kind + struct.pack("!I", len(data)) + data
def value(v):
    return frame(b"V", jail.encode(v))
def end(status="ok", detail=""):
    return frame(b"E", jail.encode((status, detail)))
"""


def body(code: str) -> str:
    """A program whose `f` does `code` with everything in reach."""
    return REACH + "def f():\n" + "".join(f"    {line}\n" for line in code.split("\n"))


REFUSED = {
    # processes and threads
    "fork": "os.fork()",
    "fork from C": "libc.fork() == -1 and error()",
    "vfork": "libc.vfork() == -1 and error()",
    "thread": "real_import('_thread').start_new_thread(f, ())",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "shell": "libc.system(b'exit 0') != 0 and error()",
    # signals
    "kill everything": "os.kill(-1, 9)",
    "kill the zygote": "os.kill(jail._zygote, 9)",
    "stop itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ignore signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "sleep": "real_import('time').sleep(60)",
    "pause": "libc.pause() == -1 and error()",
    # files
    "open": "os.open('/etc/passwd', os.O_RDONLY)",
    "builtin open": "functools.__builtins__['open']('/etc/passwd')",
    "create": "os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)",
    "proc": "os.listdir('/proc')",
    "own environment": "os.open('/proc/self/environ', os.O_RDONLY)",
    "symlink": "os.symlink('/etc/passwd', '/tmp/link')",
    "directory": "os.mkdir('/tmp/x')",
    "stat": "os.stat('/etc/passwd')",
    "memfd": "os.memfd_create('x')",
    "pipe": "os.pipe()",
    "duplicate": "os.dup(3)",
    "close the result": "os.close(3)",
    "read the result": "os.read(3, 1)",
    "read standard input": "os.read(0, 1)",
    "write standard output": "os.write(1, b'x')",
    "shared memory": "libc.shmget(1234, 4096, 0o1666) == -1 and error()",
    # network and kernel
    "socket": "libc.socket(2, 1, 0) == -1 and error()",
    "unshare": "libc.unshare(0x10000000) == -1 and error()",
    "ptrace": "libc.ptrace(0, 0, 0, 0) == -1 and error()",
    "io_uring": "libc.syscall(425, 1, 0) == -1 and error()",
    "bpf": "libc.syscall(321, 0, 0, 0) == -1 and error()",
    "process memory": "libc.process_vm_readv(1, 0, 0, 0, 0, 0) == -1 and error()",
    "executable memory": "libc.mmap(0, 4096, 7, 0x22, -1, 0) == -1 and error()",
    "make memory executable": "libc.mprotect(id(f) // 4096 * 4096, 4096, 7) == -1 and error()",
    # limits
    "raise a limit": "resource.prlimit(0, resource.RLIMIT_AS, (-1, -1))",
    "disarm the timer": "libc.timer_delete(0) == -1 and error()",
    "become root": "libc.setuid(0) == -1 and error()",
    "dumpable again": "libc.prctl(4, 1) == -1 and error()",
    "affinity": "os.sched_setaffinity(0, {0})",
    # clocks and entropy
    "entropy": "os.urandom(8)",
    "entropy from C": "libc.getrandom(ctypes.create_string_buffer(8), 8, 0) == -1 and error()",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED.keys())
def test_the_kernel_refuses(run: Run, code: str) -> None:
    # A call from C that comes back with -1 and EPERM is turned into the same exception.
    helper = "def error():\n    raise PermissionError if ctypes.get_errno() == 1 else ValueError(ctypes.get_errno())\n"
    outcome = run(body(f"return {code}") + helper)
    wanted = "RuntimeError" if "_thread" in code else "PermissionError"
    assert outcome.status == "error"
    assert outcome.detail.startswith(wanted), outcome


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the vDSO is only redirected there")
@pytest.mark.parametrize("clock", ["time", "time_ns", "monotonic", "perf_counter"])
def test_there_is_no_clock(run: Run, clock: str) -> None:
    assert run(body(f"return real_import('time').{clock}()")).detail.startswith("PermissionError")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 exists there only")
def test_the_x32_system_calls_kill(run: Run) -> None:
    outcome = run(body("return libc.syscall(0x40000000 + 39)"))
    assert (outcome.status, outcome.detail) == ("error", "killed by SIGSYS")


MEMORY = {
    "allocation": "return len(bytearray(10 ** 10))",
    "growing list": "xs = []\nwhile True:\n    xs.append('x' * 10 ** 6)",
    "big text": "return len('a' * 10 ** 9)",
    "big shift": "return (1 << 10 ** 10) > 0",
    "format width": "return len('%*d' % (10 ** 9, 1))",
    "endless iterator": "import itertools\nreturn list(itertools.repeat('x'))",
    "decimal precision": "import decimal\ndecimal.getcontext().prec = 10 ** 9\nreturn str(decimal.Decimal(1) / 3)",
    "mapping by hand": "m = libc.mmap\nm.restype = ctypes.c_long\n"
    "if m(0, ctypes.c_size_t(1 << 40), 3, 0x22, -1, 0) == -1:\n    raise MemoryError",
}


@pytest.mark.parametrize("code", MEMORY.values(), ids=MEMORY.keys())
def test_memory_is_bounded(run: Run, code: str) -> None:
    assert run(body(code)).status == "memory"


CPU = {
    "loop": "while True:\n    pass",
    "loop that catches all": "while True:\n    try:\n        while True:\n            pass\n"
    "    except BaseException:\n        pass",
    "fork bomb": "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "power": "return 9 ** 9 ** 9",
    "factorial": "import math\nreturn math.factorial(10 ** 7)",
    "regular expression": "import re\nreturn re.match('(a+)+$', 'a' * 40 + 'b')",
    "hash flooding": "return len({i * (2 ** 61 - 1) for i in range(10 ** 5)})",
    "one endless call": "import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)",
    "long sum": "return sum(range(10 ** 12))",
    "print flood": "while True:\n    print('x' * 10 ** 5)",
    "looping repr": "class R:\n    def __repr__(self):\n        while True:\n            pass\nreturn f'{R()!r}'",
    "looping del": "class D:\n    def __del__(self):\n        while True:\n            pass\nD()\nreturn 1",
    "looping name": "class M(type):\n    @property\n    def __name__(self):\n        while True:\n            pass\n"
    "class E(Exception, metaclass=M):\n    @property\n    def __traceback__(self):\n"
    "        while True:\n            pass\n"
    "raise E",
}


@pytest.mark.parametrize("code", CPU.values(), ids=CPU.keys())
def test_cpu_time_is_bounded(run: Run, code: str) -> None:
    outcome = run(body(code))
    assert outcome.status == "timeout"
    assert outcome.cpu_ms < 600  # the limit is 300


def test_a_loop_at_the_top_level_is_bounded_too(run: Run) -> None:
    assert run("while True:\n    pass").status == "timeout"


DEEP = {
    "endless recursion": ("error", "return f()"),
    "recursion in C": (
        "error",
        "sys.setrecursionlimit(10 ** 9)\ng = lambda x: list(map(g, [x]))\nreturn g(1)",
    ),
    "null pointer": ("error", "return ctypes.string_at(0)"),
    "abort": ("error", "os.abort()"),
    "deadlock": ("error", "lock = real_import('_thread').allocate_lock()\nlock.acquire()\nlock.acquire()"),
    "exit": ("error", "os._exit(0)"),
    "exit politely": ("error", "sys.exit(0)"),
    "base exception": ("error", "raise type('Own', (BaseException,), {})"),
    "interrupt": ("error", "raise KeyboardInterrupt"),
    "generator exit": ("error", "raise GeneratorExit"),
    "nested value": ("oversize", "x = []\nfor _ in range(500):\n    x = [x]\nreturn x"),
    "shared value": ("oversize", "x = []\nfor _ in range(50):\n    x = [x, x]\nreturn x"),
    "cyclic value": ("oversize", "x = []\nx.append(x)\nreturn x"),
    "huge text": ("oversize", "return 'a' * 10 ** 7"),
    "huge int": ("oversize", "return 1 << 10 ** 6"),
    "int to text": ("error", "return str(10 ** 5000)"),
}


@pytest.mark.parametrize(("status", "code"), DEEP.values(), ids=DEEP.keys())
def test_crashes_exits_and_bombs(run: Run, status: str, code: str) -> None:
    assert run(body(code)).status == status


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "x = " + "-" * 30_000 + "1",
        "x = " + "lambda: " * 8_000 + "1",
        "def f(x):\n" + " if x:" * 5_000,
        "x = " + "[" * 5_000 + "]" * 5_000,
        "x = " + "1 + " * 15_000 + "1",
    ],
    ids=["parentheses", "signs", "lambdas", "statements", "lists", "sums"],
)
def test_compile_bombs_are_malformed(run: Run, text: str) -> None:
    assert run(text + "\n").status == "malformed"


def test_the_right_answer_is_not_in_the_process(run: Run) -> None:
    # Everything the collector knows, every frame's locals, and the raw request are searched for the secret.
    code = (
        "gc.unfreeze()\n"
        "seen = [o for o in gc.get_objects()] + [v for o in gc.get_objects() for v in gc.get_referents(o)]\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    seen += list(frame.f_locals.values())\n"
        "    frame = frame.f_back\n"
        "needle = 'needle' + '-in-a-haystack'\n"
        "texts = [o for o in seen if type(o) in (str, bytes, bytearray)]\n"
        "found = any(needle in o if type(o) is str else needle.encode() in o for o in texts if o is not needle)\n"
        "return len(texts) > 1000, found"
    )
    outcome = run(body(code), expected=(canonical("needle-in-a-haystack"),))
    assert (outcome.status, outcome.outputs) == ("wrong", ("(True, False)",))


def test_neither_seed_nor_setting_is_in_the_environment(run: Run) -> None:
    code = (
        "libc.getenv.restype = ctypes.c_char_p\nreturn len(os.environ), posix.environ, libc.getenv(b'PYTHONHASHSEED')"
    )
    assert run(body(code)).outputs == ("(0, {}, None)",)


def test_standard_input_is_empty(run: Run) -> None:
    assert run(body("return sys.stdin.read()")).outputs == ("''",)


FRAMES = {
    "twice": "os.write(3, value(7) + end())\nreturn 7",
    "twice by hand": "os.write(3, (value(7) + end()) * 2)\nos._exit(0)",
    "two values": "os.write(3, value(7))\nreturn 7",
    "two ends": "os.write(3, value(7) + end() * 2)\nos._exit(0)",
    "then a crash": "os.write(3, value(7) + end())\nctypes.string_at(0)",
    "then a bad exit": "os.write(3, value(7) + end())\nos._exit(3)",
    "then a byte": "os.write(3, value(7) + end() + b'V')\nos._exit(0)",
    "half of one": "os.write(3, value(7) + end()[:-1])\nos._exit(0)",
    "half of a value": "os.write(3, value(7)[:-1])\nos._exit(0)",
    "no end": "os.write(3, value(7))\nos._exit(0)",
    "no bytes": "os._exit(0)",
    "rubbish": "os.write(3, b'rubbish')\nos._exit(0)",
    "rubbish between": "os.write(3, value(7) + b'rubbish' + end())\nos._exit(0)",
    "rubbish before": "os.write(3, b'?')\nreturn 7",
    "locked in again": "os.write(3, b'L' + value(7) + end())\nos._exit(0)",
    "too many values": "os.write(3, value(7) * 2 + end())\nos._exit(0)",
    "too few values": "os.write(3, end())\nos._exit(0)",
    "the end first": "os.write(3, end() + value(7))\nos._exit(0)",
    "a length of four gigabytes": "os.write(3, b'V' + b'\\xff' * 4 + end())\nos._exit(0)",
    "another frame": "os.write(3, value(7) + frame(b'X', b'') + end())\nos._exit(0)",
    "a status of the parent": "os.write(3, value(7) + end('infra_error'))\nos._exit(0)",
    "another of the parent": "os.write(3, value(7) + end('wrong'))\nos._exit(0)",
    "an unhashable status": "os.write(3, value(7) + end([]))\nos._exit(0)",
    "a pickle": "os.write(3, frame(b'V', b'N.') + frame(b'E', b'\\x80\\x04N.'))\nos._exit(0)",
    "rubbish as value": "os.write(3, frame(b'V', b'?') + end())\nos._exit(0)",
    "a patched encoder": "sys.modules['values']._Encoder._integer = lambda self, value: b'?'\nreturn 1",
}


@pytest.mark.parametrize("code", FRAMES.values(), ids=FRAMES.keys())
def test_only_one_whole_transcript_and_a_clean_exit_count(run: Run, code: str) -> None:
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(body(code), **fields)
        assert (outcome.status, outcome.outputs) == ("error", ()), outcome


def test_a_forged_transcript_says_no_more_than_a_return_value(run: Run) -> None:
    # Nothing is won by it: the program could have returned 7. It is judged like any other value.
    forged = body("os.write(3, value(7) + end())\nos._exit(0)")
    assert run(forged).outputs == ("7",)
    assert run(forged, expected=(canonical(8),)).status == "wrong"
    assert run(forged, validate=True).status == "nondeterministic"  # one pass where two were asked for


def test_a_flood_of_raw_output_is_cut(run: Run) -> None:
    flood = body("while True:\n    os.write(3, b'x' * 65536)")
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(flood, **fields)
        assert (outcome.status, outcome.detail) == ("oversize", "more output than the cap")


def test_a_flood_of_right_values_is_cut(run: Run) -> None:
    flood = body("values = value(7) * 5000\nwhile True:\n    os.write(3, values)")
    outcome = run(flood, expected=(canonical(7),))
    assert (outcome.status, outcome.detail) == ("oversize", "more output than the cap")


def test_half_a_frame_and_then_nothing_is_a_timeout(run: Run) -> None:
    outcome = run(body("os.write(3, value(7)[:-1])\nwhile True:\n    pass"), expected=(canonical(7),))
    assert (outcome.status, outcome.outputs) == ("timeout", ())


def test_hash_flooding_in_the_result_is_refused_in_the_parent(run: Run) -> None:
    code = (
        "values = sorted(jail.encode(i * (2 ** 61 - 1)) for i in range(2000))\n"
        "data = b's' + struct.pack('!I', len(values)) + b''.join(values)\n"
        "os.write(3, frame(b'V', data) + end())\nos._exit(0)"
    )
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(body(code), **fields)
        assert (outcome.status, outcome.detail) == ("error", "a forged value: too many members with the same hash")


DISGUISES = {
    "always equal": "class V:\n    __eq__ = lambda s, o: True\n    __hash__ = object.__hash__\nreturn V()",
    "subclass of int": "class V(int):\n    pass\nreturn V(3)",
    "subclass inside": "class V(str):\n    pass\nreturn [V('x')]",
    "false class": "class V:\n    __class__ = property(lambda self: int)\nreturn V()",
    "type that equals int": "class M(type):\n    __eq__ = lambda c, o: True\n    __hash__ = lambda c: hash(int)\n"
    "class V(metaclass=M):\n    pass\nreturn V()",
    "own repr": "class V:\n    def __repr__(self):\n        return '42'\nreturn V()",
    "own reduce": "class V:\n    def __reduce__(self):\n        return (int, ('42',))\nreturn V()",
    "generator": "return (i for i in [1])",
    "function": "return lambda: 42",
    "coroutine": "async def g():\n    return 1\nreturn g()",
    "named tuple": "import collections\nreturn collections.namedtuple('P', 'x')(1)",
    "counter": "import collections\nreturn collections.Counter('a')",
    "decimal": "import decimal\nreturn decimal.Decimal(1)",
    "bytearray": "return bytearray(b'x')",
    "range": "return range(3)",
    "ellipsis": "return ...",
}


@pytest.mark.parametrize("code", DISGUISES.values(), ids=DISGUISES.keys())
def test_only_plain_builtin_values_come_out(run: Run, code: str) -> None:
    assert run(body(code), expected=(canonical(42),)).status == "unsupported"


@pytest.mark.parametrize(
    ("code", "literal"),
    [
        ("return '\\ud800'", "'\\ud800'"),
        ("return 'a\\0b'", "'a\\x00b'"),
        ("return float('nan')", "float('nan')"),
        ("return {float('inf'), 1.0}", "{1.0, float('inf')}"),
        ("return b'\\xff', -0.0, 1j", "(b'\\xff', -0.0, 1j)"),
        ("return True, 1, 1.0, None", "(True, 1, 1.0, None)"),
    ],
)
def test_odd_but_plain_values_come_out_exactly(run: Run, code: str, literal: str) -> None:
    outcome = run(body(code))
    assert (outcome.status, outcome.outputs) == ("ok", (literal,))


def test_the_detail_is_one_printable_line(run: Run) -> None:
    outcome = run(body("raise type('\\x1b[31m\\n\\u202e' + 'x' * 5000, (Exception,), {})"))
    assert outcome.status == "error"
    assert outcome.detail.isprintable()
    assert len(outcome.detail) <= 200


def test_a_program_that_patches_everything_leaves_the_next_one_alone(run: Run) -> None:
    patch = (
        "real = functools.__builtins__\n"
        "for name in ('len', 'print', 'isinstance', 'type', 'range'):\n    real[name] = None\n"
        "sys.modules.clear()\n"
        "sys.modules.update(math=None, values=None, program=None)\n"
        "jail.serve = jail.child = None\n"
        "return 1"
    )
    run(body(patch))
    assert run("import math\ndef f():\n    return len(range(3)), math.sqrt(4)").outputs == ("(3, 2.0)",)


def test_a_hundred_hostile_jobs_leave_no_process_behind(sandbox: Sandbox) -> None:
    jobs = [Job(body("os.fork()"), ("",)), Job(body("os._exit(1)"), ("",)), Job(body("os.abort()"), ("",))]
    assert {outcome.status for outcome in sandbox.run(jobs * 34)} == {"error"}
    assert sandbox.run([Job("def f():\n    return 1", ("",))])[0].status == "ok"
