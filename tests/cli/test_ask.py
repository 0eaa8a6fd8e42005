"""`redqueen ask`: a question is checked, answered and judged."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from redqueen.members.asking import posed
from redqueen.members.question import QuestionError, asked_lines, read_question
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Pair
from redqueen.store.directory import RunDirectory
from tests.cli.archived import archived
from tests.cli.running import redqueen

PROGRAM = "def f(x):\n    return x * 2"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("S0", PROGRAM, "f(4) == ?"), ["asked: S0 (student, after step 2)", "    f(4) == ?", "right is: 8"]),
        (("base", PROGRAM, "f(?) == 8", "--attempts", "3"), ["asked: the base, without an adapter", "solved 0 of 3"]),
        (("best-teacher", "# double", "f(1) == 2", "f(2) == 4"), ["judged on the other 1", "verdict: malformed"]),
        (("s1", "seed-0-code_i", "--step", "1"), ["asked: S1 (student, after step 1)", "== "]),
    ],
)
def test_a_member_answers_and_is_judged(finished: Path, args: tuple[str, ...], shown: list[str]) -> None:
    done = redqueen("ask", str(finished), *args)
    assert done.returncode == 0, done.stderr
    assert [text for text in shown if text not in done.stdout] == []
    assert "verdict: " in done.stdout


@pytest.mark.integration
def test_a_question_may_come_from_a_file(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "question.txt").write_text(f"{PROGRAM}\nf(5) == ?\n")
    done = redqueen("ask", str(finished), "S0", str(tmp_path / "question.txt"))
    assert "right is: 10" in done.stdout


def test_a_mark_in_front_of_a_question_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = f"\ufeff{PROGRAM}\nf(5) == ?\n"
    (tmp_path / "question.txt").write_text(question)
    monkeypatch.setattr("sys.stdin", io.StringIO(question))
    directory = RunDirectory(archived(tmp_path / "run"))
    from_file = asked_lines(directory, [str(tmp_path / "question.txt")])
    assert from_file == asked_lines(directory, ["-"]) == [*PROGRAM.split("\n"), "f(5) == ?", ""]


def test_the_program_of_a_question_runs_in_the_sandbox_first(verifier: LocalVerifier) -> None:
    task = posed(read_question(f"{PROGRAM}\nf( [1,2] ) == ?"), verifier)
    assert task.pairs == (Pair("[1, 2]", "[1, 2, 1, 2]"),)
    with pytest.raises(QuestionError, match="the program gives no answer to judge by: error, NameError"):
        posed(read_question("def f(x):\n    return y\nf(1) == ?"), verifier)


def test_an_output_that_is_no_literal_is_refused(verifier: LocalVerifier) -> None:
    with pytest.raises(QuestionError, match="an output must be a literal"):
        posed(read_question(f"{PROGRAM}\nf(?) == print(1)"), verifier)
    assert posed(read_question(f"{PROGRAM}\nf(?) == [ 1,2]"), verifier).pairs[0].output == "[1, 2]"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("S9", "seed-1"), "no member 'S9' ever lived in"),
        (("S0", "seed-999999"), "no seed task 'seed-999999'"),
        (("S0", "what is love?"), "cannot read 'what is love?' as a question"),
        (("S0", "--step", "7", "seed-1"), "S0 is not in a checkpoint after step 7"),
    ],
)
def test_what_cannot_be_asked_is_one_line(finished: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("ask", str(finished), *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.integration
def test_without_a_question_it_is_a_conversation(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        *("help", PROGRAM, "f(4) == ?", "", "attempts 2", "again", "member base", "seed-1"),
        *("# double", "f(1) == 2", "f(2) == 4", ""),
        *("propose code_o", "propose code_x", "member S9", "attempts none", "what is love?", "", "member S1"),
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(said)))
    done = redqueen("ask", str(finished))
    # It ends where the input ends, and no fault of a person ends it before.
    assert (done.returncode, done.stderr) == (0, "")
    assert [part for part in SAID if part not in done.stdout] == []
    assert done.stdout.endswith("S1 is asked\n")
    assert done.stdout.count("asked: S") == 2
    assert done.stdout.count("asked: the base") >= 2


SAID = (
    "help says what can be written",
    "propose [KIND]",
    "right is: 8",
    "solved 0 of 2",
    "judged on the other 1",
    "proposed by T",
    "choose one of code_o, code_i, code_f",
    "no member 'S9' ever lived in",
    "give a whole number from 1 on",
    "cannot read 'what is love?' as a question",
)


@pytest.mark.integration
def test_a_conversation_with_nobody_is_refused_before_anything_is_loaded(finished: Path) -> None:
    done = redqueen("ask", str(finished), "S9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no member 'S9' ever lived in" in done.stderr
