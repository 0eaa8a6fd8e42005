"""The faults of Absolute Zero's executor and scorer, each by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redqueen.jail import (
    GAME,
    Job,
    Limits,
    LiteralError,
    Outcome,
    Sandbox,
    canonical,
    parse_arguments,
    parse_literal,
)
from redqueen.tasks.python import seeds
from tests.jail.processes import kill_zygotes
from tests.jail.reach import reach

Run = Callable[..., Outcome]


@pytest.mark.parametrize("source", ["list(set('abcdefgh'))", "id(object())", "repr(object())"])
def test_nondeterministic_programs_are_not_accepted_with_an_empty_output(run: Run, source: str) -> None:
    outcome = run(f"def f():\n    return {source}", validate=True)
    assert outcome.status == "nondeterministic"
    assert outcome.outputs != ("",)


def test_the_date_of_today_is_out_of_reach(run: Run) -> None:
    program = "def f():\n    import datetime\n    return str(datetime.date.today())"
    assert run(program, validate=True).status == "forbidden"


def test_a_mutable_default_is_seen(run: Run) -> None:
    assert run("def f(x, xs=[]):\n    xs.append(x)\n    return xs", "1", validate=True).status == "nondeterministic"


def test_answers_are_never_evaluated() -> None:
    touched: list[int] = []
    for text in ("touched.append(1)", "[touched.append(1) for _ in '1']", "(lambda: touched.append(1))()"):
        with pytest.raises(LiteralError):
            parse_literal(text)
    assert touched == []


@pytest.mark.parametrize("answer", ["0) or (True", "x) or (True", "0) == 0 or (1", "1)\nprint(1"])
def test_an_abduction_answer_cannot_leave_its_parentheses(run: Run, answer: str) -> None:
    assert run("def f(x):\n    return False", answer, expected=(canonical(True),)).status == "malformed"


@pytest.mark.parametrize("answer", ["gold", "gold_output", "output", "expected", "answer", "_"])
def test_a_deduction_answer_cannot_name_the_gold_variable(answer: str) -> None:
    with pytest.raises(LiteralError):
        parse_literal(answer)


def test_an_object_that_equals_everything_does_not_score(run: Run) -> None:
    program = "class Any:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return Any()"
    assert run(program, "1", expected=(canonical(1),)).status == "unsupported"


def test_a_patched_module_is_whole_again_for_the_next_program(sandbox: Sandbox) -> None:
    patch = Job("import math\nmath.sqrt = lambda x: 42\ndef f():\n    return math.sqrt(4)", ("",))
    plain = Job("import math\ndef f():\n    return math.sqrt(4)", ("",))
    assert [out.outputs for out in sandbox.run([patch, plain])] == [("42",), ("2.0",)]


def test_a_long_output_is_whole(run: Run) -> None:
    outcome = run("def f(n):\n    return 'ab' * n", "4000", validate=True)
    assert outcome.outputs == ("'" + "ab" * 4000 + "'",)


def test_an_output_over_the_cap_is_refused_and_not_cut(run: Run) -> None:
    outcome = run("def f(n):\n    return 'ab' * n", "9000")
    assert (outcome.status, outcome.outputs) == ("oversize", ())


@pytest.mark.parametrize(
    "program",
    [
        "def process_input(x):\n    return x + 1\ndef f(x):\n    return process_input(x)",
        "def helper(x):\n    return x + 1\ndef f(x):\n    return helper(x)",
        "class Counter:\n    def __init__(self, n):\n        self.n = n + 1\ndef f(x):\n    return Counter(x).n",
        "def f(x):\n    '''Never open( or eval( or input( anything.'''\n    return x + 1  # os.system",
    ],
    ids=["process_input", "helper", "class", "words in comments"],
)
def test_harmless_programs_are_accepted(run: Run, program: str) -> None:
    assert run(program, "1", validate=True).outputs == ("2",)


def test_one_slow_program_does_not_block_the_rest() -> None:
    slow = Job("def f():\n    while True:\n        pass", ("",))
    quick = Job("def f():\n    return 1", ("",))
    with Sandbox(GAME.with_limits(Limits(cpu_s=600.0, wall_s=600.0)), workers=2) as two:
        waiting = two.submit(slow)
        assert [outcome.status for outcome in two.run([quick] * 100)] == ["ok"] * 100
        assert not waiting.done()
        # It would run for ten minutes; without its zygote it is tried once more.
        while not waiting.done():
            kill_zygotes(two)
        assert waiting.result().status == "infra_error"


@pytest.mark.parametrize("text", ["True", "1.0", "'1'", "[1]"])
def test_equality_is_of_exact_types(run: Run, text: str) -> None:
    program = "def f(x):\n    return x"
    assert run(program, "1", expected=(canonical(1),)).status == "ok"
    assert run(program, text, expected=(canonical(1),)).status == "wrong"


def test_a_long_input_is_parsed_in_bounded_time(run: Run) -> None:
    assert run("def f(x):\n    return 1", "(" + "1," * 500_000 + ")").status == "oversize"
    assert len(parse_arguments("(" + "1," * 8_000 + ")")[0]) == 8_000


LIMITLESS = {
    "memory": ("memory", "return [0] * 10 ** 10"),
    "files": ("error", "return os.open('/etc/passwd', os.O_RDONLY)"),
    "processes": ("error", "return os.fork()"),
    "network": ("error", "assert ctypes.CDLL(None).socket(2, 1, 0) != -1"),
}


@pytest.mark.parametrize(("status", "code"), LIMITLESS.values(), ids=LIMITLESS.keys())
def test_memory_files_processes_and_network_have_limits(run: Run, status: str, code: str) -> None:
    assert run(reach(code)).status == status


@pytest.mark.slow
def test_seed_tasks_reproduce(sandbox: Sandbox) -> None:
    """About 8 % of Absolute Zero's published seed tasks do not."""
    jobs = [Job(draft.program, draft.inputs, validate=True) for draft in seeds()[::16]]
    first, second = sandbox.run(jobs), sandbox.run(jobs)
    assert {outcome.status for outcome in first} == {"ok"}
    assert [outcome.outputs for outcome in first] == [outcome.outputs for outcome in second]
