"""Running jobs: every status, the order of results, and what one run may leave behind for the next (nothing)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redqueen.jail import Job, Limits, Outcome, Sandbox, canonical, parse_literal

Run = Callable[..., Outcome]


def test_a_function_is_called_with_its_literal_arguments(run: Run) -> None:
    outcome = run("def f(xs, x):\n    return xs.count(x), {'k': xs}", "[1, 2, 1], 1")
    assert (outcome.status, outcome.outputs) == ("ok", ("(2, {'k': [1, 2, 1]})",))
    assert outcome.cpu_ms > 0


def test_outputs_come_in_the_order_of_the_inputs(run: Run) -> None:
    outcome = run("def f(x):\n    return x * x", *map(str, range(10)), validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", tuple(str(x * x) for x in range(10)))


def test_outcomes_come_in_the_order_of_the_jobs() -> None:
    jobs = [Job("def f(x):\n    sum(range(x * 20000))\n    return x", (str(x),)) for x in (9, 1, 7, 0, 3)]
    with Sandbox(workers=2) as two:
        assert [outcome.outputs[0] for outcome in two.run(jobs)] == ["9", "1", "7", "0", "3"]


@pytest.mark.parametrize(
    ("program", "status", "detail"),
    [
        ("def f(:\n    pass", "malformed", "SyntaxError at line 1"),
        ("def g():\n    return 1", "malformed", "no top-level function f"),
        ("f = 3", "malformed", "no top-level function f"),
        ("", "malformed", "no top-level function f"),
        ("import os\ndef f():\n    return 1", "forbidden", "import of os"),
        ("def f():\n    from subprocess import run\n    return 1", "forbidden", "import of subprocess"),
        ("from . import x\ndef f():\n    return 1", "forbidden", "import of .."),
        ("import collections.nothing\ndef f():\n    return 1", "forbidden", "import of collections.nothing"),
        ("def f():\n    return open('x')", "forbidden", "open at line 2"),
        ("def f():\n    return eval('1')", "forbidden", "eval at line 2"),
        ("def f():\n    return 1 // 0", "error", "ZeroDivisionError at line 2"),
        ("1 // 0\ndef f():\n    return 1", "error", "ZeroDivisionError at line 1"),
        ("def f(x):\n    return x", "error", "TypeError"),
        ("def f():\n    raise SystemExit", "error", "SystemExit at line 2"),
        ("def f():\n    return f()", "error", "RecursionError at line 2"),
        ("def f():\n    return lambda: 1", "unsupported", "function is not a plain builtin value"),
        ("def f():\n    yield 1", "unsupported", "generator is not a plain builtin value"),
        ("def f():\n    return 'a' * 20_000", "oversize", "output 0 is more than 16384 bytes"),
        ("def f():\n    return '\\0' * 10_000", "oversize", "output 0 is more than 16384 bytes"),
        ("def f():\n    return 10 ** 5_000", "oversize", "an int of more than 4200 digits"),
        ("def f():\n    return [0] * 10 ** 9", "memory", "MemoryError at line 2"),
    ],
)
def test_every_way_to_fail_has_its_status(run: Run, program: str, status: str, detail: str) -> None:
    outcome = run(program)
    assert (outcome.status, outcome.detail, outcome.outputs) == (status, detail, ())


@pytest.mark.parametrize(
    "program",
    [
        "def process_input(x):\n    return x\ndef f():\n    return process_input(1)",
        "def f(input=1, open=2):\n    return input + open - 2",
        "class Box:\n    x = 1\ndef helper(box):\n    return box.x\ndef f():\n    return helper(Box())",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass P:\n    x: int\ndef f():\n    return P(1).x",
        "import math, json, re, decimal, fractions, statistics, textwrap, copy, heapq\n"
        "from collections.abc import Mapping\ndef f():\n    return 1",
        "def f():\n    try:\n        return 1\n    except ValueError as input:\n        return input",
        "try:\n    from collections import nonsense\nexcept ImportError:\n    pass\ndef f():\n    return 1",
        "def f():\n    print('x' * 100_000)\n    print('é', 1, sep='', end='', flush=True)\n    return 1",
        "def f():\n    'é'.encode('latin-1').decode('cp1252')\n    return 1",
        "f = lambda: 1",
    ],
)
def test_harmless_programs_are_not_refused(run: Run, program: str) -> None:
    outcome = run(program, validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", ("1",)), outcome


def test_names_in_annotations_are_the_programs(run: Run) -> None:
    program = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar, get_type_hints\n"
        "@dataclass\nclass A:\n    made: ClassVar[int] = 0\n    x: int = 1\n    next: A | None = None\n"
        "def f(n):\n    return A(n).x, A(n).made, len(get_type_hints(A)), "
        "A.__module__, repr(A), __name__, sorted(vars())"
    )
    outcome = run(program, "5", validate=True)
    assert outcome.outputs == ("(5, 0, 3, 'program', \"<class 'program.A'>\", 'program', ['n'])",), outcome


@pytest.mark.parametrize("text", ["x=1", "*[1]", "0) or (True", "__import__('os')", "(1"])
def test_an_input_that_is_no_literal_is_malformed_and_starts_nothing(run: Run, text: str) -> None:
    outcome = run("def f(*a):\n    return 1", "1", text)
    assert (outcome.status, outcome.cpu_ms) == ("malformed", 0.0)
    assert outcome.detail.startswith("input 1: ")


def test_too_much_text_is_oversize_and_starts_nothing(run: Run) -> None:
    assert run("def f(x):\n    return 1", f"'{'a' * 20_000}'").status == "oversize"
    assert run("def f():\n    return 1\n#" + "a" * 70_000).status == "oversize"


@pytest.mark.parametrize("program", ["def f():\n    return 1\0", "def f():\n    return '\ud800'", "\ufeff\ufeff"])
def test_text_that_is_no_source_at_all_is_malformed(run: Run, program: str) -> None:
    assert run(program).status == "malformed"


def test_outputs_before_the_failing_input_are_kept(run: Run) -> None:
    outcome = run("def f(x):\n    return 6 // x", "1", "2", "0", "3")
    assert (outcome.status, outcome.outputs) == ("error", ("6", "3"))
    assert outcome.detail == "ZeroDivisionError at line 2 on input 2"


def test_expected_values_are_compared_exactly(run: Run) -> None:
    program = "def f(x):\n    return {x: x + 1.0}"
    right = tuple(canonical(parse_literal(text)) for text in ("{1: 2.0}", "{2: 3.0}"))
    wrong = (right[0], canonical({2: 3}))
    assert run(program, "1", "2", expected=right).status == "ok"
    outcome = run(program, "1", "2", expected=wrong)
    assert (outcome.status, outcome.detail, outcome.outputs) == (
        "wrong",
        "output 1 differs",
        ("{1: 2.0}", "{2: 3.0}"),
    )


def test_a_mutated_argument_is_fresh_for_every_call(run: Run) -> None:
    outcome = run("def f(xs):\n    xs.append(0)\n    return xs", "[1]", "[1]", validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", ("[1, 0]", "[1, 0]"))


def test_a_program_cannot_change_the_next_programs_result(run: Run) -> None:
    patched = run("import math\nmath.sqrt = lambda x: 0\ndef f():\n    return math.sqrt(4)")
    assert patched.outputs == ("0",)
    assert run("import math\ndef f():\n    return math.sqrt(4)").outputs == ("2.0",)


def test_validation_allows_half_the_cpu_of_grading(run_briefly: Run) -> None:
    program = "def f():\n    while True:\n        pass"
    graded = run_briefly(program)
    validated = run_briefly(program, validate=True)
    assert (graded.status, validated.status) == ("timeout", "timeout")
    assert (graded.detail, validated.detail) == ("more than 0.1 s of CPU", "more than 0.05 s of CPU")
    assert (graded.outputs, validated.outputs) == ((), ())
    assert validated.cpu_ms < graded.cpu_ms


def test_a_job_must_make_sense() -> None:
    with pytest.raises(ValueError, match="2 expected values for 1 inputs"):
        Job("", ("1",), expected=(b"", b""))
    with pytest.raises(ValueError, match="at most 256 inputs"):
        Job("", ("",) * 300)
    with pytest.raises(ValueError, match="cpu_s must be positive"):
        Limits(cpu_s=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"program": None}, "a program must be a text, not None"),
        ({"inputs": "41"}, "the inputs of a job must be a tuple, not a str"),
        ({"inputs": b"41"}, "the inputs of a job must be a tuple, not a bytes"),
        ({"inputs": 41}, "the inputs of a job must be a tuple, not a int"),
        ({"inputs": ("1", 2)}, "the inputs of a job must be texts or bytes, not a int"),
        ({"inputs": ("1", "2"), "expected": b"12"}, "the expected values of a job must be a tuple, not a bytes"),
        ({"expected": ("1",)}, "the expected values of a job must be bytes, not a str"),
        ({"limits": {"cpu_s": 1}}, r"limits must be Limits\(cpu_s=...\), not a dict"),
    ],
)
def test_a_job_of_other_types_is_refused(fields: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"program": "def f(x): return x", "inputs": ("1",), **fields}
    with pytest.raises(ValueError, match=message):
        Job(**given)


def test_a_sandbox_takes_a_profile_and_a_list_of_jobs(sandbox: Sandbox) -> None:
    for wrong in ("GAME", None):
        with pytest.raises(ValueError, match="the profile must be a Profile, such as GAME or PROGRAMS, not"):
            Sandbox(wrong)  # type: ignore[arg-type]
    for wrong in ("2", 0, 1.5):
        with pytest.raises(ValueError, match="workers must be a positive integer, not "):
            Sandbox(workers=wrong)  # type: ignore[arg-type]
    job = Job("def f(): return 1", ("",))
    with pytest.raises(ValueError, match=r"the jobs must be a list, not a Job: run\(\[job\]\)"):
        sandbox.run(job)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be a Job\(program, inputs\), not a str"):
        sandbox.run(["def f(): return 1"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"cpu_s": float("inf")}, "cpu_s must be at most 1,000,000,000"),
        ({"wall_s": 1e300}, "wall_s must be at most"),
        ({"wall_s": float("nan")}, "wall_s must be positive"),
        ({"output_bytes": 1 << 31}, "output_bytes must be at most"),
        ({"memory_mb": 1 << 44}, "memory_mb must be at most"),
        ({"memory_mb": 512.0}, "memory_mb must be a whole number"),
        ({"cpu_s": "1"}, "cpu_s must be a number, not a str"),
    ],
)
def test_limits_that_no_request_can_hold_are_refused(limits: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Limits(**limits)


def test_the_largest_limits_hold_nothing_up(sandbox: Sandbox) -> None:
    most = Limits(cpu_s=1e9, wall_s=1e9, memory_mb=10**9, output_bytes=10**9, input_bytes=10**9)
    job = Job("def f(x):\n    return len(x)", (repr("x" * 100_000),), limits=most, patient=True)
    assert sandbox.run([job])[0].outputs == ("100000",)
