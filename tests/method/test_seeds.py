"""The seed programs: every one is a good task, in the judgement of the real verifier."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.config import Config, GameConfig
from redqueen.jail import Job, Outcome, canonical, parse_literal
from redqueen.method.judging import judge_proposals
from redqueen.method.seeds import AUTHOR, SeedError, idea, seed_ideas, seeds_of
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Kind, Pair, Proposal, Task, Verdict
from redqueen.tasks.kinds import find
from redqueen.tasks.programs.normal_form import fingerprint, shape
from redqueen.tasks.programs.reached import reached
from redqueen.tasks.python import FILES, NAMES, PYTHON, parse_block, reserved, seeds
from tests.grading import grade
from tools import write_seeds
from tools.same_outputs import same_as_reserved


@pytest.fixture(scope="module")
def seed_verdicts(verifier: LocalVerifier) -> list[tuple[Verdict, Task | None]]:
    """The verifier's answer to each seed program, in file order."""
    drafts = enumerate(seeds())
    return judge_proposals(
        verifier, [Proposal(id=f"seed-{i}", kind="code_f", author=AUTHOR, step=0, draft=draft) for i, draft in drafts]
    )


def test_there_are_enough() -> None:
    assert len(seeds()) >= 1000
    assert len({shape(draft.program) for draft in seeds()}) >= 500


def test_programs_have_all_lengths_from_two_to_ten_lines() -> None:
    lines = Counter(len(draft.program.splitlines()) for draft in seeds())
    assert set(lines) == set(range(2, 11))
    # Enough of each length for a model to learn that programs may be long.
    assert min(lines[count] for count in range(3, 10)) >= 50
    longer = [count for count in lines.elements() if count > 2]
    assert sum(longer) / len(longer) >= 4.5


@pytest.mark.slow
def test_the_generated_programs_are_what_the_tool_writes() -> None:
    written = (write_seeds.FOLDER / write_seeds.GENERATED).read_text(encoding="utf-8")
    assert written == write_seeds.as_text(write_seeds.generated()), "run `python -m tools.write_seeds`"


@pytest.mark.slow
@pytest.mark.integration
def test_no_seed_computes_what_a_reserved_program_computes() -> None:
    found = [(draft.message, same_as_reserved(draft)) for draft in seeds()]
    assert [pair for pair in found if pair[1] is not None] == []


def test_no_more_than_three_programs_are_alike_up_to_names_and_constants() -> None:
    programs = [parse_block(block).program for block in _blocks("generated.txt")]
    counts = Counter(shape(draft.program) for draft in seeds())
    assert [program for program in programs if counts[shape(program)] > 3] == []


@pytest.mark.parametrize("name", FILES)
def test_a_message_is_a_short_plain_line(name: str) -> None:
    messages = [parse_block(block).message for block in _blocks(name)]
    assert [m for m in messages if len(m.split()) > 12 or m != m.strip() or m[0].isupper() or "  " in m] == []


def _blocks(name: str) -> list[str]:
    return (write_seeds.FOLDER / name).read_text(encoding="utf-8").strip().split("\n\n")


@pytest.mark.slow
def test_every_seed_is_valid(seed_verdicts: list[tuple[Verdict, Task | None]]) -> None:
    bad = [
        f"{draft.message}: {verdict.status} {verdict.detail}"
        for draft, (verdict, task) in zip(seeds(), seed_verdicts, strict=True)
        if verdict.status != "valid" or task is None
    ]
    assert bad == []


def test_no_program_comes_twice() -> None:
    counts = Counter(fingerprint(draft.program) for draft in seeds())
    assert [draft.message for draft in seeds() if counts[fingerprint(draft.program)] > 1] == []


def test_no_message_comes_twice() -> None:
    counts = Counter(draft.message for draft in seeds())
    assert [message for message, count in counts.items() if count > 1] == []


@pytest.mark.slow
def test_every_seed_has_enough_different_inputs_for_a_code_f_task(
    seed_verdicts: list[tuple[Verdict, Task | None]],
) -> None:
    need = Config().game.min_inputs
    poor = [task.message for _, task in seed_verdicts if task is not None and len(task.pairs) < need]
    assert poor == []


@pytest.mark.slow
def test_no_seed_lists_an_input_value_twice(seed_verdicts: list[tuple[Verdict, Task | None]]) -> None:
    doubled = [
        draft.message
        for draft, (_, task) in zip(seeds(), seed_verdicts, strict=True)
        if task is not None and len(task.pairs) != len(draft.inputs)
    ]
    assert doubled == []


@pytest.mark.slow
def test_no_seed_gives_one_output_for_all_inputs(seed_verdicts: list[tuple[Verdict, Task | None]]) -> None:
    constant: list[str] = []
    for _, task in seed_verdicts:
        if task is not None:
            outputs = {canonical(parse_literal(pair.output)) for pair in task.pairs}
            if len(outputs) == 1:
                constant.append(task.message)
    assert constant == []


def test_recorded_answers_are_correct(seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier) -> None:
    rng = random.Random(0)
    attempts: list[tuple[Task, str | None]] = []
    for kind, tasks in seed_tasks.items():
        for task in rng.sample(tasks, 40):
            pair = task.pairs[0]
            attempts.append((task, {"code_o": pair.output, "code_i": pair.input, "code_f": task.program}[kind]))
    wrong = [
        f"{task.kind} {task.message}: {verdict.status} {verdict.detail}"
        for (task, _), verdict in zip(attempts, grade(verifier, attempts), strict=True)
        if verdict.status != "correct"
    ]
    assert wrong == []


def test_a_block_has_a_message_a_program_and_inputs() -> None:
    draft = parse_block("\n# double it\ndef f(x):\n    return 2 * x\nf(1)\nf(2)\n")
    assert (draft.message, draft.program, draft.inputs) == ("double it", "def f(x):\n    return 2 * x", ("1", "2"))


@pytest.mark.parametrize(
    "block",
    [
        "",
        "def f(x):\n    return x\nf(1)",
        "# no program\nf(1)",
        "# no inputs\ndef f(x):\n    return x",
        "# a\ndef f(): 0\nf()\nx",
    ],
)
def test_a_block_that_lacks_a_part_is_refused(block: str) -> None:
    with pytest.raises(ValueError, match="not a seed block"):
        parse_block(block)


OWN = """# double it
def f(x):
    return x * 2
f(1)
f(2)

# the first letter
def f(text):
    return text[0]
f('ab')
"""


def test_a_users_file_takes_the_place_of_the_shipped_seeds(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text(f"\n\n{OWN}\n\n\n")
    drafts = seeds_of(GameConfig(seeds=str(tmp_path / "own.txt")))
    assert [draft.message for draft in drafts] == ["double it", "the first letter"]
    assert [draft.inputs for draft in drafts] == [("1", "2"), ("'ab'",)]
    assert seeds_of(GameConfig()) == seeds()


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{OWN}",
        OWN.replace("\n\n", "\n \t\n"),
        OWN.replace("\n\n", "\n\n  \n\n"),
        f"  \n\n{OWN}",
        OWN.replace("\n", "\r\n"),
        f"\ufeff\r\n{OWN}".replace("\n\n", "\n \n"),
        OWN.rstrip("\n"),
    ],
)
def test_marks_and_spaces_of_editors_change_no_seed(tmp_path: Path, text: str) -> None:
    (tmp_path / "plain.txt").write_text(OWN)
    (tmp_path / "own.txt").write_bytes(text.encode())
    assert seeds_of(GameConfig(seeds=str(tmp_path / "own.txt"))) == seeds_of(
        GameConfig(seeds=str(tmp_path / "plain.txt"))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("", "holds no seed programs"),
        (OWN.replace("# the first letter\n", ""), "own.txt, line 7: no seed. A seed is a line `# message`, a program"),
        (OWN.replace("f(1)\nf(2)\n", ""), "own.txt, line 1: no seed"),
        (f" \n\n{OWN}".replace("# double it\n", ""), "own.txt, line 3: no seed"),
        (OWN.replace("\n\n", "\n \n\n").replace("# the first letter\n", ""), "own.txt, line 8: no seed"),
    ],
)
def test_a_file_that_holds_no_seeds_is_refused_with_the_line(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "own.txt").write_text(text)
    with pytest.raises(SeedError) as caught:
        seeds_of(GameConfig(seeds=str(tmp_path / "own.txt")))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# What counts as a new idea: a shape of program, or a message, that neither a seed nor the task bank has.

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


@pytest.mark.slow
def test_shipped_programs_have_no_code_that_can_never_run() -> None:
    # So their shapes need not be looked for in what is left of them, which takes a second for all.
    for draft in (*seeds(), *reserved()):
        assert shape(reached(draft.program)) == shape(draft.program) == PYTHON.shape(draft.program)


KNOWN = "def f(x):\n    y = x * x\n    z = y - 7 // 2\n    return [z, y, x][::-1]"
IDLE = (
    "    pass",
    "    0",
    "    ...",
    "    None",
    "    'a text'",
    "    w = 1",
    "    import math",
    "    if 0:\n        x = 2",
)


@pytest.mark.parametrize("line", [*IDLE, "    'one'\n    'two'"])
def test_a_line_that_does_nothing_makes_no_new_idea(line: str) -> None:
    bank = TaskBank(10)
    bank.add(task(KNOWN), 0.5)
    first, rest = KNOWN.split("\n", 1)
    for padded in (f"{first}\n{line}\n{rest}", f"{KNOWN}\n{line}"):
        assert not bank.is_novel(replace(task(padded), id="again"))
        program = reserved()[5].program
        head, body = program.split("\n", 1)
        assert PYTHON.is_reserved(f"{head}\n{line}\n{body}")


def test_programs_with_tests_keep_their_definitions() -> None:
    # Which of them the tests call is not in the text.
    tested = find("code_t").language
    assert tested.shape("def add(a):\n    return a") != tested.shape("def one():\n    return 1")


@pytest.mark.parametrize(
    "program",
    [
        'def f(x):\n    "7a"\n    return len(f.__doc__) + x',
        '"""1234"""\ndef f(x):\n    return x + int(__doc__)',
        "def f(x):\n    '''h'''\n    return f.__code__.co_consts[0]",
        '"12"\ndef f(x):\n    return globals()["__d" + "oc__"]',
    ],
)
def test_a_program_that_reads_what_students_are_not_shown_is_no_task(program: str) -> None:
    for kind in ("code_o", "code_i"):
        outcome = find(kind).job(Draft(program, ("3",), ""))
        assert isinstance(outcome, Outcome)
        assert (outcome.status, outcome.detail) == (
            "malformed",
            "it may read texts that students are not shown",
        )
    # Without such a text there is nothing to read, and a text that is not read does no harm.
    assert isinstance(find("code_o").job(Draft("def f(x):\n    return f.__doc__", ("3",), "")), Job)
    assert isinstance(find("code_o").job(Draft("def f(x):\n    'a'\n    return eval(x)", ("'3'",), "")), Job)
    commented = "def f(x):\n    # is it there, __doc__?\n    return x.__contains__(f.__doc__)"
    assert isinstance(find("code_o").job(Draft(commented, ("[1]",), "")), Job)
