"""Every child of an interpreter starts from the same bytes, so that nothing which a program finds there is a coin."""

from __future__ import annotations

import ast
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.jail import GAME, Job, Limits, Outcome, Sandbox, canonical, child, probe, process
from tests.jail.conftest import AMPLE, BRIEF, runner
from tests.jail.processes import alive, of_group, zygotes
from tests.jail.reach import REACH
from tests.thinned import thinned

Run = Callable[..., Outcome]

pytestmark = pytest.mark.skipif(
    not next((found.ok for found in probe()[1] if found.name == "same start"), False),
    reason="the mother is no machine code on this system",
)

SUMS = (
    REACH
    + """
def f(regions):
    crc32 = real_import("binascii").crc32
    return [crc32(ctypes.string_at(at, 4096)) for start, end in regions for at in range(start, end, 4096)]
"""
)
ENDS = [
    Job("def f(x):\n    return [x] * 200", ("3",)),
    Job("def f(x):\n    return list({x, 'b'})", ("'a'",), validate=True),
    Job("def f(x):\n    return 1 // 0", ("3",)),
    Job("def f(x):\n    return 'a' * x", ("15_000",) * 4),
    Job("def f(x):\n    return len(x)", (f"'{'a' * 15_000}'",) * 9),
    Job("def f(x):\n    return 2", ("1",), expected=(canonical(1),)),
    Job("no program", ("1",)),
    Job("def f(x):\n    while x:\n        pass", ("1",), limits=Limits(cpu_s=0.01)),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Sandbox]:
    """With several mothers of each kind."""
    with Sandbox(GAME.with_limits(AMPLE), workers=5) as shared:
        yield shared


def writable(pid: int) -> list[tuple[int, int]]:
    """Where a process's writable memory lies, but for the one page that mothers keep from their children."""
    found: list[tuple[int, int]] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if words[1][1:2] == "w" and "-" in words[0]:
            start, end = words[0].split("-")
            found.append((int(start, 16), int(end, 16)))
        if words[0] == "VmFlags:" and "dc" in words and found:
            found = [region for region in found if region != found[-1]]
    return found


def test_all_writable_memory_is_the_same_after_any_jobs() -> None:
    limits = Limits(cpu_s=20.0, wall_s=120.0, memory_mb=256, output_bytes=1 << 20)
    with Sandbox(GAME.with_limits(limits), workers=5) as sandbox:
        sandbox.run(ENDS[:1])
        regions = writable(zygotes(sandbox)[0].process.pid)
        look = Job(SUMS, (repr(regions),))
        sums = [look_once(sandbox, look)]
        for times in (1, 2, 10):
            sandbox.run(ENDS * times)
            sums += [look_once(sandbox, look), look_once(sandbox, look)]
        sandbox.run(ENDS[:3] * 333)
        # The last as programs of code_i tasks are graded, with one processor.
        sums += [look_once(sandbox, replace(look, one_processor=last)) for last in (False, False, False, True)]
    assert len(sums[0]) > 1_000
    assert {len({line[page] for line in sums}) for page in range(len(sums[0]))} == {1}


def look_once(sandbox: Sandbox, look: Job) -> list[int]:
    (outcome,) = sandbox.run([look])
    assert outcome.status == "ok", outcome
    return ast.literal_eval(outcome.outputs[0])


# What counted when the interpreter ran Python between two forks.
COUNT = """
import functools
sys = functools.__builtins__["__import__"]("sys")
def count():
    frame, total = sys._getframe(), 0
    while frame:
        if frame.f_code.co_name in ("serve", "child", "main"):
            total = total * 31 + sum(frame.f_code._co_code_adaptive)
        frame = frame.f_back
    return total // 16
def f(x):
    if x == 41:
        return 42
    return 42 if count() * 2654435761 % 2**32 / 2**32 < {rate} else 0
"""


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_a_teacher_cannot_choose_its_solve_rate(pool: Sandbox, rate: float) -> None:
    program = COUNT.format(rate=rate)
    attempt = Job(program, ("7",), expected=(canonical(42),))
    other = Job("def f(x):\n    return x.y", ("7",))
    statuses = [outcome.status for outcome in pool.run([attempt, attempt, other] * 100) if outcome.status != "error"]
    assert len(statuses) == 200
    assert len(set(statuses)) == 1


COINS = {
    "adaptive counters": "count() % 2",
    "list of lists": "[id(x) for x in sorted([[], [], []], key=id)].index(id([])) if 0 else id([1]) // 64 % 2",
    "order of lists": "(lambda xs: sorted(range(3), key=lambda i: id(xs[i]))[0])([[], [], []])",
    "version of a dict": "ctypes.c_uint64.from_address(id(vars(sys)) + 24).value % 2",
    "canary": "word(0x28) // 256 % 2",
    "pointer guard": "word(0x30) % 2",
    "key of malloc": "key() % 2",
    "free blocks": "sys.getallocatedblocks() % 2",
    "stack": "sum(ctypes.string_at(id(sys._getframe()) - 4096, 8192)) % 2",
    "process": "sum(ctypes.string_at(number(libc.pthread_self), 2304)) % 2",
}
HELPERS = """
def word(offset):
    return ctypes.c_uint64.from_address(number(libc.pthread_self) + offset).value
def number(function, *arguments):
    function.restype = ctypes.c_ulong
    return function(*map(ctypes.c_ulong, arguments))
def key():
    block = number(libc.malloc, 40)
    number(libc.free, block)
    return ctypes.c_uint64.from_address(block + 8).value
def count():
    frame, total = sys._getframe(), 0
    while frame:
        total = total * 31 + sum(frame.f_code._co_code_adaptive)
        frame = frame.f_back
    return total // 16
"""


@pytest.mark.parametrize("only", ["True", "id(object()) >> 32 == 0x7fff"], ids=["everywhere", "only in A"])
@pytest.mark.parametrize("coin", thinned(COINS, 3))
def test_a_coin_is_a_constant(pool: Sandbox, coin: str, only: str) -> None:
    program = REACH + HELPERS + f"def f(x):\n    return {COINS[coin]} if {only} else 0"
    noise = Job("def f(x):\n    return 1 // 0", ("1",))
    outcomes = pool.run([Job(program, ("1",), validate=True), noise] * 20)[::2]
    accepted = [outcome.outputs for outcome in outcomes if outcome.status == "ok"]
    assert len(set(accepted)) <= 1
    graded = pool.run([Job(program, ("1",)), noise] * 20)[::2]
    assert len({(outcome.status, outcome.outputs) for outcome in graded}) == 1


@pytest.mark.skipif(not 1 < len(os.sched_getaffinity(0)) < 1024, reason="needs several processors")
def test_one_program_is_graded_on_one_processor_so_that_its_number_is_no_coin() -> None:
    # rdpid, lsl and cpuid tell a process its processor, and no filter of system calls sees them.
    found: dict[int, set[str]] = {}
    with Sandbox(GAME.with_limits(BRIEF), workers=1) as sandbox:
        sandbox.run(ENDS[:1])
        mother = str(zygotes(sandbox)[0].process.pid)
        for number in (1, 2, 3, 4, 5, 1, 2):
            job = sandbox.submit(Job(f"def f():\n    while {number}:\n        pass", ("",), one_processor=True))
            seen = ""
            while not job.done():
                # Until it has read its request it may use what the mother may use.
                for pid in of_group(int(mother)):
                    seen = (pid != mother and allowed(pid)) or seen
            found.setdefault(number, set()).add(seen)
    assert {len(numbers) for numbers in found.values()} == {1}
    everywhere = set.union(*found.values())
    assert len(everywhere) > 1
    assert everywhere <= set(map(str, os.sched_getaffinity(0)))


def allowed(pid: str) -> str:
    """The processors that a process may use, as the kernel writes them; "" once it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "State" and value.split()[0] in ("Z", "X"):
                break
            if name == "Cpus_allowed_list":
                return value.strip()
    return ""


OF_THIS_BUILD = [
    "hash(int) % 97",
    "hash(len) % 97",
    "hash(...) % 97",
    "hash(str.upper) % 97",
    "hash((int, 1)) % 97",
    "id(None) % 1000",
    "id(7) % 1000",
    "[kind.__name__ for kind in {int, str, float, list, dict}]",
    "list(set(map(type, [1, '', 2.0, []])))[0].__name__",
    "max({len, abs, min, max}, key=lambda each: hash(each)).__name__",
]
OF_ANY_BUILD = [
    "len({type(x), int, str})",
    "sorted({int: 2, str: 1}.values())",
    "hash(x) == hash(3)",
    "id(x) == id(x)",
    "id(None) == id(x)",
    "{int: 'i', str: 's', type(None): 'n'}[type(x)]",
    "type(x) in {int, float, None}",
    "isinstance(x, (int, str)) and issubclass(bool, int)",
    "{len: 1, abs: 2}[abs]",
    "sorted(map(str, {1, 2.5, x}))",
]


@pytest.mark.parametrize("code", OF_THIS_BUILD)
def test_what_only_this_build_of_python_decides_is_no_answer(sandbox: Sandbox, code: str) -> None:
    outcome = runner(sandbox)(f"def f(x):\n    return {code}", "3", validate=True)
    assert outcome.status == "nondeterministic"


@pytest.mark.parametrize("code", OF_ANY_BUILD)
def test_types_and_functions_in_tables_are_as_ever(sandbox: Sandbox, code: str) -> None:
    plain: dict[str, object] = {"x": 3}
    outcome = runner(sandbox)(f"def f(x):\n    return {code}", "3", validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", (repr(eval(code, plain)),))


def test_without_machine_code_children_are_forked_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(child.__file__).parent
    script = tmp_path / "zygote.py"
    script.write_text(
        f"import runpy, sys\nsys.path.insert(0, {str(folder)!r})\nimport mother\nmother.MACHINE = 'another'\n"
        f"runpy.run_path({str(folder / 'zygote.py')!r}, run_name='__main__')\n"
    )
    tmp_path.chmod(0o755)
    monkeypatch.setattr(process, "_SCRIPT", script)
    with Sandbox(GAME.with_limits(AMPLE), workers=5) as sandbox:
        first = sandbox.run(ENDS)
        assert [outcome.status for outcome in first] == [
            *("ok", "nondeterministic", "error", "ok", "ok", "wrong", "malformed", "timeout")
        ]
        assert [zygote.isolation["traces"] != "" for zygote in zygotes(sandbox)] == [True] * len(zygotes(sandbox))
        assert [outcome.status for outcome in sandbox.run(ENDS * 5)] == [outcome.status for outcome in first] * 5
        mother = zygotes(sandbox)[0].process.pid
    # Others than the first are not this process's children: they are killed, but it cannot wait for their end.
    deadline = time.monotonic() + 120
    while any(alive(pid) for pid in of_group(mother)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
