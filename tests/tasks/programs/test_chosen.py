"""Which block of a message is the program."""

from __future__ import annotations

import pytest

from redqueen.tasks.programs.fenced import chosen, defines, fenced_blocks

F = "```"
ADD = "def add(a, b):\n    return a + b"


def block(name: str, body: str) -> str:
    return f"{F}{name}\n{body}\n{F}\n"


@pytest.mark.parametrize(
    "program",
    [
        "def f(): ...",
        "class f:\n    x = 1",
        "async def f(): ...",
        "x = 1\nf = lambda: 1",
        "f: object = len",
        "if x:\n    def f(): ...",
    ],
)
def test_a_program_defines_a_name(program: str) -> None:
    assert defines(program, "f")
    assert not defines(program, "g")


@pytest.mark.parametrize("program", ["f()", "f == 1", "def ff(): ...", "# def f", "print('def f')", ""])
def test_to_use_a_name_is_not_to_define_it(program: str) -> None:
    assert not defines(program, "f")


@pytest.mark.parametrize(
    "text",
    [
        block("python", ADD) + block("python", "print(add(1, 2))"),
        block("python", "def add(a, b):\n    return a - b") + block("", ADD) + block("", "3"),
        block("", ADD) + block("text", "def add"),
        block("code", ADD) + block("python", "print(add(1, 2))"),
        block("python", ADD) + block("cpp", "int add(int a, int b) { return a; }"),
    ],
)
def test_the_last_block_that_defines_what_is_called_is_the_program(text: str) -> None:
    assert chosen(list(fenced_blocks(text)), ["add"]) == ADD


def test_a_block_that_defines_all_names_comes_before_one_that_defines_some() -> None:
    both = "def add(): ...\ndef sub(): ..."
    assert chosen(list(fenced_blocks(block("py", both) + block("py", ADD))), ["add", "sub"]) == both


SCRIPT = "n = int(input())\nprint(n)"


@pytest.mark.parametrize(
    "text",
    [
        block("python", SCRIPT) + block("", "3"),
        block("", SCRIPT) + block("", "7 8") + block("", "[1, 2]"),
        block("", SCRIPT) + block("bash", "python3 main.py") + block("text", "3"),
        block("python", SCRIPT) + block("python", ">>> print(1)\n1"),
        block("python", "draft()") + block("", SCRIPT),
        block("bash", "pip install x") + block("python", SCRIPT),
    ],
)
def test_a_script_is_the_last_block_that_is_a_program(text: str) -> None:
    assert chosen(list(fenced_blocks(text))) == SCRIPT


def test_without_a_block_there_is_none() -> None:
    assert chosen([], ["f"]) is None
    assert chosen(list(fenced_blocks(block("java", "x")))) == "x"
