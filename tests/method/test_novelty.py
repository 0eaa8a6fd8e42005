"""What counts as a new idea: a shape of program, or a message, that neither a seed nor the task bank has."""

from __future__ import annotations

from dataclasses import replace

from redqueen.method.seeds import idea, seed_ideas, seed_shapes
from redqueen.method.task_bank import TaskBank
from redqueen.records import Kind, Pair, Task
from redqueen.tasks.kinds import find
from redqueen.tasks.python import NAMES, seeds

PROGRAM = "def f(word):\n    return word[::-5].join(sorted(word)) * 31"


def task(program: str, kind: Kind = "code_o", message: str = "") -> Task:
    return Task(id="t", kind=kind, author="T0", step=0, program=program, pairs=(Pair("'a'", "'a'"),), message=message)


def test_a_program_with_other_names_and_constants_is_no_new_idea() -> None:
    bank = TaskBank(10)
    first = task(PROGRAM)
    assert bank.is_novel(first)
    bank.add(first, 0.5)
    assert not bank.is_novel(task("def f(s):\n    return s[::-2].join(sorted(s)) * 7"))
    assert bank.is_novel(task("def f(s):\n    return s[::-2].join(sorted(s)) + 7 * s"))


def test_each_kind_has_its_own_ideas() -> None:
    bank = TaskBank(10)
    bank.add(task(PROGRAM), 0.5)
    assert bank.is_novel(task(PROGRAM, "code_i"))


def test_the_idea_of_a_code_f_task_is_its_message() -> None:
    bank = TaskBank(10)
    bank.add(task(PROGRAM, "code_f", "Weave the letters, sorted."), 0.5)
    assert not bank.is_novel(task("def f(x):\n    return x - 8", "code_f", "weave the letters (sorted)"))
    assert bank.is_novel(task(PROGRAM, "code_f", "weave the letters backwards"))


def test_a_seed_is_no_new_idea_even_if_the_bank_was_not_given_it() -> None:
    bank = TaskBank(10)
    for draft in seeds()[:20]:
        for kind in NAMES:
            assert not bank.is_novel(task(draft.program, kind, draft.message))
    assert len(seed_ideas("code_o")) <= len(seeds())


def test_what_a_bank_knew_survives_a_resume() -> None:
    bank = TaskBank(10)
    bank.add(task(PROGRAM), 0.5)
    resumed = TaskBank(10)
    resumed.restore(bank.entries())
    other = replace(task(PROGRAM), id="again")
    assert not resumed.is_novel(other)
    assert idea(other) == idea(task(PROGRAM))


def test_the_shapes_of_seeds_are_those_of_the_languages_of_a_run() -> None:
    query = find("sql_o").language
    python = seed_shapes(NAMES)
    assert python == seed_shapes(NAMES[:1])
    assert python.isdisjoint(query.shape(draft.program) for draft in query.seeds())
    assert seed_shapes((*NAMES, "sql_o")) == python | seed_shapes(["sql_o"])
