"""The task bank: bounded, without doubles, and the same after a resume."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.method.seeds import AUTHOR, OWN
from redqueen.method.task_bank import NEWEST, TaskBank
from redqueen.records import Kind, Pair, Task
from redqueen.tasks.programs.normal_form import fingerprint
from redqueen.tasks.python import NAMES


def task(number: int, kind: Kind = "code_o", name: str = "") -> Task:
    return Task(
        id=name or f"t{number}",
        kind=kind,
        author="T0",
        step=0,
        program=f"def f(x):\n    return x + {number}",
        pairs=(Pair("1", str(number + 1)),),
    )


def test_the_same_program_in_another_spelling_is_refused_and_changes_nothing() -> None:
    bank = TaskBank(10)
    assert bank.add(task(1), 0.5)
    other = replace(task(1, name="other"), program="def f( x ):\n  # one more\n  return x+1")
    assert not bank.add(other, 0.9)
    assert [(entry.task.id, entry.rho) for entry in bank.entries()] == [("t1", 0.5)]


def test_a_known_program_with_another_input_or_message_is_another_task() -> None:
    bank = TaskBank(10)
    seed = task(1, "code_f")
    assert bank.add(seed, None)
    assert bank.add(replace(seed, pairs=(Pair("2", "3"),)), 0.5)
    assert bank.add(replace(seed, message="add one"), 0.5)
    assert not bank.add(replace(seed, id="other", message="add one"), 0.5)
    assert len(bank) == 3


def test_references_never_show_one_program_twice_nor_the_one_that_is_left_out() -> None:
    bank = TaskBank(50)
    for number in range(3):
        for text in "123":
            bank.add(replace(task(number, name=f"{number}.{text}"), pairs=(Pair(text, text),)), None)
    without = fingerprint(task(2).program)
    for seed in range(20):
        rng = random.Random(seed)
        assert {t.program for t in bank.references("code_o", 9, rng)} == {task(n).program for n in range(3)}
        assert len(bank.references("code_o", 9, rng)) == 3
        drawn = bank.references("code_o", 9, rng, without=without)
        assert {t.program for t in drawn} == {task(0).program, task(1).program}


def test_references_come_from_the_seeds_or_the_newest_tasks_alone_if_asked_for() -> None:
    bank = TaskBank(500)
    for number in range(100):
        bank.add(replace(task(number), author=AUTHOR if number < 30 else "T0"), None)
    rng = random.Random(0)
    assert {t.id for t in bank.references("code_o", 500, rng)} == {f"t{n}" for n in range(100)}
    assert {t.id for t in bank.references("code_o", 500, rng, "seeds")} == {f"t{n}" for n in range(30)}
    newest = {f"t{n}" for n in range(100 - NEWEST, 100)}
    assert {t.id for t in bank.references("code_o", 500, rng, "newest")} == newest


def test_each_kind_has_its_own_shelf() -> None:
    bank = TaskBank(1)
    assert all(bank.add(task(1, kind), None) for kind in NAMES)
    assert len(bank) == 3
    for kind in NAMES:
        assert [task.kind for task in bank.references(kind, 5, random.Random(0))] == [kind]


def test_the_oldest_of_the_kind_goes_first_and_other_kinds_stay() -> None:
    bank = TaskBank(3)
    bank.add(task(0, "code_i"), None)
    for number in range(5):
        assert bank.add(task(number), None)
    assert [e.task.id for e in bank.entries() if e.task.kind == "code_o"] == ["t2", "t3", "t4"]
    assert [e.task.id for e in bank.entries() if e.task.kind == "code_i"] == ["t0"]


def test_seeds_stay_as_long_as_there_are_others() -> None:
    bank = TaskBank(4)
    seeds = [replace(task(number), author=AUTHOR) for number in range(3)]
    for each in (*seeds, task(3), task(4), task(5)):
        assert bank.add(each, None)
    assert [entry.task.id for entry in bank.entries()] == ["t0", "t1", "t2", "t5"]
    assert len(bank.references("code_o", 9, random.Random(0), "seeds")) == 3
    full = TaskBank(2)
    for each in seeds:
        full.add(each, None)
    assert [entry.task.id for entry in full.entries()] == ["t1", "t2"]


def test_where_fixed_tasks_take_all_places_a_repeated_task_is_not_new_again() -> None:
    bank = TaskBank(2)
    for number in (1, 2):
        bank.add(replace(task(number), author=OWN), None)
    one = replace(task(3), program="def f(x):\n    return [x, [x, {x: x}]] * 2")
    other = replace(task(4), program="def f(x):\n    return (x, (x, {x, x - x}))")
    assert bank.is_novel(one)
    assert bank.add(one, 0.5)
    assert not bank.is_novel(one)
    assert not bank.add(one, 0.5)
    # The newest one takes its place, and the fixed ones stay.
    assert bank.add(other, 0.5)
    assert bank.is_novel(one)
    assert len(bank.fixed("code_o")) == 2
    # Of more fixed ones than there are places the oldest goes.
    for number in (5, 6):
        bank.add(replace(task(number), author=OWN), None)
    assert len(bank.fixed("code_o")) == 2


def test_a_kind_whose_last_task_has_left_is_not_drawn_from() -> None:
    bank = TaskBank(4)
    bank.add(task(1, "code_i"), None)
    bank.add(task(2), None)
    bank.remove(task(1).program)
    again = TaskBank(4)
    again.restore(bank.entries())
    for seed in range(20):
        drawn = bank.program("code_f", random.Random(seed))
        assert drawn == task(2)
        assert drawn == again.program("code_f", random.Random(seed))
    assert bank.fixed("code_i") == []


def test_a_removed_program_leaves_with_all_its_tasks_and_may_come_back() -> None:
    bank = TaskBank(50)
    seed = replace(task(1), id="seed", author=AUTHOR)
    for each in (seed, task(1, "code_i"), task(2), replace(task(1, "code_f"), program=f"{task(1).program}  # again")):
        assert bank.add(each, None)
    assert [bank.remove(task(number).program) for number in (1, 2, 3)] == [2, 1, 0]
    assert [entry.task.id for entry in bank.entries()] == ["seed"]
    assert bank.add(task(2), None)


def test_an_idea_is_new_again_when_its_last_task_has_left() -> None:
    odd = replace(task(1), program="def f(x):\n    return [x, [[x], [[x], x, [[x]]]]][::-1][:1]")
    renamed = replace(odd, id="u1", program=odd.program.replace("x", "y"))
    bank = TaskBank(50)
    assert bank.is_novel(odd)
    bank.add(odd, None)
    bank.add(renamed, None)
    bank.remove(odd.program)
    assert not bank.is_novel(odd)
    bank.remove(renamed.program)
    assert bank.is_novel(odd)


def test_a_program_that_went_may_come_back() -> None:
    bank = TaskBank(1)
    assert bank.add(task(1), None)
    assert bank.add(task(2), None)
    assert bank.add(task(1), None)


def test_references_are_different_tasks_of_the_kind() -> None:
    bank = TaskBank(50)
    for number in range(20):
        bank.add(task(number, NAMES[number % 2]), None)
    drawn = bank.references("code_o", 6, random.Random(0))
    assert len({t.id for t in drawn}) == 6
    assert {t.kind for t in drawn} == {"code_o"}
    assert len(bank.references("code_o", 99, random.Random(0))) == 10
    assert bank.references("code_f", 3, random.Random(0)) == []
    assert bank.references("code_o", 0, random.Random(0)) == []


def test_every_task_is_drawn_sooner_or_later() -> None:
    bank = TaskBank(50)
    for number in range(6):
        bank.add(task(number, NAMES[number % 2]), None)
    rng = random.Random(1)
    assert {bank.program("code_f", rng).id for _ in range(200)} == {f"t{number}" for number in range(6)}
    references: set[str] = set()
    for _ in range(200):
        references |= {task.id for task in bank.references("code_o", 1, rng)}
    assert references == {"t0", "t2", "t4"}


def test_an_empty_bank_has_no_program_to_start_from() -> None:
    with pytest.raises(IndexError):
        TaskBank(4).program("code_f", random.Random(0))


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(NAMES), st.none() | st.floats(0, 1)), max_size=40),
    st.integers(1, 8),
)
def test_restoring_the_entries_gives_the_same_bank_and_the_same_draws(
    added: list[tuple[int, Kind, float | None]], capacity: int
) -> None:
    bank = TaskBank(capacity)
    for number, kind, rho in added:
        bank.add(task(number, kind), rho)
    other = TaskBank(capacity)
    other.add(task(99), None)
    other.restore(bank.entries())
    assert other.entries() == bank.entries()
    assert len(other) == len(bank) <= capacity * len(NAMES)
    if added:
        one, two = random.Random(5), random.Random(5)
        assert [bank.program("code_f", one) for _ in range(9)] == [other.program("code_f", two) for _ in range(9)]
        for kind in NAMES:
            assert bank.references(kind, 3, one) == other.references(kind, 3, two)
    # and the next task pushes out the same one
    assert bank.add(task(50), None) == other.add(task(50), None)
    assert other.entries() == bank.entries()
