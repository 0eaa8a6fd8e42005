"""Fenced blocks in the forms in which models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.tasks.programs.fenced import Blocks, Fenced, dedented, fenced_blocks
from tests.linear import LENGTH, LIMIT_S, cpu_seconds

F = "```"
DOC = f'def f():\n    """Doubles.\n\n    {F}python\n    f()\n    {F}\n    """\n    return 2'


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        (f"{F}python\nx = 1\n{F}", ["x = 1"]),
        (f"So:\n\n{F}\nx = 1\n\ny = 2\n{F}\nDone.", ["x = 1\n\ny = 2"]),
        ("~~~py\nx = 1\n~~~", ["x = 1"]),
        (f"````\n{F}\nx\n{F}\n````", [f"{F}\nx\n{F}"]),
        (f"{F}py\nx = 1\n````", ["x = 1"]),
        (f"~~~\n{F}\n~~~", [F]),
        (f"Answer: {F}python\nx = 1\n{F}", ["x = 1"]),
        (f"Answer: {F}\nx = 1\n{F}", ["x = 1"]),
        (f"{F}python\nif x:\n    y{F}", ["if x:\n    y"]),
        (f"{F}python\nx = 1{F}\nDone.\n{F}text\n1\n{F}", ["x = 1", "1"]),
        (f"1. Code:\n\n   {F}python\n   if x:\n       y\n   {F}", ["if x:\n    y"]),
        (f"- {F}python\n  if x:\n      y\n  {F}", ["if x:\n    y"]),
        (f"> {F}python\n> if x:\n>     y\n> {F}", ["if x:\n    y"]),
        (f"{F}python\n{DOC}\n{F}", [DOC]),
        (f"{F}python\n{DOC}{F}", [DOC]),
        (f"{F}python\r\nx = 1\r\ny = 2\r\n{F}\r\n", ["x = 1\ny = 2"]),
        (f"{F}py\ns = '{F}'\n{F}", [f"s = '{F}'"]),
        (f"{F}py\nx = 1  # as in {F}\ny = 2\n{F}", [f"x = 1  # as in {F}\ny = 2"]),
        (f"{F}py\nx = 1  # done{F}\nSo be it.", ["x = 1  # done"]),
        (f'{F}py\ns = """never closed\n{F}\nDone.\n{F}py\nx = 1\n{F}', ['s = """never closed', "x = 1"]),
        (f"{F}py\nx = 1\n{F} is what I say", ["x = 1"]),
        (f"{F}input\n1\n{F}output\n2\n{F}", ["1", "2"]),
        (f"{F}python\nx = 1\n", ["x = 1\n"]),
        (f"Use {F}x{F} or a {F}python block, please.", []),
        ("~~~~ is a river ~~~", []),
        (F, [""]),
        ("", []),
    ],
)
def test_the_lines_of_a_block(text: str, bodies: list[str]) -> None:
    assert [block.body for block in fenced_blocks(text)] == (bodies if text != "~~~~ is a river ~~~" else [""])


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("python", "python"),
        ("Python", "python"),
        ("py", "python"),
        ("python3", "python"),
        ("Python 3.11", "python"),
        ('python title="a.py"', "python"),
        ("{.python}", "python"),
        ("python:main.py", "python"),
        ("pycon", "pycon"),
        ("OUTPUT", "output"),
        ("c++", "c++"),
        ("", ""),
    ],
)
def test_the_name_of_a_block(info: str, name: str) -> None:
    assert [block.name for block in fenced_blocks(f"{F}{info}\nx\n{F}")] == [name]


def test_only_a_fence_closes_a_block() -> None:
    text = f"{F}input\n1\n{F}output\n2\n{F}\n{F}\n3"
    assert [block.closed for block in fenced_blocks(text)] == [False, True, False]


def test_a_program_loses_the_indentation_of_its_first_line() -> None:
    assert dedented('\n    def f():\n        return """\n  a"""') == '\ndef f():\n    return """\na"""'
    assert dedented("def f():\n    x") == "def f():\n    x"


def test_a_block_is_read_alike_twice_and_after_one_that_was_cut_back() -> None:
    text = f'{F}py\n# {F}py\n# {F}py\n"""\n{F}py\n"""\nx\n'
    blocks = Blocks(text)
    first = blocks.after(0)
    assert first is not None
    second = blocks.after(first.end)
    assert (first.body, second and second.body) == ("# ", '"""')
    assert (blocks.after(0), blocks.after(first.end)) == (first, second)
    whole = Blocks(f"{text}{F}")
    assert whole.after(0) == whole.after(0) == Fenced("py", text[6:-1], 0, len(text) + 3, closed=True)


PIECES = st.sampled_from(
    ["```", "~~~", "````", "python", '"""', "'''", "#", "\n", " ", "x", ">", "- ", "<answer>", "'"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_blocks_of_any_text_follow_each_other(text: str) -> None:
    at = 0
    for block in fenced_blocks(text):
        assert at <= block.start < block.end <= len(text)
        assert "\n" not in block.info
        at = block.end


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "```a\n",
        "`",
        "~~~\n",
        '```a\n"""\n',
        "```a\n'''\n\"\"\"\n",
        " ",
        "\n",
        "```a\n#```\n",
        "# ```a\n",
        "# ```a\n# x\n# ```\n",
        '# """\n"""\n```a\n',
        "- ",
        "> ",
        '"',
        "x```\n",
    ],
)
def test_reading_blocks_takes_time_in_proportion_to_the_text(unit: str) -> None:
    text = "```python\n" + unit * (LENGTH // len(unit))
    assert cpu_seconds(lambda: list(fenced_blocks(text))) < LIMIT_S
    # A fence with a name ends a block as the text's end does.
    assert cpu_seconds(lambda: list(fenced_blocks(f"{text}\n```python\n"))) < LIMIT_S
