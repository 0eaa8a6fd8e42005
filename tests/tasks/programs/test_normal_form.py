"""Programs as text: separating the calls, and recognising two spellings of one program."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.method.judging import judge_proposals
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, Proposal
from redqueen.tasks.programs.normal_form import fingerprint, normalise, split_calls
from redqueen.tasks.python import seeds

LINE = st.text(alphabet=st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=20)
PROGRAMS = st.lists(LINE, min_size=1, max_size=6).map("\n".join)


def test_calls_are_split_from_the_program() -> None:
    assert split_calls("def f(x, y):\n    return x\nf(1, 2)\nf('a)', (3))") == (
        "def f(x, y):\n    return x",
        ("1, 2", "'a)', (3)"),
    )


def test_a_call_without_arguments_is_an_empty_input() -> None:
    assert split_calls("def f():\n    return 1\nf()") == ("def f():\n    return 1", ("",))


@pytest.mark.parametrize(
    "tail",
    ["f(1)\nand so on", "f(1)\n\nf(2)", "f(1", "f(1) # the input", "f(1)\n    f(2)", "f(1)\ng(2)"],
)
def test_anything_after_the_first_call_that_is_no_call_makes_the_inputs_empty(tail: str) -> None:
    assert split_calls(f"def f(x):\n    return x\n{tail}") == ("def f(x):\n    return x", ())


def test_a_call_inside_the_program_is_part_of_it() -> None:
    program = "def f(n):\n    return n and f(n - 1)"
    assert split_calls(f"{program}\nf(3)") == (program, ("3",))


def test_a_program_without_calls_has_no_inputs() -> None:
    assert split_calls("def f(x):\n    return x\n") == ("def f(x):\n    return x", ())


def test_hostile_arguments_stay_text() -> None:
    assert split_calls("def f(x):\n    return x\nf(0) or (True)")[1] == ("0) or (True",)


@given(PROGRAMS, st.lists(LINE, max_size=5))
def test_what_is_put_together_comes_apart(program: str, inputs: list[str]) -> None:
    kept = program.strip("\n").rstrip()
    if not kept or any(line.startswith("f(") for line in kept.split("\n")):
        return
    assert split_calls("\n".join([kept, *(f"f({given})" for given in inputs)])) == (kept, tuple(inputs))


@given(st.text())
def test_any_text_can_be_split_and_nothing_is_invented(text: str) -> None:
    program, inputs = split_calls(text)
    assert program in text
    assert all(f"f({given})" in text for given in inputs)


BASE = "def f(x, y=2):\n    z = [x, y]\n    return {'k': z}"


@pytest.mark.parametrize(
    "other",
    [
        "def f(x, y = 2):\n  z = [x,y]\n  return {'k' : z}",
        "# what it does\ndef f(x, y=2):  # two\n\n    z = [x, y]\n\n    return {'k': z}\n\n",
        'def f(x, y=2):\n    """Doc."""\n    z = [x, y]\n    return {"k": z}',
        "def f(x, y=2):\n    z = ([x, y])\n    return ({'k': (z)})",
        "def f(x, y=2):\n    z = [\n        x,\n        y,\n    ]\n    return {'k': z}",
    ],
)
def test_spacing_comments_and_docstrings_do_not_matter(other: str) -> None:
    assert fingerprint(other) == fingerprint(BASE)


# The docstring says "docstrings"; a module has one too. As it is, a teacher can make any program new with one line.
def test_a_modules_docstring_does_not_matter_either() -> None:
    assert fingerprint(f'"""Doc."""\n{BASE}') == fingerprint(BASE)


@pytest.mark.parametrize(
    "other",
    [
        "def f(x, y=3):\n    z = [x, y]\n    return {'k': z}",
        "def f(x, y=2):\n    z = (x, y)\n    return {'k': z}",
        "def f(x, y=2):\n    z = [x, y]\n    return {'K': z}",
        "def f(a, y=2):\n    z = [a, y]\n    return {'k': z}",
        "def f(x, y=2.0):\n    z = [x, y]\n    return {'k': z}",
        "def f(x, y=True):\n    z = [x, y]\n    return {'k': z}",
    ],
)
def test_another_program_has_another_fingerprint(other: str) -> None:
    assert fingerprint(other) != fingerprint(BASE)


@pytest.mark.parametrize("body", ['"""Doc."""', "...", "pass", "0", "'one'; 'two'"])
def test_a_body_that_does_nothing_is_pass(body: str) -> None:
    assert normalise(f"def f():\n    {body}") == "def f():\n    pass"


@pytest.mark.parametrize("draft", seeds()[::10], ids=lambda draft: draft.message[:30])
def test_normal_form_is_a_fixed_point_and_still_the_program(draft: Draft) -> None:
    normal = normalise(draft.program)
    assert normalise(normal) == normal
    assert ast.dump(ast.parse(normal)) == ast.dump(ast.parse(draft.program))


def test_what_does_not_parse_raises_as_documented() -> None:
    with pytest.raises(SyntaxError):
        normalise("def f(:")
    with pytest.raises((SyntaxError, ValueError)):
        normalise("def f():\n    return 1\0")


# Each of these is valid for the sandbox, so the trainer's process takes its fingerprint when it goes into the bank;
# an exception there ends the run. A model that repeats itself ("x + x + x + ...") writes the first two.
@pytest.mark.parametrize(
    "body",
    [
        " + ".join(["x"] * 400),
        "-" * 600 + "x",
        "0x" + "f" * 3600 + " and x",
    ],
    ids=["long sum", "many signs", "hexadecimal giant"],
)
def test_what_the_sandbox_accepts_has_a_place_in_the_bank(body: str, verifier: LocalVerifier) -> None:
    draft = Draft(f"def f(x):\n    return {body}", ("1",))
    ((verdict, task),) = judge_proposals(verifier, [Proposal(id="p", kind="code_o", author="T0", step=0, draft=draft)])
    assert verdict.status == "valid"
    assert task is not None
    bank = TaskBank(4)
    assert bank.add(task, None)
    assert not bank.add(task, None)
