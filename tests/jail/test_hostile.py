"""Hostile programs against the kernel's walls, one property each. They import nothing: they use introspection."""

from __future__ import annotations

import platform
from collections.abc import Callable

import pytest

from redqueen.jail import Job, Outcome, Sandbox, canonical
from tests.jail.reach import reach

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

REFUSED = {
    # processes and threads
    "fork": "os.fork()",
    "fork from C": "must(libc.fork())",
    "vfork": "must(libc.vfork())",
    "thread": "real_import('_thread').start_new_thread(f, ())",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "shell": "must(-(libc.system(b'exit 0') != 0))",
    # signals
    "kill everything": "os.kill(-1, 9)",
    "kill the zygote": "os.kill(os.getppid(), 9)",
    "stop itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ignore signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "sleep": "real_import('time').sleep(60)",
    "pause": "must(libc.pause())",
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
    "shared memory": "must(libc.shmget(1234, 4096, 0o1666))",
    # network and kernel
    "socket": "must(libc.socket(2, 1, 0))",
    "unshare": "must(libc.unshare(0x10000000))",
    "ptrace": "must(libc.ptrace(0, 0, 0, 0))",
    "io_uring": "must(libc.syscall(425, 1, 0))",
    "bpf": "must(libc.syscall(321, 0, 0, 0))",
    "process memory": "must(libc.process_vm_readv(1, 0, 0, 0, 0, 0))",
    "executable memory": "must(libc.mmap(0, 4096, 7, 0x22, -1, 0))",
    "make memory executable": "must(libc.mprotect(id(f) // 4096 * 4096, 4096, 7))",
    # limits
    "raise a limit": "resource.prlimit(0, resource.RLIMIT_AS, (-1, -1))",
    "disarm the timer": "must(libc.timer_delete(0))",
    "become root": "must(libc.setuid(0))",
    "dumpable again": "must(libc.prctl(4, 1))",
    "affinity": "os.sched_setaffinity(0, {0})",
    # clocks and entropy
    "entropy": "os.urandom(8)",
    "entropy from C": "must(libc.getrandom(ctypes.create_string_buffer(8), 8, 0))",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED.keys())
def test_the_kernel_refuses(run: Run, code: str) -> None:
    outcome = run(reach(f"return {code}"))
    wanted = "RuntimeError" if "_thread" in code else "PermissionError"
    assert outcome.status == "error"
    assert outcome.detail.startswith(wanted), outcome


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the vDSO is only redirected there")
@pytest.mark.parametrize("clock", ["time", "time_ns", "monotonic", "perf_counter"])
def test_there_is_no_clock(run: Run, clock: str) -> None:
    assert run(reach(f"return real_import('time').{clock}()")).detail.startswith("PermissionError")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 exists there only")
def test_the_x32_system_calls_kill(run: Run) -> None:
    outcome = run(reach("return libc.syscall(0x40000000 + 39)"))
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
    assert run(reach(code)).status == "memory"


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
def test_cpu_time_is_bounded(run_briefly: Run, code: str) -> None:
    outcome = run_briefly(reach(code))
    assert outcome.status == "timeout"
    assert outcome.cpu_ms < 400  # the limit is 100


def test_a_loop_at_the_top_level_is_bounded_too(run_briefly: Run) -> None:
    assert run_briefly("while True:\n    pass").status == "timeout"


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
    assert run(reach(code)).status == status


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
    outcome = run(reach(code), expected=(canonical("needle-in-a-haystack"),))
    assert (outcome.status, outcome.outputs) == ("wrong", ("(True, False)",))


def test_neither_seed_nor_setting_is_in_the_environment(run: Run) -> None:
    code = (
        "libc.getenv.restype = ctypes.c_char_p\nreturn len(os.environ), posix.environ, libc.getenv(b'PYTHONHASHSEED')"
    )
    assert run(reach(code)).outputs == ("(0, {}, None)",)


def test_standard_input_is_empty(run: Run) -> None:
    assert run(reach("return sys.stdin.read()")).outputs == ("''",)


def test_a_program_that_patches_everything_leaves_the_next_one_alone(run: Run) -> None:
    patch = (
        "real = functools.__builtins__\n"
        "for name in ('len', 'print', 'isinstance', 'type', 'range'):\n    real[name] = None\n"
        "sys.modules.clear()\n"
        "sys.modules.update(math=None, values=None, program=None)\n"
        "jail.serve = jail.child = None\n"
        "return 1"
    )
    run(reach(patch))
    assert run("import math\ndef f():\n    return len(range(3)), math.sqrt(4)").outputs == ("(3, 2.0)",)


def test_a_hundred_hostile_jobs_leave_no_process_behind(sandbox: Sandbox) -> None:
    jobs = [Job(reach("os.fork()"), ("",)), Job(reach("os._exit(1)"), ("",)), Job(reach("os.abort()"), ("",))]
    assert {outcome.status for outcome in sandbox.run(jobs * 34)} == {"error"}
    assert sandbox.run([Job("def f():\n    return 1", ("",))])[0].status == "ok"
