"""What is measured of each valid task, and what a step's line says of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.method.behaviour import Behaviour
from redqueen.method.played_step import PlayedMatch, PlayedStep, ScoredProposal
from redqueen.records import Kind, Pair, Task, Verdict
from redqueen.run.recording.files import ArchiveRecorder
from redqueen.run.recording.measures import (
    Measures,
    StepMeasures,
    ToMeasure,
    cells_of,
    cells_of_seeds,
    measure_task,
)
from redqueen.run.recording.metrics import step_metrics
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import MeasureRow, MemberRow
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import BUILT_IN, find
from tests.run.recording.steps import MATCH, S0, T0, full, proposal, record

DEAD = "def f(x):\n    y = x + 1\n    return y * 2\n    y = 3\n    return y"
ALIVE = "def f(x):\n    y = x + 1\n    return y * 2"
GUESSED = Behaviour(inputs=20, cell="aa", distinct_outputs=2, same_output_rate=0.5, echo=False)
HARD = Behaviour(inputs=20, cell="bb", distinct_outputs=20, same_output_rate=0.05, echo=False)


def task(name: str, program: str, given: str = "1", output: str = "4", kind: Kind = "code_o") -> Task:
    pairs = (Pair(given, output),)
    return Task(id=name, kind=kind, author="T0", step=4, program=program, pairs=pairs)


def played(step: int, *tasks: Task) -> PlayedStep:
    verdict = full().played.proposals[0].proposed.verdict
    proposals = tuple(
        ScoredProposal(
            proposed=replace(proposal(number, verdict, one), id=one.id),
            reward=0.5,
            solve_rate=0.5,
            novel=True,
            attempts=(),
        )
        for number, one in enumerate(tasks)
    )
    return PlayedStep(step=step, matches=(PlayedMatch(match=replace(MATCH, id=f"{step}.0"), proposals=proposals),))


def measure(measures: Measures, step: int, *tasks: Task, **behaviours: Behaviour) -> StepMeasures:
    return measures.measure(played(step, *tasks), behaviours, ["T0"])


def metrics(done: StepMeasures) -> StepMetrics:
    return step_metrics(record(4, measures=done))


def test_a_program_with_tests_is_not_measured_whatever_its_function_is_called() -> None:
    tested = replace(task("a", ALIVE), kind="code_t", pairs=(Pair("f(1)", "1"), Pair("f(f(2)) + 1", "3")))
    assert measure(Measures(BUILT_IN), 4, tested).rows == ()


def test_a_task_is_measured_as_written_and_as_reached() -> None:
    done = measure(Measures(BUILT_IN), 4, task("a", DEAD), task("b", ALIVE))
    dead, alive = done.rows
    assert dead.written_lines == 5
    assert (dead.reached_lines, dead.reached_nodes) == (alive.written_lines, alive.written_nodes)
    assert dead.paths == alive.paths
    assert dead.signature == "int -> int"
    of_kind = metrics(done)["complexity_by_kind"]["code_o"]
    assert of_kind is not None
    assert (of_kind["written"]["lines"], of_kind["reached"]["lines"]) == (4, 3)
    assert metrics(done)["complexity_by_kind"]["code_f"] is None
    share = 1 - dead.reached_nodes / dead.written_nodes
    assert metrics(done)["dead_code_by_kind"]["code_o"] == pytest.approx(share / 2)


def test_dead_code_other_names_and_constants_make_no_new_program() -> None:
    renamed = "def f(n):\n    m = n + 5\n    return m * 7"
    done = measure(
        Measures(BUILT_IN), 4, task("a", ALIVE), task("b", DEAD), task("c", renamed), task("d", ALIVE, "2", "6")
    )
    assert [row.new_shape for row in done.rows][1:] == [False, False, False]
    assert metrics(done)["coverage"]["programs"]["cells"] == 1
    assert not any(row.repeated for row in done.rows)


def test_a_repeated_task_has_its_share() -> None:
    measures = Measures(BUILT_IN)
    measure(measures, 4, task("a", ALIVE))
    again = measure(measures, 5, task("b", f"# again\n{ALIVE}"), task("c", ALIVE, "2"))
    assert [row.repeated for row in again.rows] == [True, False]
    assert metrics(again)["repeated_rate"] == 0.5
    assert metrics(again)["new_paths"] == 0


def test_champions_tasks_have_rows_and_count_nowhere() -> None:
    done = Measures(BUILT_IN).measure(played(4, replace(task("a", ALIVE), author="T0@2")), {}, ["T0"])
    assert len(done.rows) == 1
    assert metrics(done)["coverage"]["programs"]["tasks"] == 0
    assert metrics(done)["repeated_rate"] is None


def test_guessable_tasks_are_counted_among_those_that_were_called() -> None:
    tasks = [task(name, ALIVE, given) for name, given in (("a", "1"), ("b", "2"), ("c", "3"))]
    guessable = metrics(measure(Measures(BUILT_IN), 4, *tasks, a=GUESSED, b=HARD))["guessable"]
    assert guessable == {"tasks": 2, "rate": 0.5, "by_random": 0.5, "by_echo": 0.0, "by_few_outputs": 0.5}


def test_tasks_whose_text_holds_the_answer_are_counted() -> None:
    told = [task("a", "def f(x):\n    # 106\n    return x * 7 + 99", "1", "106"), task("b", ALIVE), task("c", DEAD)]
    assert step_metrics(replace(full(), played=played(4, *told)))["by_text"] == pytest.approx(1 / 3)
    assert step_metrics(replace(full(), played=played(4)))["by_text"] is None


def test_a_resumed_count_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    first = [task("4.a", DEAD), task("4.b", "def f(x):\n    return [x] * len(str(x))", "1", "[1]")]
    later = [task("5.a", ALIVE), task("5.b", "def f(x):\n    return {x: x}", "1", "{1: 1}")]
    whole = Measures(BUILT_IN)
    recorder = ArchiveRecorder(tmp_path / "run.sqlite")
    recorder.begin([T0, S0], ())
    before = measure(whole, 4, *first, **{"4.a": HARD})
    recorder.record(replace(record(4), played=played(4, *first), measures=before))
    lost = measure(Measures(BUILT_IN), 5, *later)
    recorder.record(replace(record(5), played=played(5, *later), measures=lost))
    recorder.rewind(4)
    resumed = Measures(BUILT_IN)
    with ArchiveReader(tmp_path / "run.sqlite") as reader:
        assert reader.every(MeasureRow) == list(before.rows)
        resumed.restore(reader.measures_of_members())
    recorder.close()
    assert measure(resumed, 5, *later) == measure(whole, 5, *later)


@pytest.mark.parametrize(("kind", "expected"), [("code_o", 1744), ("expr_o", 512), ("sql_o", 288)])
def test_seeds_of_each_language_are_known(kind: Kind, expected: int) -> None:
    drafts = find(kind).language.seeds()
    assert len(drafts) == expected
    known = cells_of_seeds([kind])
    for draft in drafts[:: 40 if kind == "code_o" else 8]:
        # What is made of the text of a program depends on no value.
        (given,) = draft.inputs[:1]
        one = Task(id="a", kind=kind, author="T0", step=1, program=draft.program, pairs=(Pair(given, "1"),))
        row = measure_task(ToMeasure(1, one, Verdict("valid"), None))
        cells = cells_of(row)
        for name in ("programs", "paths", "functions"):
            assert known[name].issuperset(cells[name]), draft.program
    # Another language's seeds are others.
    assert known["programs"].isdisjoint(cells_of_seeds(["sql_o" if kind != "sql_o" else "expr_o"])["programs"])


def test_what_champions_wrote_is_not_counted_again(tmp_path: Path) -> None:
    recorder = ArchiveRecorder(tmp_path / "run.sqlite")
    recorder.begin([T0], ())
    tasks = [task("4.a", ALIVE), replace(task("4.b", ALIVE, "2"), author="T0@2")]
    done = measure(Measures(BUILT_IN), 4, *tasks)
    recorder.record(replace(record(4), played=played(4, *tasks), measures=done))
    with ArchiveReader(tmp_path / "run.sqlite") as reader:
        assert isinstance(reader.every(MemberRow)[0], MemberRow)
        assert reader.measures_of_members() == [done.rows[0]]
    recorder.close()
