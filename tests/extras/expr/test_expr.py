"""The language expr: its modes are posed and judged without a sandbox, and what is reserved stays so."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from redqueen.config.recipes import recipe
from redqueen.evals.held_out import most_tasks, reserved_tasks
from redqueen.extras.expr.expressions import parse, size_of
from redqueen.extras.expr.generated import (
    EXAMPLES,
    LEAST_DEPTH,
    RESERVED_DEPTHS,
    SEEDS,
    canonical_form,
    drawn,
    half_of,
    reserved_stream,
    seeds,
    shape,
    stream,
)
from redqueen.extras.expr.modes import EXPR, KINDS
from redqueen.members.asking import posed
from redqueen.members.question import read_question, write_question
from redqueen.method.judging import judge_proposals
from redqueen.method.planting import seed_tasks
from redqueen.method.prompts import Prompts, prompts
from redqueen.method.seeds import is_reserved
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Pair, Proposal, Task
from redqueen.tasks.kinds import InputCounts, find, names_of_languages
from redqueen.tasks.programs.complexity import complexity_of
from tests.grading import grade

NAMES = tuple(kind.name for kind in KINDS)
FORMATS = ("completion", "chat")
COUNTS = InputCounts(least=8, most=8)


def form(name: str) -> Prompts:
    return prompts(name, recipe("expr").game)


def proposed(kind: str, program: str, *inputs: str) -> Proposal:
    return Proposal(id="t", kind=kind, author="T0", step=1, draft=Draft(program, inputs or EXPR_INPUTS))


EXPR_INPUTS = ("3, 4",)


@pytest.mark.parametrize("format_", FORMATS)
def test_tasks_of_the_modes_are_posed_answered_and_judged(format_: str, verifier: LocalVerifier) -> None:
    texts = form(format_)
    wrong = {"expr_o": "9999", "expr_i": "99, -99", "expr_f": "x * y * 3 - 50"}
    judged: list[tuple[Task, str | None]] = []
    for whole in seed_tasks(verifier, EXPR, range(0, 512, 64)):
        for name in NAMES:
            task = find(name).of_program(whole, random.Random(0))
            assert task is not None
            assert whole.program not in texts.attempt(task, ()).text or name != "expr_f"
            judged += [(task, texts.read_attempt(name, texts.write_attempt(task))), (task, wrong[name])]
            draft = texts.read_proposal(name, texts.write_proposal(task), None)
            assert isinstance(draft, Draft)
            assert (draft.program, set(draft.inputs)) == (task.program, {pair.input for pair in task.pairs})
    right = [verdict.status == "correct" for verdict in grade(verifier, judged)]
    assert right == [True, False] * (len(judged) // 2)


def test_any_input_and_any_expression_with_the_right_values_is_right(verifier: LocalVerifier) -> None:
    verdict, task = verifier.judge_proposal(proposed("expr_i", "max(x, y)", "3, 4")).result()
    assert (verdict.status, task and task.pairs) == ("valid", (Pair("3, 4", "4"),))
    assert task is not None
    answers = [(task, text) for text in ("4, -9", "4,  4", "4, 5", "(4, 4)", "4", "100, 4", "x, 4", "", "4 4")]
    assert [verdict.status for verdict in grade(verifier, answers)] == [
        *("correct", "correct", "wrong", "malformed", "malformed", "oversize", "malformed", "malformed", "malformed")
    ]
    draft = form("completion").read_proposal("expr_f", "x + y\n", None)
    assert isinstance(draft, Draft)
    _, task = verifier.judge_proposal(replace(proposed("expr_f", "x + y"), draft=draft)).result()
    assert task is not None
    assert (len(task.shown), len(task.hidden), task.message) == (4, 4, "")
    answers = [(task, text) for text in ("y + x", "x - -y", "x + y + 1", "x +", "x // 0", "print(x)")]
    assert [verdict.status for verdict in grade(verifier, answers)] == [
        *("correct", "correct", "wrong", "malformed", "error", "malformed")
    ]


@pytest.mark.parametrize(
    ("kind", "program", "inputs", "status"),
    [
        ("expr_o", "x // y", ("3, 0",), "error"),
        ("expr_o", "x * x * x", ("99, 1",), "error"),
        ("expr_o", "x + z", ("3, 1",), "malformed"),
        ("expr_o", "x + y", ("3, 1, 2",), "malformed"),
        ("expr_o", "x + y", ("3, True",), "malformed"),
        ("expr_i", "x + y", ("3, 's'",), "malformed"),
        ("expr_i", "x + y", ("3, 100",), "oversize"),
        ("expr_f", "x // 0", ("0, 0",), "error"),
        ("expr_f", "x + y", ("0, 0", "0,  0"), "malformed"),
    ],
)
def test_proposals_that_are_no_task_say_why(
    kind: str, program: str, inputs: tuple[str, ...], status: str, verifier: LocalVerifier
) -> None:
    verdict, task = verifier.judge_proposal(proposed(kind, program, *inputs)).result()
    assert (verdict.status, task) == (status, None)
    assert verdict.detail


def test_a_shape_is_the_same_for_expressions_that_are_alike() -> None:
    def form_of(program: str) -> str:
        return canonical_form(parse(program))

    alike = ("x * 3 + max(y, x)", "max(y, x) + 5 * y", "(max(x, y)) + 3 * x", "max(x, y) + x * 99")
    assert len({form_of(program) for program in alike}) == 1
    assert form_of("3 + max(y, x)") == "(+ (max a b) n)"
    assert form_of("x if x < y else 2") == form_of("y if x < y else 7".replace("<", ">").replace("y if", "y if"))
    others = ("x - y * 2", "x * 2 - y", "x - 2", "2 - x", "x + y", "x + x", "x // y", "x % y", "-x", "abs(x)")
    assert len({form_of(program) for program in others}) == len(others)
    assert form_of("x - y") == form_of("y - x")
    assert shape("x +") != shape("y +")


def test_one_shape_in_sixteen_is_reserved_and_no_shallow_one() -> None:
    rng = random.Random(5)
    programs = list(islice(stream(3, "test"), 400))
    share = sum(map(EXPR.is_reserved, programs)) / len(programs)
    assert 0.03 < share < 0.1
    shallow = [parse_text for depth in range(LEAST_DEPTH) for parse_text in (drawn(rng, depth),)]
    assert not any(EXPR.is_reserved(part.name) for part in shallow)
    assert not EXPR.is_reserved("x + y")
    assert not EXPR.is_reserved("def f(x):\n    return x")


@pytest.mark.slow
def test_the_reserved_ones_are_of_each_depth_without_end_and_no_seed_is_one() -> None:
    report = EXPR.reserved("report")
    depths = Counter(size_of(parse(draft.program))[0] for draft in report)
    assert len(set(depths.values())) == 1
    assert tuple(sorted(depths)) == RESERVED_DEPTHS
    assert len({shape(draft.program) for draft in EXPR.reserved()}) == len(EXPR.reserved())
    assert {half_of(draft.program) for draft in report} == {"report"}
    assert {half_of(draft.program) for draft in EXPR.reserved("selection")} == {"selection"}
    assert len(list(islice(reserved_stream("report", 5), 20))) == 20
    assert Counter(size_of(parse(draft.program))[0] for draft in seeds()) == SEEDS
    assert not any(is_reserved(draft.program) for draft in seeds())
    assert all(len(set(draft.inputs)) == EXAMPLES for draft in (*seeds(), *report))


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_trained_on_a_reserved_one(name: str, verifier: LocalVerifier) -> None:
    draft = EXPR.reserved("report")[0]
    proposal = replace(proposed(name, draft.program), draft=draft)
    verdict, task = verifier.judge_proposal(proposal).result()
    assert (verdict.status, task) == ("forbidden", None)
    (whole,) = [task for _, task in judge_proposals(verifier, [replace(proposal, kind="expr")])]
    assert whole is not None
    assert not TaskBank(16).add(replace(whole, kind=name), None)
    tasks = reserved_tasks("report", NAMES, most_tasks("report", NAMES), 0, verifier)
    assert len(tasks) == 3 * len(EXPR.reserved("report"))


def test_questions_are_written_and_read_in_the_language_of_the_run(verifier: LocalVerifier) -> None:
    (whole,) = seed_tasks(verifier, EXPR, [200])
    for name in NAMES:
        task = find(name).of_program(whole)
        assert task is not None
        question = read_question(write_question(task), names_of_languages(NAMES))
        assert question.kind == name
    assert read_question("x + y\nf(1, 2) == ?").kind == "code_o"
    # A person may ask about a reserved one.
    program = EXPR.reserved("report")[0].program
    task = posed(read_question(f"{program}\nf(1, 2) == ?", NAMES), verifier)
    assert (task.kind, task.pairs[0].output) == ("expr_o", EXPR.job(program, ("1, 2",)).outputs[0])


def test_an_expression_is_measured_as_the_function_that_it_is() -> None:
    size = complexity_of(EXPR.tree("max(x, y) % 3 if x < y else abs(x - 2)"))
    assert (size.lines, size.cyclomatic) == (2, 2)


def test_other_seeds_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("# sum\nx + y\nf(1, 2)\nf(3, 4)\n")
    assert EXPR.seeds(str(file)) == (Draft("x + y", ("1, 2", "3, 4"), "sum"),)


@pytest.mark.parametrize("program", ["x + 07", "x//03", "x + 0"])
def test_an_expression_is_measured_whatever_zeros_its_numbers_begin_with(program: str) -> None:
    assert complexity_of(EXPR.tree(program)).lines == 2
