"""A run's folder with an archive of a few tasks, written by hand: nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redqueen.config import Config
from redqueen.records import Kind, Status
from redqueen.store.archive.rows import AttemptRow, MatchRow, ProposalRow, Row, TaskRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from redqueen.tasks.python import reserved

ADD = "def f(x):\n    return x + 3"
# Alike up to names and constants, and with an output that HTML and shells would take for something else.
ADD_TOO = "def f(number):\n\n    return number + 7"
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
    rows += _task("2.0.b", "code_f", JOIN, [("'a'", r"'<b>a\n'"), ("''", r"'<b>\n'"), ("'é'", r"'<b>é\n'")], [])
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
    name: str, kind: Kind, program: str, pairs: Sequence[tuple[str, str]], answers: Sequence[Status]
) -> list[Row]:
    judged = [status for status in answers if status != "infra_error"]
    rows: list[Row] = [
        _proposal(name, kind, "valid"),
        TaskRow(
            id=name, step=int(name[0]), kind=kind, author="T0", program=program, pairs=tuple(pairs),
            message="put it in bold" if kind == "code_f" else "",
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
