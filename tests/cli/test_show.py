"""`redqueen show`: tasks and answers, from an archive that is written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.cli.show import work_and_answer
from redqueen.config import Config
from redqueen.store.archive.rows import BANK, AttemptRow, MatchRow, MemberRow, ProposalRow, TaskRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from redqueen.store.files import write_json
from tests.cli.running import redqueen

MATCH = MatchRow(
    id="0.0",
    step=1,
    teacher="T0",
    student="S1",
    score=0.1,
    outcome="draw",
    teacher_mu=25.0,
    teacher_sigma=8.0,
    student_mu=25.0,
    student_sigma=8.0,
)
PROPOSAL = ProposalRow(
    id="0.0.code_o.0",
    step=1,
    match="0.0",
    teacher="T0",
    kind="code_o",
    prompt="",
    reference_ids=(),
    text="def f(x):\n    return x * 2\nf(4)",
    tokens=9,
    finish_reason="stop",
    status="valid",
    output="8",
    detail="",
    cpu_ms=1.0,
    reward=0.5,
)
TASK = TaskRow(
    id=PROPOSAL.id,
    step=1,
    kind="code_o",
    author="T0",
    program="def f(x):\n    return x * 2",
    pairs=(("4", "8"),),
    message="",
    rho=0.5,
    novel=True,
)
ATTEMPT = AttemptRow(
    task=TASK.id,
    number=0,
    step=1,
    student="S1",
    text=" 8",
    tokens=2,
    finish_reason="stop",
    status="correct",
    output="8",
    detail="",
    cpu_ms=0.0,
    reward=1.0,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps: a code_o task and a refused proposal, then a code_i task that nobody solved."""
    folder = tmp_path_factory.mktemp("shown")
    write_json(RunDirectory(folder).config_file, Config().model_dump(mode="json"))
    names = ("T0", "S0", "S1")
    inverse = replace(PROPOSAL, id="1.0.code_i.0", step=2, match="1.0", kind="code_i", reward=0.0)
    with Archive(RunDirectory(folder).archive) as archive:
        archive.write(MemberRow(name=name, role="student", step=0, parents=(), operator="init") for name in names)
        archive.write([MATCH, replace(MATCH, id="1.0", step=2, student="S0")])
        refused = replace(PROPOSAL, id="0.0.code_o.1", status="error", detail="NameError at line 1", reward=-1.0)
        archive.write([PROPOSAL, refused, inverse])
        archive.write([TASK, replace(TASK, id=inverse.id, step=2, kind="code_i", rho=0.0)])
        wrong = replace(ATTEMPT, text=" 6\x1b[2J", status="wrong", output="6", reward=-0.5)
        archive.write([ATTEMPT, replace(wrong, number=1), replace(wrong, number=2)])
        archive.write([replace(wrong, task=inverse.id, step=2, student="S0", text="7)", detail="output 0 differs")])
    return folder


def show(run: Path, *args: str) -> str:
    done = redqueen("show", str(run), *args)
    assert done.returncode == 0, done.stderr
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def test_a_task_is_shown_as_a_question_with_its_answers_counted(run: Path) -> None:
    assert show(run, "--step", "1") == (
        "step 1  code_o by T0 for S1  (0.0.code_o.0)\n"
        "    def f(x):\n"
        "        return x * 2\n"
        "    f(4) == ?\n"
        "  T0's answer  8\n"
        "  valid, solved 1 of 3; T0 is paid +0.50\n"
        "  S1  2 x  wrong        -0.50  6\\x1b[2J\n"
        "  S1  1 x  correct      +1.00  8\n"
        "\n"
        "1 of 1 shown; 1 of 2 proposals were refused (error 1): see --worst"
    )


def test_the_newest_come_first(run: Path) -> None:
    lines = show(run).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("step")] == ["2", "1"]
    assert "    f(?) == 8" in lines
    assert "  T0's answer  f(4)" in lines
    assert "  S0  1 x  wrong        -0.50  f(7)   (output 0 differs)" in lines


def test_worst_begins_with_what_was_refused_and_best_with_what_paid_most(run: Path) -> None:
    worst = show(run, "--worst").splitlines()
    assert worst[0].endswith("(0.0.code_o.1)")
    assert "  refused, error (NameError at line 1); T0 is paid -1.00" in worst
    assert show(run, "--best").splitlines()[0].endswith("(0.0.code_o.0)")


def test_fixed_tasks_are_shown_by_what_the_student_was_paid(tmp_path: Path) -> None:
    write_json(RunDirectory(tmp_path).config_file, Config().model_dump(mode="json"))
    posed = [replace(PROPOSAL, id=f"0.0.code_o.{number}", teacher=BANK, reward=None) for number in range(3)]
    paid = zip(posed, (0.25, 1.0, -0.5), strict=True)
    with Archive(RunDirectory(tmp_path).archive) as archive:
        archive.write([replace(MATCH, teacher=BANK), *posed])
        archive.write([replace(TASK, id=row.id) for row in posed])
        archive.write([replace(ATTEMPT, task=row.id, reward=reward) for row, reward in paid])
    assert show(tmp_path, "--best", "--limit", "1").splitlines()[0].endswith("(0.0.code_o.1)")
    assert show(tmp_path, "--worst", "--limit", "1").splitlines()[0].endswith("(0.0.code_o.2)")


def test_attempts_that_the_machine_lost_are_not_counted_as_failures(tmp_path: Path) -> None:
    write_json(RunDirectory(tmp_path).config_file, Config().model_dump(mode="json"))
    lost = replace(ATTEMPT, status="infra_error", reward=None)
    with Archive(RunDirectory(tmp_path).archive) as archive:
        archive.write([MATCH, PROPOSAL, TASK, ATTEMPT, replace(lost, number=1), replace(lost, number=2)])
    assert "valid, solved 1 of 1 (2 more were not judged)" in show(tmp_path)


def test_a_student_is_shown_by_what_it_was_paid(run: Path) -> None:
    shown = show(run, "--member", "s1", "--worst")
    assert "1 of 1 shown" in shown
    assert "refused" not in shown


def test_a_limit_says_how_many_there_are(run: Path) -> None:
    assert show(run, "--limit", "1").splitlines()[-1].startswith("1 of 2 shown; more with --limit N")
    assert "0 of 0 shown" in show(run, "--kind", "code_f")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--member", "S9"), "no member 'S9' ever lived in"),
        (("--step", "7"), "has no step 7"),
        (("--best", "--worst"), "choose one of --best and --worst"),
    ],
)
def test_what_is_not_there_is_one_line(run: Path, args: tuple[str, ...], message: str) -> None:
    done = redqueen("show", str(run), *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_work_stands_below_the_answer_that_it_led_to(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "worked"
    folder.mkdir()
    config = Config().with_values("model", prompts="work")
    write_json(RunDirectory(folder).config_file, config.model_dump(mode="json"))
    with Archive(RunDirectory(folder).archive) as archive:
        archive.write(
            [MemberRow(name="S1", role="student", step=0, parents=(), operator="init"), MATCH, PROPOSAL, TASK]
        )
        worked = replace(ATTEMPT, text="\nreturn 4 * 2 -> 8")
        archive.write([worked, replace(worked, number=1, text=" 8")])
    shown = show(folder, "--kind", "code_o")
    assert "  S1  2 x  correct      +1.00  8\n    return 4 * 2" in shown


@pytest.mark.parametrize(
    ("prompts", "kind", "text", "shown"),
    [
        ("completion", "code_i", "4, 9)", ("", "f(4, 9)")),
        ("completion", "code_o", "\n  7 ", ("", "7")),
        (
            "work",
            "code_i",
            "4, 9)\nreturn 4 -> 4\nf(9, 9)\nreturn 9 -> 9",
            ("f(4, 9)\nreturn 4 -> 4\nreturn 9 -> 9", "f(9, 9)"),
        ),
        ("work", "code_i", "9, 9)", ("", "f(9, 9)")),
        ("work", "code_o", "\nx = 1\nreturn x + 3 -> 4", ("x = 1\nreturn x + 3", "4")),
        ("work", "code_i", "nothing that is read", ("", "")),
    ],
)
def test_an_answer_is_shown_as_a_student_wrote_it_with_its_work_apart(
    prompts: str, kind: str, text: str, shown: tuple[str, str]
) -> None:
    assert work_and_answer(prompts, kind, text) == shown
