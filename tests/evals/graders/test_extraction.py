"""Programs and boxes in a model's text."""

from __future__ import annotations

import pytest

from redqueen.evals.graders.extraction import code_answer, last_boxed


@pytest.mark.parametrize(
    ("text", "name", "program"),
    [
        ("def f(x):\n    return x", "f", "def f(x):\n    return x"),
        ("So:\n```python\ndef f(x):\n    return x\n```\nDone.", "f", "def f(x):\n    return x\n"),
        ("```\nx = 1\n```\n```py\nx = 2\n```", "", "x = 2\n"),
        ("```py\ndef f(): pass\n```\n```\nprint(f())\n```", "f", "def f(): pass\n"),
        ("```python\ndef f(): pass\n", "f", "def f(): pass\n"),
        ("```py\ns = '```'\n```", "", "s = '```'\n"),
        ("Use `x`.", "f", "Use `x`."),
    ],
)
def test_the_program_is_in_the_last_block_that_defines_it(text: str, name: str, program: str) -> None:
    assert code_answer(text, name) == program


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{1} and then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed 7.", "7"),
        (r"\fbox{ 3 }", "3"),
        (r"\boxed{4} and \boxed{5", "4"),
        (r"no box", None),
        ("\\boxed", None),
    ],
)
def test_the_answer_is_in_the_last_whole_box(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer
