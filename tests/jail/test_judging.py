"""`judge` from outside: what passes, what does not, and that a program cannot make itself pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redqueen.jail import PROGRAMS, Call, Limits, Outcome, Sandbox, Script, judge
from redqueen.jail.judging import printed, printed_job, script_job, shared_sandbox
from tests.jail.conftest import AMPLE
from tests.jail.reach import REACH
from tests.jail.test_escapes import AIMED, OTHERWISE

ADD = "def add(a, b):\n    return a + b\n"
SUM = "print(sum(map(int, input().split())))"
OUTPUT = PROGRAMS.limits.output_bytes
SLOW = Limits(cpu_s=0.2, wall_s=120.0, memory_mb=64, output_bytes=OUTPUT)

Judge = Callable[..., Outcome]


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    limits = Limits(cpu_s=AMPLE.cpu_s, wall_s=AMPLE.wall_s, memory_mb=64, output_bytes=OUTPUT)
    with Sandbox(PROGRAMS.with_limits(limits), workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def judged(jail: Sandbox) -> Judge:
    def run(program: str, *tests: Any, limits: Limits | None = None) -> Outcome:
        return judge(program, tests, sandbox=jail, limits=limits or jail.profile.limits)

    return run


def test_every_form_of_a_test_passes_where_the_program_is_right(judged: Judge) -> None:
    assert judged(ADD, "assert add(1, 2) == 3", Call("add", ([1], [2]), [1, 2])).status == "ok"
    assert judged(SUM, Script("1 2\n", "3"), Script("4 5", "9\n\n")).status == "ok"
    assert judged(
        "class Solution:\n    def g(self, x):\n        return {x}", "assert Solution().g(1) == {1}"
    ).outputs == ("{1}",)


def test_the_mark_in_front_of_a_file_is_no_part_of_a_program(judged: Judge) -> None:
    assert judged(f"\ufeff{ADD}", "assert add(1, 2) == 3").status == "ok"
    assert judged(f"\ufeff{SUM}", Script("1 2\n", "3")).status == "ok"
    # As in a file, one is skipped.
    assert judged(f"\ufeff\ufeff{ADD}", "assert add(1, 2) == 3").status == "malformed"


def test_the_first_test_that_fails_decides_and_is_named(judged: Judge) -> None:
    wrong = judged(ADD, "assert add(1, 2) == 3", "assert add(2, 2) == 5", "assert add(1, 'a') == 0")
    assert (wrong.status, wrong.detail) == ("wrong", "test 1 gave 4")
    printed = judged(SUM, Script("1 2", "3"), Script("1 2", "4"))
    assert (printed.status, printed.detail) == ("wrong", "test 1 printed '3\\n'")


DELETED = "class A:\n    def __del__(self):\n        print('gone')\na = A()\n"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("import sys\nprint(1)\nsys.stdout.close()", "1"),
        ("import sys\nprint(1)\nsys.stdout.detach()", "1"),
        ("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach())\nprint(1)", "1"),
        ("import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint(1)", "1"),
        ("import sys\nsys.stderr.close()\nprint(1)", "1"),
        (DELETED + "print(1)", "1\ngone"),
        (DELETED + "def f():\n    return a\nprint(f() is a)", "True\ngone"),
        (DELETED + "import sys\nsys.exit()", "gone"),
        (DELETED + "import sys\nsys.modules.clear()", "gone"),
    ],
)
def test_what_a_program_prints_at_its_end_is_printed(judged: Judge, program: str, text: str) -> None:
    assert judged(program, Script("", text)).status == "ok"


@pytest.mark.parametrize(
    ("said", "code"), [("3", 3), ("-1", 255), ("2**40 + 3", 3), ("10**5000", 255), ("-10**5000", 255), ("True", 1)]
)
def test_an_exit_code_is_what_python_makes_of_it(jail: Sandbox, said: str, code: int) -> None:
    (outcome,) = jail.run([script_job(f"import sys\nsys.exit({said})", "")])
    left = printed(outcome)
    assert left is not None
    assert left.code == code


def test_values_are_equal_as_an_assertion_says(judged: Judge) -> None:
    assert judged("def f():\n    return 4", "assert f() == 4.0").status == "ok"
    assert judged("def f():\n    return [1, 2]", "assert f() == (1, 2)").status == "wrong"


@pytest.mark.parametrize(
    ("program", "test", "status", "detail"),
    [
        ("def f(:", "assert f() == 1", "malformed", "SyntaxError"),
        ("def f(:", Script("", ""), "malformed", "test 0: SyntaxError: invalid syntax (<program>, line 1)"),
        ("", "assert f() == 1", "error", "NameError"),
        ("def f():\n    return 1 / 0", "assert f() == 1", "error", "ZeroDivisionError at line 2"),
        ("import socket", Script("", ""), "forbidden", "test 0: ForbiddenError: import of socket"),
        ("import socket\ndef f(): ...", "assert f() == 1", "forbidden", "import of socket"),
        ("raise SystemExit(3)", Script("", ""), "error", "test 0: exit code 3"),
        ("exit('no')", Script("", ""), "error", "test 0: no"),
        ("print('x' * (1 << 24))", Script("", ""), "oversize", "more than 8388608 bytes"),
        ("x = bytearray(1 << 30)", Script("", ""), "memory", "MemoryError"),
        ("def f():\n    return object()", "assert f() == 1", "unsupported", "object"),
    ],
)
def test_what_becomes_of_a_program_that_fails(judged: Judge, program: str, test: Any, status: str, detail: str) -> None:
    outcome = judged(program, test)
    assert outcome.status == status
    assert detail in outcome.detail


RECURSIVE = "def f(n):\n    return n if n == 0 else f(n - 1)\n"


@pytest.mark.parametrize(
    "test",
    [
        lambda n: (RECURSIVE, Call("f", (n,), 0)),
        lambda n: (RECURSIVE, f"assert f({n}) == 0"),
        lambda n: (RECURSIVE + f"print(f({n}))", Script("", "0")),
        lambda n: (RECURSIVE + f"import sys\nsys.setrecursionlimit(100)\nprint(f({n - 900}))", Script("", "0")),
    ],
    ids=["call", "assertion", "script", "limit"],
)
def test_a_program_may_go_as_deep_as_in_a_python_of_its_own(judged: Judge, test: Callable[[int], Any]) -> None:
    # What `python3 program` manages, of every version.
    assert judged(*test(998)).status == "ok"
    deeper = judged(*test(999))
    assert (deeper.status, "RecursionError" in deeper.detail) == ("error", True), deeper


def test_the_recursion_limit_is_pythons(judged: Judge, jail: Sandbox) -> None:
    program = (
        "import sys\nprint(sys.getrecursionlimit())\nsys.setrecursionlimit(2**31 - 1)\nsys.setrecursionlimit(5000)\n"
    )
    printed = "1000\n5000\n"
    assert judged(program + "print(sys.getrecursionlimit())", Script("", printed)).status == "ok"
    # Several scripts in one process, each with the same levels.
    (outcome,) = jail.run([printed_job(RECURSIVE + "print(f(int(input())))", ["998", "998", "998"])])
    assert outcome.outputs == ("'0\\n'",) * 3
    assert jail.run([printed_job(RECURSIVE + "print(f(int(input())))", ["999"])])[0].status == "error"


ANNOTATED = """
from __future__ import annotations
import sys
from dataclasses import dataclass
from typing import ClassVar, Optional, get_type_hints
@dataclass
class Node:
    made: ClassVar[int] = 0
    value: int = 1
    next: Optional[Node] = None
def f(x):
    known = get_type_hints(Node)["next"] == Optional[Node]
    return str(Node(x)), known, sys.modules[__name__].Node is Node, __name__, sorted(vars(sys.modules[__name__]))[:2]
"""


def test_a_programs_names_are_found_by_its_module(judged: Judge) -> None:
    value = ("Node(value=5, next=None)", True, True, "program", ["ANNOTATED", "ClassVar"])
    program = "ANNOTATED = 1\n" + ANNOTATED.replace("from __future__ import annotations\n", "")
    program = "from __future__ import annotations\n" + program
    assert judged(program, Call("f", (5,), value)).status == "ok"
    assert judged(ANNOTATED + "print(f(5)[:4])", Script("", f"{(*value[:3], '__main__')}")).status == "ok"


@pytest.mark.parametrize(
    "asked",
    [
        "sys.version_info[0] >= 3 and sys.version_info >= (3, 0) and sys.version_info.major == 3",
        "tuple(sys.version_info) == (3, 11, 0, 'final', 0) and sys.version_info[:2] == (3, 11)",
        "sys.hexversion == 0x030B00F0 and sys.version.startswith('3.11.0') and sys.version[0] == '3'",
    ],
)
def test_a_program_finds_the_same_version_everywhere(judged: Judge, asked: str) -> None:
    assert judged(f"import sys\nprint({asked})", Script("", "True")).status == "ok"


def test_a_wrong_value_ends_the_program(judged: Judge) -> None:
    # Whatever it would do then, and however much it would give.
    endless = judged("def f(x):\n    while x:\n        pass\n    return 1", Call("f", (0,), 2), Call("f", (1,), 2))
    assert (endless.status, endless.detail) == ("wrong", "test 0 gave 1")
    flood = judged("def f(x):\n    return 'a' * x", *(Call("f", (1_000_000,), "b") for _ in range(200)))
    assert (flood.status, len(flood.outputs)) == ("wrong", 1)
    assert flood.detail.startswith("test 0 gave 'aaa")
    late = judged(ADD, "assert add(1, 1) == 2", "assert add(1, 2) == 4", "assert add(1, 'a') == 0")
    assert (late.status, late.outputs) == ("wrong", ("2", "3"))


def test_a_program_that_does_not_end_is_a_timeout(judged: Judge) -> None:
    assert judged("while True: pass", Script("", ""), limits=SLOW).status == "timeout"


@pytest.mark.parametrize(
    "program",
    [
        "class Yes(int):\n    def __eq__(self, other): return True\ndef f(): return Yes()",
        "import sys\ndef f(): sys.exit(0)",
        "class AssertionError(Exception): ...\ndef f(): return None",
        "import builtins\nbuiltins.eval = lambda *_: True\ndef f(): return 2",
        "import whole_program\nwhole_program.eval = lambda *_: 2\ndef f(): return 3",
    ],
)
def test_a_program_cannot_make_a_comparison_come_out_right(judged: Judge, program: str) -> None:
    assert judged(program, "assert f() == 7").status != "ok"


@pytest.mark.parametrize("said", ["(1, 2)", "('\\ud800', 3, 0)", "['7', '', 0]"])
def test_a_forged_result_of_a_script_is_an_error(judged: Judge, said: str) -> None:
    # The program replaces what says how it ended.
    program = f"import whole_program\nwhole_program.Printed.text = lambda _: {said}"
    assert judged(program, Script("", "7")).status != "ok"


@pytest.mark.parametrize("code", AIMED.values(), ids=AIMED.keys())
def test_the_world_is_out_of_reach(judged: Judge, world: Any, code: str) -> None:
    program = f"{REACH}def run(canary, port, sibling):\n    return {code}"
    outcome = judged(program, Call("run", (str(world.canary), world.port, world.sibling.pid), None))
    refusal = OTHERWISE.get(code.partition("(")[0], "PermissionError")
    assert (outcome.status, outcome.detail.split()[0]) == ("error", refusal), outcome
    world.unharmed()


def test_scripts_share_nothing(judged: Judge) -> None:
    program = "import math\nprint(getattr(math, 'left', 0))\nmath.left = 1"
    assert judged(program, Script("", "0"), Script("", "0")).status == "ok"


def test_a_script_reads_its_input_in_every_usual_way(judged: Judge) -> None:
    program = "import sys\nfor line in open(0):\n    print(line.strip(), file=sys.stdout)\nprint('é')"
    assert judged(program, Script("a\nb\n", "a\nb\né")).status == "ok"
    assert judged("if __name__ == '__main__':\n    print(open('/dev/stdin').read())", Script("x", "x")).status == "ok"


@pytest.mark.parametrize(
    "test", ["assert f()", "assert f() == g()", "f() == 1", "assert f() == 1\nassert f() == 2", "assert f( == 1"]
)
def test_other_assertions_are_refused_with_the_reason(judged: Judge, test: str) -> None:
    with pytest.raises(ValueError, match="can be forged"):
        judged("def f(): return 1", test)


def test_a_script_that_may_print_more_than_an_answer_holds_is_refused(judged: Judge) -> None:
    with pytest.raises(ValueError, match="output_bytes must be at most 199,967,232 for a script"):
        judged("print(2)", Script("1", "2"), limits=Limits(output_bytes=1 << 29))


def test_no_test_and_a_sandbox_of_other_rules_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="without a test"):
        judge(ADD, [])
    with pytest.raises(ValueError, match="PROGRAMS"):
        judge(ADD, ["assert add(1, 2) == 3"], sandbox=sandbox)
    with pytest.raises(ValueError, match=r"limits must be Limits\(cpu_s=...\), not a dict"):
        judge(ADD, ["assert add(1, 2) == 3"], limits={"cpu_s": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"sandbox must be a Sandbox\(PROGRAMS\), not a str"):
        judge(ADD, ["assert add(1, 2) == 3"], sandbox="PROGRAMS")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no name of a function"):
        judge(ADD, [Call("add, __import__('os').system", (), 1)])


def test_a_process_has_one_shared_sandbox_and_a_fork_gets_its_own() -> None:
    assert judge(ADD, ["assert add(1, 2) == 3"]).status == "ok"
    assert shared_sandbox() is shared_sandbox()
    code = (
        "import os\nfrom redqueen.jail import judge\n"
        f"def ask(): return judge({ADD!r}, ['assert add(1, 2) == 3']).status\n"
        "first = ask()\npid = os.fork()\nprint(first, ask(), flush=True)\n"
        "import sys\nif pid: sys.exit(os.waitpid(pid, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ok"] * 4


def test_the_jail_loads_nothing_but_itself() -> None:
    code = "import sys\nimport redqueen.jail\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)
    })  # fmt: skip
    assert set(done.stdout.split()) - {"redqueen", "__main__"} <= set(sys.stdlib_module_names)
