"""The only judge, with the real sandbox: proposals become tasks or rejects, attempts become verdicts."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import SandboxConfig
from redqueen.jail import Job, Outcome, canonical, parse_arguments, parse_literal
from redqueen.method.judging import judge_proposals
from redqueen.method.verifier import LocalVerifier, answer_to, trial_of
from redqueen.records import Draft, Kind, Pair, Proposal, Status, Task, Verdict
from redqueen.tasks.kinds import TaskKind, Trial
from redqueen.tasks.kinds.abduction import abduction_verdict
from tests.grading import grade

ENDLESS = "def f(*a):\n    while True:\n        pass"
INVALID: list[tuple[str, str, Status]] = [
    ("def f(:", "1", "malformed"),
    ("def g(x):\n    return x", "1", "malformed"),
    ("def f(x):\n    return x", "1) or (2", "malformed"),
    ("def f(x):\n    return x", "y", "malformed"),
    ("def f(x):\n    return x", "", "error"),
    ("def f(x):\n    return 1 // x", "0", "error"),
    (ENDLESS, "1", "timeout"),
    ("import os\ndef f(x):\n    return x", "1", "forbidden"),
    ("def f(x):\n    return eval('x')", "1", "forbidden"),
    ("def f(x):\n    return [0] * 10 ** 9", "1", "memory"),
    ("def f(x):\n    return 'a' * 20_000", "1", "oversize"),
    ("def f(x):\n    return lambda: x", "1", "unsupported"),
    ("def f(x):\n    return id([])", "1", "nondeterministic"),
]


def proposal(kind: Kind, program: str, *inputs: str) -> Proposal:
    return Proposal(
        id="p1", kind=kind, author="T3", step=7, draft=Draft(program, inputs, "a message" if kind == "code_f" else "")
    )


def task(kind: Kind, program: str, *pairs: tuple[str, str]) -> Task:
    return Task(
        id="t1",
        kind=kind,
        author="T0",
        step=0,
        program=program,
        pairs=tuple(Pair(*pair) for pair in pairs),
        message="a message",
    )


ABS_O = task("code_o", "def f(x):\n    return abs(x)", ("-2", "2"))
ABS_I = task("code_i", "def f(x):\n    return abs(x)", ("-2", "2"))
ABS_F = task("code_f", "def f(x):\n    return abs(x)", ("-2", "2"), ("3", "3"), ("-4", "4"), ("5", "5"))


def status(verifier: LocalVerifier, of: Task, answer: str | None) -> str:
    (verdict,) = grade(verifier, [(of, answer)])
    return verdict.status


def valid(verifier: LocalVerifier, of: Proposal) -> Task:
    ((verdict, made),) = judge_proposals(verifier, [of])
    assert verdict.status == "valid", verdict
    assert made is not None
    return made


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_a_valid_proposal_becomes_a_task_with_its_computed_output(verifier: LocalVerifier, kind: Kind) -> None:
    ((verdict, made),) = judge_proposals(verifier, [proposal(kind, "def f(xs, n=2):\n    return {n: xs}", "[1,2]")])
    assert (verdict.status, verdict.output) == ("valid", "{2: [1, 2]}")
    assert verdict.cpu_ms > 0
    assert made == Task(
        id="p1",
        kind=kind,
        author="T3",
        step=7,
        program="def f(xs, n=2):\n    return {n: xs}",
        pairs=(Pair("[1, 2]", "{2: [1, 2]}"),),
        message="",
    )


def test_a_valid_code_f_proposal_becomes_a_task_with_all_pairs_and_its_message(verifier: LocalVerifier) -> None:
    made = valid(verifier, proposal("code_f", "def f(x):\n    return x * x", "1", "2", "-3", "4.0", "True"))
    assert made.message == "a message"
    assert made.pairs == (Pair("1", "1"), Pair("2", "4"), Pair("-3", "9"), Pair("4.0", "16.0"), Pair("True", "1"))
    assert (made.shown, made.hidden) == (made.pairs[:3], made.pairs[3:])


@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
@pytest.mark.parametrize(("program", "given", "expected"), INVALID)
def test_every_way_to_be_invalid_has_its_status_and_makes_no_task(
    verifier: LocalVerifier, kind: Kind, program: str, given: str, expected: Status
) -> None:
    inputs = (given, "2", "3") if kind == "code_f" and given != "y" else (given,)
    ((verdict, made),) = judge_proposals(verifier, [proposal(kind, program, *inputs)])
    assert (verdict.status, made) == (expected, None)
    assert verdict.detail


def test_one_bad_input_makes_a_code_f_proposal_invalid(verifier: LocalVerifier) -> None:
    ((verdict, made),) = judge_proposals(
        verifier, [proposal("code_f", "def f(x):\n    return 1 // x", "1", "2", "0", "3")]
    )
    assert (verdict.status, made) == ("error", None)


def test_verdicts_come_in_the_order_asked(verifier: LocalVerifier) -> None:
    good = "def f(x):\n    return x"
    asked = [proposal("code_o", good, "1"), proposal("code_o", ENDLESS, "1"), proposal("code_o", good, "(")]
    asked += [proposal("code_o", good, "2")]
    assert [v.status for v, _ in judge_proposals(verifier, asked)] == ["valid", "timeout", "malformed", "valid"]
    attempts = [(ABS_O, "2"), (ABS_I, "7"), (ABS_F, None), (ABS_I, "-2"), (ABS_O, "3"), (ABS_F, ABS_F.program)]
    assert [v.status for v in grade(verifier, attempts)] == [
        "correct", "wrong", "malformed", "correct", "wrong", "correct"
    ]  # fmt: skip


def test_handing_in_does_not_wait_for_the_verdict(verifier: LocalVerifier) -> None:
    slow = verifier.judge_proposal(proposal("code_o", ENDLESS, "1"))
    attempt = verifier.judge_answer(answer_to(ABS_I, "2"))
    made = verifier.judge_proposal(proposal("code_f", "def f(x):\n    return x * x", "1", "2", "3"))
    assert not slow.done()
    assert not attempt.done()
    assert attempt.result(timeout=300).status == "correct"
    assert slow.result()[0].status == "timeout"
    verdict, task = made.result(timeout=300)
    assert (verdict.status, task is not None and task.message) == ("valid", "a message")


def test_what_needs_no_process_is_judged_at_once(verifier: LocalVerifier) -> None:
    slow = verifier.judge_answer(answer_to(ABS_F, ENDLESS))
    answers = [(ABS_O, "2"), (ABS_O, "3"), (ABS_O, "x"), (ABS_I, "f(2)"), (ABS_F, None), (ABS_I, "1" * 20_000)]
    futures = [verifier.judge_answer(answer_to(of, answer)) for of, answer in answers]
    assert all(future.done() for future in futures)
    statuses = [future.result().status for future in futures]
    assert statuses == ["correct", "wrong", "malformed", "malformed", "malformed", "oversize"]
    assert slow.result().status == "timeout"


@pytest.mark.parametrize("kind", ["code_i", "code_f"])
def test_a_patient_answer_has_twice_the_cpu_limit(verifier: LocalVerifier, kind: Kind) -> None:
    loop = task("code_i", "def f(x):\n    while x < 0:\n        pass\n    return x", ("3", "3"))
    answer = answer_to(loop, "-1") if kind == "code_i" else answer_to(ABS_F, ENDLESS)
    details = [verifier.judge_answer(replace(answer, patient=patient)).result().detail for patient in (False, True)]
    assert details == ["more than 0.4 s of CPU", "more than 0.8 s of CPU"]


def test_leaving_in_an_error_ends_every_future() -> None:
    def leave(closing: LocalVerifier) -> None:
        with closing:
            futures.extend(closing.judge_answer(answer_to(ABS_F, ENDLESS)) for _ in range(20))
            raise KeyError

    futures: list[Future[Verdict]] = []
    with pytest.raises(KeyError):
        leave(LocalVerifier(SandboxConfig(cpu_s=0.2, wall_s=120.0, workers=1)))
    assert len(futures) == 20
    errors = [future.exception(timeout=300) for future in futures]
    assert sum(isinstance(error, CancelledError) for error in errors) >= 18


def test_a_fault_in_judging_reaches_whoever_waits(verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(TaskKind, "task", broken)
    with pytest.raises(ZeroDivisionError):
        verifier.judge_proposal(proposal("code_o", "def f(x):\n    return x", "1")).result(timeout=300)


@pytest.mark.parametrize("of", [ABS_O, ABS_I, ABS_F], ids=lambda t: t.kind)
def test_no_answer_is_malformed(verifier: LocalVerifier, of: Task) -> None:
    assert status(verifier, of, None) == "malformed"


@pytest.mark.parametrize(
    ("output", "answer", "expected"),
    [
        ("2", "2", "correct"),
        ("2", " +2 ", "correct"),
        ("2", "0x2", "correct"),
        ("2", "3", "wrong"),
        ("1", "True", "wrong"),
        ("True", "1", "wrong"),
        ("1", "1.0", "wrong"),
        ("[1, 0]", "[True, False]", "wrong"),
        ("(1, 2)", "[1, 2]", "wrong"),
        ("(1, 2)", "1, 2", "correct"),
        ("{1, 2}", "{2, 1}", "correct"),
        ("{1: 'a', 2: 'b'}", '{2: "b", 1: "a"}', "correct"),
        ("{1: 'a'}", "{True: 'a'}", "wrong"),
        ("float('nan')", "nan", "correct"),
        ("0.30000000000000004", "0.3", "wrong"),
        ("'2'", "2", "wrong"),
        ("'a'", "b'a'", "wrong"),
        ("None", "None", "correct"),
        ("2", "", "malformed"),
        ("2", "x", "malformed"),
        ("2", "f(-2)", "malformed"),
        ("2", "1 + 1", "malformed"),
        ("2", "2 or True", "malformed"),
        ("2", "__import__('os').getpid()", "malformed"),
        ("2", "2\nprint(3)", "malformed"),
        ("2", "[" * 5000, "oversize"),
        ("2", "1" * 20_000, "oversize"),
    ],
)
def test_code_o_is_judged_by_the_exact_value_of_the_literal(
    verifier: LocalVerifier, output: str, answer: str, expected: Status
) -> None:
    of = task("code_o", "def f(x):\n    raise SystemExit", ("0", output))
    assert status(verifier, of, answer) == expected


def test_a_code_o_verdict_shows_what_the_student_said_respelled(verifier: LocalVerifier) -> None:
    (verdict,) = grade(verifier, [(ABS_O, "[1,2 ,{3}]")])
    assert verdict == Verdict(status="wrong", output="[1, 2, {3}]")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("-2", "correct"),
        ("2", "correct"),
        ("0x2", "correct"),
        ("3", "wrong"),
        ("2.0", "wrong"),
        ("'a'", "error"),
        ("", "error"),
        ("1, 2", "error"),
        ("x", "malformed"),
        ("x=2", "malformed"),
        ("*[2]", "malformed"),
        ("0) or (2", "malformed"),
        ("abs(2)", "malformed"),
        ("[0] * 3", "malformed"),
        ("1" * 20_000, "oversize"),
    ],
)
def test_code_i_is_judged_by_running_the_program_on_any_preimage(
    verifier: LocalVerifier, answer: str, expected: Status
) -> None:
    assert status(verifier, ABS_I, answer) == expected


def test_a_code_i_answer_of_true_is_not_one(verifier: LocalVerifier) -> None:
    of = task("code_i", "def f(x):\n    return x", ("1", "1"))
    assert [v.status for v in grade(verifier, [(of, "True"), (of, "1.0"), (of, "1")])] == ["wrong", "wrong", "correct"]


def test_an_input_on_which_the_program_never_ends_is_a_timeout(verifier: LocalVerifier) -> None:
    of = task("code_i", "def f(x):\n    while x:\n        pass\n    return x", ("0", "0"))
    assert [v.status for v in grade(verifier, [(of, "1"), (of, "0")])] == ["timeout", "correct"]


def test_an_input_without_arguments_is_an_answer(verifier: LocalVerifier) -> None:
    of = task("code_i", "def f(x=3):\n    return x", ("3", "3"))
    assert status(verifier, of, "") == "correct"


def test_a_code_i_verdict_shows_what_the_program_returned(verifier: LocalVerifier) -> None:
    (verdict,) = grade(verifier, [(ABS_I, "-9")])
    assert (verdict.status, verdict.output) == ("wrong", "9")


# The recorded output is 3, and the program says otherwise.
UNSTABLE_I = task("code_i", "def f(x):\n    return 3 if x == 7 else 1 // x", ("-2", "3"))


@pytest.mark.parametrize("answer", ["7", "-2", "1", "'a'", "0"])
def test_a_code_i_task_that_does_not_repeat_its_output_is_nondeterministic_whatever_the_answer(
    verifier: LocalVerifier, answer: str
) -> None:
    (verdict,) = grade(verifier, [(UNSTABLE_I, answer)])
    assert (verdict.status, verdict.detail) == ("nondeterministic", "the recorded input now gives another output")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("def f(x):\n    return 1 // (x + 2)", "error: ZeroDivisionError at line 2"),
        ("def f(x):\n    while x < 0:\n        pass\n    return x", "timeout: more than 0.4 s of CPU"),
        ("def f(x):\n    raise SystemExit", "error: SystemExit at line 2"),
    ],
)
def test_a_code_i_task_that_gives_no_output_again_is_nondeterministic(
    verifier: LocalVerifier, program: str, detail: str
) -> None:
    (verdict,) = grade(verifier, [(task("code_i", program, ("-2", "3")), "3")])
    assert (verdict.status, verdict.detail) == ("nondeterministic", f"the recorded input now gives {detail}")


def test_a_text_that_is_no_answer_does_not_ask_the_task(verifier: LocalVerifier) -> None:
    assert status(verifier, UNSTABLE_I, "x") == "malformed"


def test_one_input_with_two_outputs_is_the_tasks_fault() -> None:
    right, wrong = Outcome(status="ok", outputs=("3",)), Outcome(status="wrong", outputs=("4",), detail="differs")
    lost = Outcome(status="infra_error", detail="it died")
    said = [
        (right, right, True), (wrong, right, True), (wrong, right, False), (lost, right, True), (right, lost, False),
        (lost, wrong, False),
    ]  # fmt: skip
    assert [abduction_verdict(*each).status for each in said] == [
        "correct", "nondeterministic", "wrong", "infra_error", "infra_error", "nondeterministic"
    ]  # fmt: skip


def test_the_recorded_input_runs_in_a_child_that_cannot_tell_it_from_validation() -> None:
    answer = answer_to(ABS_I, "2")
    expected = (canonical(2),)
    trial = trial_of(answer)
    assert isinstance(trial, Trial)
    assert trial.jobs == (
        Job(ABS_I.program, ("2",), expected=expected, one_processor=True),
        Job(ABS_I.program, ("-2",), expected=expected, one_processor=True),
    )
    alone = trial_of(replace(answer, inputs=()))
    assert isinstance(alone, Trial)
    assert len(alone.jobs) == 1
    assert isinstance(trial_of(answer_to(ABS_O, "2")), Verdict)


def test_the_order_of_the_two_is_drawn_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(seed: int) -> list[bool]:
        with LocalVerifier(SandboxConfig(wall_s=120.0, workers=1), seed=seed) as judge:
            jobs: list[Job] = []
            submit = judge._sandbox.submit
            monkeypatch.setattr(judge._sandbox, "submit", lambda job: (jobs.append(job), submit(job))[1])
            answers = [(ABS_I, str(number)) for number in range(3, 23)]
            assert {verdict.status for verdict in grade(judge, answers)} == {"wrong"}
        return [job.inputs == ("-2",) for job in jobs[::2]]

    once = order(0)
    assert 0 < sum(once) < len(once)
    assert order(0) == once
    assert order(1) != once


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("def f(x):\n    return abs(x)", "correct"),
        ("def f(x):\n    return x if x > 0 else -x", "correct"),
        ("import math\ndef f(v):\n    return int(math.fabs(v))", "correct"),
        ("f = abs", "correct"),
        ("def f(x):\n    return float(abs(x))", "wrong"),
        ("def f(x):\n    return x", "wrong"),
        ("def f(x):\n    return 1 // 0", "error"),
        ("def f():\n    return 4", "error"),
        (ENDLESS, "timeout"),
        ("def f(x):\n    return [0] * 10 ** 9", "memory"),
        ("def f(x):\n    return 'a' * 20_000", "oversize"),
        ("def f(x):\n    return iter([x])", "error"),
        ("import sys\ndef f(x):\n    return x", "error"),
        ("def g(x):\n    return abs(x)", "malformed"),
        ("return abs(x)", "malformed"),
        ("", "malformed"),
        ("class E:\n    def __eq__(self, o):\n        return True\ndef f(x):\n    return E()", "error"),
        ("class I(int):\n    def __eq__(self, o):\n        return True\ndef f(x):\n    return I(0)", "error"),
    ],
)
def test_code_f_is_judged_by_running_the_students_function(
    verifier: LocalVerifier, answer: str, expected: Status
) -> None:
    assert status(verifier, ABS_F, answer) == expected


def test_an_attempt_that_asks_for_too_much_says_what(verifier: LocalVerifier) -> None:
    answers = ["import sys\ndef f(x):\n    return x", "def f(x):\n    return iter([x])"]
    verdicts = grade(verifier, [(ABS_F, answer) for answer in answers])
    assert [v.detail for v in verdicts] == [
        "forbidden: import of sys",
        "unsupported: list_iterator is not a plain builtin value on input 0",
    ]


@pytest.mark.parametrize("later", ["1 // (5 - x)", "f(x)", "[0] * 10 ** 10", "f", "'a' * 20_000"])
def test_the_first_miss_decides_whatever_comes_after_it(verifier: LocalVerifier, later: str) -> None:
    answer = f"def f(x):\n    return 0 if x == -4 else {later}"
    (verdict,) = grade(verifier, [(ABS_F, answer)])
    assert (verdict.status, verdict.detail, verdict.output) == ("wrong", "output 0 differs", "0")


def test_a_wrong_answer_that_never_ends_on_a_later_input_is_wrong_and_ended_at_once() -> None:
    with LocalVerifier(SandboxConfig(cpu_s=600.0, wall_s=600.0, workers=1)) as patient:
        (verdict,) = grade(patient, [(ABS_F, "def f(x):\n    while x == 5:\n        pass\n    return 0")])
    assert (verdict.status, verdict.output) == ("wrong", "0")


def test_a_right_answer_that_never_ends_on_a_later_input_is_a_timeout(verifier: LocalVerifier) -> None:
    assert status(verifier, ABS_F, "def f(x):\n    while x == 5:\n        pass\n    return abs(x)") == "timeout"


def test_code_f_is_judged_on_all_hidden_pairs_and_on_no_shown_one(verifier: LocalVerifier) -> None:
    table = "def f(x):\n    return {table}[x]"
    answers = [
        table.format(table={-4: 4, 5: 5}),
        table.format(table={-4: 4, 5: 5, -2: "not as shown", 3: None}),
        table.format(table={-2: 2, 3: 3}),
        table.format(table={-2: 2, 3: 3, -4: 4, 5: 0}),
        table.format(table={-2: 2, 3: 3, -4: True, 5: 5}),
    ]
    found = [v.status for v in grade(verifier, [(ABS_F, answer) for answer in answers])]
    assert found == ["correct", "correct", "error", "wrong", "wrong"]


def test_a_right_answer_to_a_hidden_pair_that_prints_differently_is_correct(verifier: LocalVerifier) -> None:
    of = task("code_f", "", ("1", "{1}"), ("2", "{2}"), ("3", "{3, 1}"), ("4", "float('nan')"))
    answer = "def f(x):\n    return {1, 3} if x == 3 else float('nan')"
    assert status(verifier, of, answer) == "correct"


@pytest.mark.parametrize(
    "inputs",
    [
        ("1", " 1", "+1", "0x1", "2", "3"),
        ("[1,2]", "[1, 2]", "[1, 2,]", "[3]"),
        ("{1, 2}", "{2, 1}", "set()"),
        ("'a'", '"a"', "'b'", "'\\x61'"),
        ("{1: 2, 3: 4}", "{3: 4, 1: 2}", "{}"),
        ("nan", "float('nan')", "-nan", "0.0", "-0.0"),
        ("1, 2", "1,2", "(1), (2)", "2, 1"),
    ],
)
def test_inputs_that_are_one_value_make_one_pair(verifier: LocalVerifier, inputs: tuple[str, ...]) -> None:
    made = valid(verifier, proposal("code_f", "def f(*x):\n    return len(x)", *inputs))
    values = [canonical(parse_arguments(pair.input)) for pair in made.pairs]
    assert len(set(values)) == len(values) == len({canonical(parse_arguments(text)) for text in inputs})
    assert made.shown
    assert made.hidden


def test_equal_but_different_types_are_different_inputs(verifier: LocalVerifier) -> None:
    made = valid(verifier, proposal("code_f", "def f(x):\n    return str(x)", "1", "1.0", "True", "'1'"))
    assert [pair.output for pair in made.pairs] == ["'1'", "'1.0'", "'True'", "'1'"]


def test_a_code_f_proposal_with_one_input_value_is_malformed(verifier: LocalVerifier) -> None:
    ((verdict, made),) = judge_proposals(verifier, [proposal("code_f", "def f(x):\n    return x", "1", "0x1", "1 ")])
    assert (verdict.status, verdict.detail, made) == ("malformed", "1 different inputs, 2 are needed", None)


SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.integers(0, 9), inner, max_size=2)
    ),
    max_leaves=5,
)


def test_a_task_poses_the_inputs_that_were_proposed(verifier: LocalVerifier) -> None:
    seen: list[object] = []

    @given(SMALL)
    def collect(value: object) -> None:
        seen.append(value)

    collect()
    texts = [repr(value) for value in seen]
    judged = judge_proposals(verifier, [proposal("code_o", "def f(x):\n    return x", text) for text in texts])
    for text, (verdict, made) in zip(texts, judged, strict=True):
        assert verdict.status == "valid", (text, verdict)
        assert made is not None
        (pair,) = made.pairs
        assert canonical(parse_arguments(pair.input)) == canonical(parse_arguments(text))
        assert canonical(parse_literal(pair.output)) == canonical(parse_literal(text))


def test_an_input_may_be_no_longer_than_the_configuration_says_when_it_is_respelled() -> None:
    # As a hidden input, or asked about again, it would be too long to be read.
    with LocalVerifier(SandboxConfig(value_bytes=40, wall_s=120.0, workers=1)) as strict:
        judged = judge_proposals(strict, [proposal("code_i", "f = len", f"[{'9e15,' * count}]") for count in (2, 7)])
    assert [verdict.status for verdict, _ in judged] == ["valid", "oversize"]
    assert judged[1][0].detail == "input 0 is more than 40 bytes when it is written out"


# When it is written out again, this input is longer than the sandbox reads. As a task it could not be answered.
@pytest.mark.parametrize("kind", ["code_o", "code_i", "code_f"])
@pytest.mark.parametrize("item", ["nan", "9e15"])
def test_an_input_that_grows_when_it_is_respelled_is_no_way_to_end_the_run(
    verifier: LocalVerifier, kind: Kind, item: str
) -> None:
    long = "[" + f"{item}," * (16_000 // (len(item) + 1)) + "]"
    inputs = (long, "2", "3", "4") if kind == "code_f" else (long,)
    ((verdict, made),) = judge_proposals(verifier, [proposal(kind, "def f(x):\n    return 0", *inputs)])
    assert (verdict.status == "valid") == (made is not None)
    for pair in made.pairs if made is not None else ():
        parse_arguments(pair.input)


def test_a_verdict_on_a_malformed_text_starts_no_process(verifier: LocalVerifier) -> None:
    verdicts = grade(verifier, [(ABS_O, "2"), (ABS_I, "x"), (ABS_F, None)])
    assert [v.cpu_ms for v in verdicts] == [0.0, 0.0, 0.0]
    assert grade(verifier, [(ABS_I, "2")])[0].cpu_ms > 0


def test_limits_come_from_the_configuration() -> None:
    program = "def f(x):\n    while True:\n        pass"
    with LocalVerifier(SandboxConfig(cpu_s=0.2, wall_s=120.0, workers=1)) as quick:
        ((verdict, _),) = judge_proposals(quick, [proposal("code_o", program, "1")])
        assert "0.1 s of CPU" in verdict.detail
        (verdict,) = grade(quick, [(ABS_F, program)])
        assert "0.2 s of CPU" in verdict.detail
        assert quick.tier


def test_a_closed_verifier_judges_no_more_and_may_be_closed_again() -> None:
    closed = LocalVerifier(SandboxConfig(workers=1))
    assert status(closed, ABS_I, "2") == "correct"
    closed.close()
    closed.close()
    with pytest.raises(RuntimeError):
        grade(closed, [(ABS_I, "2")])


def test_the_same_task_and_answer_get_the_same_verdict_again(verifier: LocalVerifier) -> None:
    attempts = [(ABS_O, "2"), (ABS_I, "3"), (ABS_F, "def f(x):\n    return x"), (replace(ABS_F, program=""), None)]
    once, again = grade(verifier, attempts), grade(verifier, attempts)
    assert [(v.status, v.output, v.detail) for v in once] == [(v.status, v.output, v.detail) for v in again]
