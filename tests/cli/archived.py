"""A run's folder with an archive of a few tasks, written by hand: nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from redqueen.config import Config
from redqueen.method.seeds import OWN
from redqueen.records import Kind, Status
from redqueen.store.archive.rows import BANK, AttemptRow, MatchRow, ProposalRow, Row, TaskRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from redqueen.tasks.python import reserved

ADD = "def f(x):\n    return x + 3"
# Alike up to names and constants, and with an output that HTML and shells would take for something else.
ADD_TOO = "def f(number):\n\n    return number + 7"
ADDS = "def add(a, b):\n    return a + b"
JOIN = "def f(s):\n    return '<b>' + s + '\\n'"


def archived(folder: Path) -> Path:
    """Makes the run `folder`: seven proposals, five valid tasks, one of them similar to a reserved program."""
    directory = RunDirectory(folder)
    directory.create(Config(), {})
    measured_on = reserved()[0].program
    rows: list[Row] = [_match("1.0", 1), _match("2.0", 2)]
    rows += _task("1.0.a", "code_o", ADD, [("1", "4")], ["correct", "wrong", "infra_error"])
    rows += _task("1.0.b", "code_i", ADD, [("2", "5")], ["wrong", "wrong"])
    rows += _task("1.0.c", "code_o", measured_on, [("[1]", "1")], ["correct", "correct"])
    rows += [_proposal("1.0.d", "code_o", "malformed"), _proposal("1.0.e", "code_o", "infra_error")]
    rows += _task("2.0.a", "code_o", ADD_TOO, [("1", "8")], ["correct", "correct"])
    rows += _task(
        "2.0.b",
        "code_f",
        JOIN,
        [("'a'", r"'<b>a\n'"), ("''", r"'<b>\n'"), ("'é'", r"'<b>é\n'")],
        [],
        message="put it in bold",
    )
    with Archive(directory.archive) as archive:
        archive.write(rows)
    return folder


def archived_tests(folder: Path) -> Path:
    """Makes a run of tasks with tests: two of the user's, the second without a program, and one of a teacher's."""
    directory = RunDirectory(folder)
    directory.create(Config().override(["game.kinds=code_t"]), {})
    add = [("add(1, 2)", "3"), ("add(2, 2)", "4"), ("add(0, 9)", "9")]
    twice = [("stdin('4')", "'8\\n'"), ("stdin('0')", "'0\\n'")]
    less = [("f(1)", "0"), ("f(9)", "8"), ("f(4)", "3")]
    rows: list[Row] = [_match("1.0", 1), replace(_match("1.1", 1), teacher=BANK)]
    rows += _task("1.0.a", "code_t", "def f(x):\n    return x - 1", less, ["wrong"], message="Take one away.")
    rows += _task("1.1.a", "code_t", ADDS, add, ["correct", "wrong"], OWN, "Add two numbers.\nThey are whole.")
    rows += _task("1.1.b", "code_t", "", twice, [], OWN, "Read a number and print twice as much.")
    with Archive(directory.archive) as archive:
        archive.write(rows)
    return folder


def _match(name: str, step: int) -> MatchRow:
    return MatchRow(
        id=name, step=step, teacher="T0", student=f"S{step}", score=0.0, outcome="draw",
        teacher_mu=25.0, teacher_sigma=8.0, student_mu=25.0, student_sigma=8.0,
    )  # fmt: skip


def _proposal(name: str, kind: Kind, status: Status) -> ProposalRow:
    return ProposalRow(
        id=name, step=int(name[0]), match=name[:3], teacher="T0", kind=kind, prompt="p", reference_ids=(), text="t",
        tokens=9, finish_reason="stop", status=status, output="", detail="", cpu_ms=1.0,
        reward=None if status == "infra_error" else 0.25,
    )  # fmt: skip


def _task(
    name: str,
    kind: Kind,
    program: str,
    pairs: Sequence[tuple[str, str]],
    answers: Sequence[Status],
    author: str = "T0",
    message: str = "",
) -> list[Row]:
    judged = [status for status in answers if status != "infra_error"]
    written = _proposal(name, kind, "valid")
    rows: list[Row] = [
        written if author == "T0" else replace(written, teacher=BANK, reward=None),
        TaskRow(
            id=name, step=int(name[0]), kind=kind, author=author, program=program, pairs=tuple(pairs), message=message,
            rho=judged.count("correct") / len(judged) if judged else None, novel=name.startswith("1"),
        ),
    ]  # fmt: skip
    rows += [
        AttemptRow(
            task=name, number=number, step=int(name[0]), student="S0", text="4", tokens=1, finish_reason="stop",
            status=status, output="", detail="", cpu_ms=0.0, reward=None if status == "infra_error" else 1.0,
        )
        for number, status in enumerate(answers)
    ]  # fmt: skip
    return rows
