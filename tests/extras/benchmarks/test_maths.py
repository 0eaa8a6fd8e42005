"""Mathematical answers: what is the same, what is not, and what does not end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from redqueen.errors import UserError
from redqueen.evals.grader import Problem
from redqueen.evals.registry import named
from redqueen.extras.benchmarks import maths_process
from redqueen.extras.benchmarks.latex import key, normal, split_answers

pytest.importorskip("math_verify")
from redqueen.extras.benchmarks.maths import MathsGrader


@pytest.fixture(scope="module")
def grader() -> Iterator[MathsGrader]:
    with MathsGrader(workers=1, cpu_s=2.0) as shared:
        yield shared


def problem(*answers: str) -> Problem:
    return Problem(id="1", benchmark="math500", prompt="", data={"answers": answers})


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        ("27", "27.0", True),
        ("27", "28", False),
        (r"\frac{1}{2}", "0.5", True),
        (r"\frac{1}{2}", r"\dfrac12", True),
        (r"\frac{1}{3}", "0.33", False),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(\pi/2, 3)", False),
        ("1000000", "1,000,000", True),
        ("5", r"5 \text{ cm}", True),
        ("90^{\\circ}", "90", True),
        ("4.5e33", r"4.5 \times 10^{33}", True),
        ("2.88e-19", "1.325e-27", False),
        ("2.88e-19", r"2.88 \cdot 10^{-19}", True),
        (r"x^2 + 2x + 1", r"(x+1)^2", True),
        (r"x^2 + 2x + 1", r"(x+2)^2", False),
        (r"\text{(A)}", r"\text{(A)}", True),
        ("[0, 1)", "[0, 1]", False),
        ("7", "x = 7", True),
        ("7", "no idea", False),
        ("7", "__import__('os')", False),
        # A comma and a space separate two numbers, which are no thousands.
        ("100, 200", "200, 100", True),
        ("(10, 100)", "10, 100", True),
        ("5, 100", "5100", False),
        ("Monday", r"\text{Monday}", True),
        ("even", "Even", True),
        ("even", "odd", False),
        ("ab", "ba", True),
        ("abc", "cab", True),
        (r"\emptyset", r"\{\}", True),
    ],
)
def test_one_answer_is_compared_by_its_meaning(grader: MathsGrader, reference: str, answer: str, right: bool) -> None:
    grade = grader.grade(problem(reference), answer)
    assert grade.status == ("correct" if right else "wrong")


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ("3, 1 and 2", None),
        (r"\{1, 2, 3\}", None),
        (r"$1$, $2$, $\frac{6}{2}$", None),
        ("1, 2", "2 answers, not 3"),
        ("1, 2, 4", "an answer is missing"),
        ("1, 2, 3, 4", "4 answers, not 3"),
    ],
)
def test_of_several_answers_all_have_to_be_given(grader: MathsGrader, answer: str, detail: str | None) -> None:
    grade = grader.grade(problem("1", "2", "3"), answer)
    assert (grade.status == "correct", grade.detail) == (detail is None, detail or "")


def test_no_answer_and_a_very_long_one_are_malformed(grader: MathsGrader) -> None:
    assert grader.grade(problem("2"), " ").status == "malformed"
    assert grader.grade(problem("2"), "1+" * 4_000 + "1").status == "malformed"


def test_brackets_in_each_other_without_end_are_not_read(grader: MathsGrader) -> None:
    half = r"\frac{1}{2}"
    for deep in (r"\frac{" * 200 + "1" + "}{2}" * 200, "(" * 61 + "2" + ")" * 61, r"\sqrt{" * 61 + half + "}" * 61):
        grade = grader.grade(problem(half), deep)
        assert (grade.status, grade.detail) == ("malformed", "more than 60 brackets in each other")
    assert grader.grade(problem("2"), "(" * 9 + "2" + ")" * 9).status == "correct"


def test_of_several_answers_the_boxes_are_read_together(grader: MathsGrader) -> None:
    def status(answers: tuple[str, ...], text: str) -> str:
        asked = problem(*answers)
        answer = named("olympiadbench").read(asked, "chat", text)
        return grader.grade(asked, answer).status if answer else "no answer"

    either = r"So $x=\boxed{1}$ or $x=\boxed{2}$."
    assert status(("1", "2"), either) == "correct"
    assert status(("1", "3"), either) == "wrong"
    # One reference may hold several answers; of a single answer the last box counts.
    assert status(("1, 2",), either) == status((r"\{1, 2\}",), either) == "correct"
    assert status((r"\pm 1",), r"$x = \boxed{1}$ and $x = \boxed{-1}$") == "correct"
    assert status(("2",), either) == "correct"
    assert status(("1", "2"), r"\boxed{1, 2}. No: \boxed{3") == "no answer"
    assert status(("6764", "10945"), r"\boxed{6,764} and \boxed{10,945}") == "correct"
    # A number with a comma is one answer.
    assert status(("58,500",), r"\boxed{65} \cdot \boxed{900} = \boxed{58,500}.") == "correct"
    # An index may be empty.
    assert status(("a_{}",), r"\boxed{a}, \boxed{b}") == "wrong"


def test_answers_are_brought_into_one_form() -> None:
    assert normal(r"\$12,345") == "12345"
    assert normal(r"$\tfrac{1}{2}$.") == r"\frac{1}{2}"
    assert normal("1.5e-3") == r"1.5 \times 10^{-3}"
    assert normal("(1,234)") == "(1,234)"
    assert key(r"\left( 1,\, 2 \right)") == key("(1,2)")
    assert split_answers("(1,2),[3,4);5") == ("(1,2)", "[3,4)", "5")
    assert split_answers(r"$f(x)=x$ or $f(x)=2-x$") == ("f(x)=x", "f(x)=2-x")


@pytest.mark.parametrize(
    ("benchmark", "row", "answers"),
    [
        ("aime24", {"answer": "204"}, ("204",)),
        ("amc23", {"answer": 27.0}, ("27",)),
        ("amc23", {"answer": "27.0"}, ("27",)),
        ("amc23", {"answer": 2**53 + 1}, ("9007199254740993",)),
        ("amc23", {"answer": 10**400}, (str(10**400),)),
        ("math500", {"answer": r"\frac{1}{2}"}, (r"\frac{1}{2}",)),
        ("minerva", {"solution": r"So $\boxed{1}$, or $\boxed{2.5}$."}, ("2.5",)),
        ("gsm8k", {"answer": "2 * 500 = 1000\n#### 1,000"}, ("1000",)),
        ("olympiadbench", {"final_answer": ["$1,2$"], "is_multiple_answer": True}, ("1", "2")),
        ("olympiadbench", {"final_answer": ["$(1,2)$"], "is_multiple_answer": False}, ("$(1,2)$",)),
    ],
)
def test_each_benchmark_has_its_reference_answer(
    benchmark: str, row: dict[str, object], answers: tuple[str, ...]
) -> None:
    assert named(benchmark).problem({"problem": "", **row}).data["answers"] == answers


def test_a_row_without_an_answer_is_named() -> None:
    with pytest.raises(UserError, match="row 7 of minerva has no answer"):
        named("minerva").problem({"idx": 7, "solution": "no box"})


@pytest.mark.slow
def test_what_does_not_end_is_killed_and_the_next_answer_is_judged(grader: MathsGrader) -> None:
    grade = grader.grade(problem("2"), "9^{9^{9^{9}}}")
    assert (grade.status, grade.detail) == ("timeout", "2 s of CPU")
    assert grader.grade(problem("2"), "1 + 1").status == "correct"


def test_a_process_that_was_killed_is_no_verdict(grader: MathsGrader) -> None:
    assert grader.grade(problem("2"), "2.0").status == "correct"
    process = grader._processes[0]._process
    assert process is not None
    process.kill()
    process.wait()
    assert grader.grade(problem("2"), "2.0").status == "infra_error"


@pytest.mark.parametrize(
    ("reference", "answer", "status"),
    [
        (r"\frac{1}{2}", r"50\%", "correct"),
        (r"50\%", "0.5", "correct"),
        ("50", r"50\%", "correct"),
        (r"42\%", "42", "correct"),
        (r"50\%", r"51\%", "wrong"),
    ],
)
def test_a_per_cent_is_judged(grader: MathsGrader, reference: str, answer: str, status: str) -> None:
    assert grader.grade(problem(reference), answer).status == status


def test_whatever_sympy_raises_is_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    request = {"answers": ["1"], "answer": "2", "cpu_s": 9}
    monkeypatch.setattr(maths_process, "judge", fail)
    monkeypatch.setattr(maths_process.resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(maths_process.logging, "disable", lambda *_: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{json.dumps(request)}\n" * 2))
    maths_process.main()
    assert capsys.readouterr().out == '["error", "AssertionError"]\n' * 2
