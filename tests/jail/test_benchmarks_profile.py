"""The wider profile for solutions of benchmarks: more modules, and the same doors shut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redqueen.jail import BENCHMARKS, GAME, Job, Limits, Outcome, Sandbox
from redqueen.jail.job import PLAIN_MODULES, SOLUTIONS_NEED
from tests.jail.conftest import AMPLE, BRIEF
from tests.jail.processes import of_group, zygotes
from tests.jail.reach import REACH
from tests.jail.test_escapes import AIMED, OTHERWISE

Run = Callable[..., Outcome]
PROBE = Job("import math, random\ndef run(x):\n    return math.sqrt(x), random.random(), len('abc')", ("4",))


@pytest.fixture(scope="module")
def wide() -> Iterator[Sandbox]:
    with Sandbox(BENCHMARKS.with_limits(AMPLE), workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def run(wide: Sandbox, world: Any) -> Iterator[Run]:
    """Runs one job. Afterwards the world is as it was, no process is left, and the next program's result is right."""
    before = wide.run([PROBE])[0]

    def run_one(program: str, *inputs: str, limits: Limits | None = None) -> Outcome:
        return wide.run([Job(program, inputs or ("",), limits=limits)])[0]

    yield run_one
    world.unharmed()
    after = wide.run([PROBE])[0]
    assert (after.status, after.outputs) == (before.status, before.outputs) == ("ok", before.outputs)
    for zygote in zygotes(wide):
        assert of_group(zygote.process.pid) == [str(zygote.process.pid)]


def test_the_list_is_the_games_and_what_solutions_need() -> None:
    assert set(BENCHMARKS.modules) == set(GAME.modules) | set(SOLUTIONS_NEED) | set(PLAIN_MODULES)
    assert all(len(reason) > 10 for reason in SOLUTIONS_NEED.values())
    assert {"os", "time", "threading", "socket", "subprocess", "ctypes"}.isdisjoint(BENCHMARKS.modules)


def test_every_module_of_the_list_can_be_imported(run: Run) -> None:
    imports = "\n".join(f"import {name}" for name in BENCHMARKS.modules if name != "__future__")
    assert run(f"{imports}\ndef run():\n    return datetime.datetime.strptime('2024', '%Y').year").outputs == ("2024",)


@pytest.mark.parametrize("code", AIMED.values(), ids=AIMED.keys())
def test_the_world_is_out_of_reach(run: Run, world: Any, code: str) -> None:
    program = f"{REACH}def run(canary, port, sibling):\n    return {code}"
    outcome = run(program, f"{str(world.canary)!r}, {world.port}, {world.sibling.pid}")
    refusal = OTHERWISE.get(code.partition("(")[0], "PermissionError")
    assert (outcome.status, outcome.detail.split()[0]) == ("error", refusal), outcome


PLAINLY = {
    # What the wider list gives without any introspection.
    "open by builtins": ("import builtins", "builtins.open('/etc/passwd')", "PermissionError"),
    "open by io": ("import io", "io.open('/etc/passwd')", "PermissionError"),
    "os by sys": ("import sys", "sys.modules['os'].listdir('/')", "PermissionError"),
    "fork by sys": ("import sys", "sys.modules['os'].fork()", "PermissionError"),
    "os by exec": ("", "exec('import os')", "import"),
    "os by eval": ("", "eval('__import__(\"os\")')", "import"),
    "entropy": ("import random", "random.SystemRandom().random()", "PermissionError"),
    "a thread": ("import queue", "vars(queue)['threading'].Thread(target=len).start()", "RuntimeError"),
    "withheld open": ("", "open('/etc/passwd')", "open"),
    "standard input": ("", "input()", "EOFError"),
}


@pytest.mark.parametrize(("imports", "code", "said"), PLAINLY.values(), ids=PLAINLY.keys())
def test_what_the_list_leads_to_is_shut_too(run: Run, imports: str, code: str, said: str) -> None:
    outcome = run(f"{imports}\ndef run():\n    return {code}")
    assert outcome.status in ("error", "forbidden"), outcome
    assert outcome.detail.split()[0] == said, outcome


DEEP = """import functools, sys
sys.setrecursionlimit(10**9)
@functools.cache
def deep(x):
    return deep(x + 1)
def run():
    return deep(0)
"""
ENDS = {
    "exit": "import sys\ndef run():\n    sys.modules['os']._exit(0)",
    "exit in an error": "import sys\ndef run():\n    sys.modules['os']._exit(1)",
    "recursion through C": DEEP,
    "waiting": "import queue\ndef run():\n    return queue.Queue().get()",
    "waiting in C": "import queue\ndef run():\n    return queue.SimpleQueue().get()",
    "endless power": "def run():\n    return 10 ** 10 ** 10",
}


@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS.keys())
def test_it_ends_without_harm(run: Run, program: str) -> None:
    outcome = run(program, limits=BRIEF)
    assert outcome.status in ("error", "memory", "timeout"), outcome


def test_huge_outputs_are_cut(run: Run) -> None:
    assert run("def run():\n    return 'x' * 10**7").status == "oversize"
    assert run("import sys\ndef run():\n    sys.stdout.write('x' * 10**7)\n    print('y' * 10**6)").status == "ok"


@pytest.mark.parametrize(
    "code",
    [
        "import builtins\nbuiltins.len = lambda x: 7",
        "import math, sys\nmath.sqrt = len\nsys.modules.clear()",
        "import random\nrandom.seed(7)\nrandom.random = lambda: 7",
        "import sys\nsys.setrecursionlimit(50)\nsys.stdout = sys.stdin = None",
    ],
    ids=["builtins", "modules", "random", "interpreter"],
)
def test_nothing_is_left_over_for_the_next_job(run: Run, code: str) -> None:
    # What becomes of this job is its own affair: the fixture looks at the next one.
    assert run(f"{code}\ndef run():\n    return 1").status in ("ok", "error")


def test_a_job_may_have_limits_of_its_own(run: Run) -> None:
    endless = "def run():\n    while True:\n        pass"
    assert run(endless, limits=BRIEF).detail == "more than 0.1 s of CPU"
    tight = Limits(cpu_s=5.0, wall_s=120.0, memory_mb=64, output_bytes=10)
    assert run("def run():\n    return 'x' * 20", limits=tight).status == "oversize"
    assert run("def run():\n    return 'x' * 20").status == "ok"
