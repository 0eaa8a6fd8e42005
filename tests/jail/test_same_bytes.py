"""A program cannot tell whether it is validated, graded or graded again: every trace that it can find is the same.

One that could would decide which attempts at it are right, and so be paid for a solve rate of its own choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from redqueen.config import SandboxConfig
from redqueen.jail import Job, Outcome, Sandbox
from redqueen.method.judging import judge_proposals
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Proposal
from tests.grading import grade
from tests.jail.reach import REACH

Run = Callable[..., Outcome]

# What the variants use: the frames below the program, the arena that small objects lie in, the interpreter's stack.
HELPERS = """
def frames():
    frame = sys._getframe()
    while frame:
        yield frame
        frame = frame.f_back
def plain(value):
    if type(value) in (int, float, str, bool, bytes, type(None)):
        return value
    if type(value) in (bytearray, memoryview):
        return bytes(value)
    if type(value) in (tuple, list):
        return [plain(item) for item in value][:50]
    return type(value).__name__
def owner(name):
    return next(frame for frame in frames() if name in frame.f_locals).f_locals[name]
def arena():
    return ctypes.string_at(id(object()) >> 20 << 20, 1 << 20)
def at(address, size):
    return ctypes.string_at(address, size)
def number(function, *arguments):
    function.restype = ctypes.c_ulong
    return function(*map(ctypes.c_ulong, arguments))
def refusal(function, *arguments):
    try:
        return plain(function(*arguments))
    except OSError as error:
        return error.errno
"""
FRAMES = {
    "locals": "[[(name, plain(value)) for name, value in frame.f_locals.items()] for frame in frames()]",
    "request": "bytes(owner('request'))",
    "limits": "struct.unpack('!IQQIII', owner('limits'))",
    "size": "owner('size')",
    "passes": "[owner(name) for name in ('passes', 'value_limit', 'index', 'number')]",
    "setup": "plain(owner('setup'))",
    "lines": "[(frame.f_code.co_name, frame.f_lineno, frame.f_lasti) for frame in frames()]",
    "files": "[frame.f_code.co_filename for frame in frames()]",
    "globals": "[(name, plain(value)) for name, value in vars(jail).items()]",
    "other modules": "[(name, plain(value)) for each in ('lockdown', 'mother', 'protocol', 'steady')"
    " for name, value in vars(sys.modules[each]).items()]",
    "environment": "jail.os.environ._data",
    "arguments": "(sys.argv, sys.orig_argv, list(sys.flags), list(sys._xoptions), sys.warnoptions)",
}
GC = {
    "objects": "len(gc.get_objects())",
    "counts": "gc.get_count()",
    "statistics": "gc.get_stats()",
    "frozen": "(gc.get_freeze_count(), gc.isenabled(), gc.get_threshold())",
    "kinds": "sorted((type(each).__name__, 1) for each in gc.get_objects())[::400]",
    "blocks": "sys.getallocatedblocks()",
    "references": "[sys.getrefcount(each) for each in (None, (), '', int, jail, sys)]",
    "numbers": "sorted({item for each in gc.get_objects() if type(each) in (list, tuple) for item in each"
    " if type(item) is int and item > 9_000 and item < 1 << 40})",
    "bytes": "sorted({item for each in gc.get_objects() if type(each) in (list, tuple) for item in each"
    " if type(item) is bytes})[:100]",
    "lists": "sorted(len(each) for each in gc.get_objects() if type(each) is list)",
    "dicts": "sorted(len(each) for each in gc.get_objects() if type(each) is dict)",
    "garbage": "(gc.collect(), len(gc.garbage))",
}
MEMORY = {
    "timer": "list(sys.modules['lockdown']._setting)",
    "twice the limit": "arena().count(struct.pack('!Q', 10_000_000))",
    "whole limit": "arena().count(struct.pack('!Q', 5_000_000)) + arena().count(struct.pack('<I', 5_000_000))",
    "half of it": "arena().count(struct.pack('!Q', 2_500_000)) + arena().count(struct.pack('<I', 2_500_000))",
    "passes": "arena().count(struct.pack('!II', 1, 2 * 16_384 + 64))",
    "environment": "at(ctypes.cast(libc.environ, ctypes.c_void_p).value or id(0), 64)",
    "random bytes": "at(number(libc.getauxval, 25), 16)",
    "command": "at(number(libc.getauxval, 31), 16)",
    "thread": "at(number(libc.pthread_self), 800)[0x2c0:0x2e0]",
    "small": "[id(each) for each in (object(), [], {}, (1, frames), 0.5 + gc.isenabled(), frames)]",
    "large": "[id(bytes(size)) for size in (600, 2_000, 70_000, 1 << 20)]",
    "allocated": "[number(libc.malloc, size) for size in (700, 3_000, 1 << 18)]",
    "top": "number(libc.sbrk, 0)",
    "functions": "[ctypes.cast(each, ctypes.c_void_p).value for each in (libc.malloc, libc.write)]",
    "depth": "len([0 for _ in frames()]), sys.getrecursionlimit()",
}
TIME = {
    "time": "refusal(real_import('time').time)",
    "stop-watch": "refusal(real_import('time').perf_counter)",
    "CPU": "refusal(real_import('time').process_time)",
    "usage": "refusal(resource.getrusage, 0)",
    "limits": "refusal(resource.getrlimit, resource.RLIMIT_CPU)",
    "timer": "refusal(signal.getitimer, 0)",
    "processor": "libc.sched_getcpu()",
    "page of the time": "at(number(libc.getauxval, 33) - 4096, 8)",
}
DESCRIPTORS = {
    "own": "[refusal(os.fstat, number) for number in range(10)]",
    "reading": "[refusal(os.read, number, 1) for number in range(10)]",
    "writing elsewhere": "[refusal(os.write, number, b'') for number in (0, 1, 2, 4, 5)]",
    "place": "refusal(os.lseek, 3, 0, 1)",
    "room": "refusal(real_import('fcntl').fcntl, 3, 1032)",
    "process": "(refusal(os.getpid), refusal(os.getppid), refusal(os.getpgid, 0))",
}
VARIANTS = {
    f"{group}: {name}": code
    for group, codes in {
        "frames": FRAMES,
        "gc": GC,
        "memory": MEMORY,
        "time": TIME,
        "descriptors": DESCRIPTORS,
    }.items()
    for name, code in codes.items()
}
# A value may be long; its bytes decide.
PROGRAM = REACH + HELPERS + "def f(x):\n    found = {code}\n    return repr(found)[:9000]"


def seen(outcome: Outcome) -> object:
    """What interpreter A made of a program: its values, or how it failed."""
    return outcome.outputs or (outcome.status, outcome.detail)


def test_there_are_fifty_variants() -> None:
    assert len(VARIANTS) >= 50


@pytest.mark.parametrize("code", VARIANTS.values(), ids=VARIANTS.keys())
def test_validation_and_grading_leave_the_same_traces(sandbox: Sandbox, code: str) -> None:
    program = PROGRAM.format(code=code)
    validated = Job(program, ("41",), validate=True)
    graded = Job(program, ("41",))
    outcomes = [seen(outcome) for outcome in sandbox.run([validated, graded, replace(graded, patient=True)])]
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_patient_job_has_twice_the_cpu_limit(run_briefly: Run) -> None:
    endless = "def f(x):\n    while True:\n        pass"
    assert run_briefly(endless, "1").detail == "more than 0.1 s of CPU"
    assert run_briefly(endless, "1", patient=True).detail == "more than 0.2 s of CPU"
    assert run_briefly(endless, "1", validate=True).detail == "more than 0.05 s of CPU"


ASKER = """
import functools
real_import = functools.__builtins__["__import__"]
struct, sys = map(real_import, ("struct", "sys"))
def f(x):
    frame = sys._getframe()
    while "limits" not in frame.f_locals:
        frame = frame.f_back
    _, cpu_us, _, passes, _, _ = struct.unpack("!IQQIII", frame.f_locals["limits"])
    return 0 if cpu_us == {cpu_us} and passes == 1 else x + 1
"""


def test_a_program_that_asks_for_its_limits_is_graded_as_it_was_validated() -> None:
    config = SandboxConfig(cpu_s=2.0, wall_s=120.0, workers=1)
    with LocalVerifier(config) as verifier:
        for cpu_us in (1_000_000, 2_000_000, 4_000_000):
            draft = Draft(ASKER.format(cpu_us=cpu_us), ("41",), "")
            ((verdict, task),) = judge_proposals(
                verifier, [Proposal(id="t", kind="code_i", author="a", step=0, draft=draft)]
            )
            # Interpreter B may still object; what matters is that an accepted task keeps its answer.
            if task is not None:
                assert grade(verifier, [(task, "41")])[0].status == "correct", verdict
