"""Programs and boxes in a model's text."""

from __future__ import annotations

import pytest

from redqueen.evals.grader import boxed_together, code_answer, last_boxed


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
        # The last box is cut off: what stands before it may have been withdrawn.
        (r"\boxed{4}. No: \boxed{5", None),
        (r"\boxed{4}. No: \boxed{\frac{1}{2}", None),
        (r"\boxed{4}. No: \boxed{\text{so } \boxed{3}", None),
        (r"\boxed{4}. No: \boxed{", None),
        (r"\boxed{4}. No: \boxed", None),
        (r"\boxed{4}. No: \box", None),
        (r"\boxed{4}. No: \fb", None),
        (r"\boxed{4} \boxedx", "4"),
        (r"no box", None),
        ("\\boxed", None),
    ],
)
def test_the_answer_is_in_the_last_whole_box(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So $x=\boxed{1}$ or $x=\boxed{2}$.", "1, 2"),
        (r"So \boxed{1}, \boxed{2} and \boxed{3}", "1, 2, 3"),
        (r"The pairs are \(\boxed{(1, 2)}\) and \(\boxed{(3, 4)}\).", "(1, 2), (3, 4)"),
        ("x_1 = \\boxed{1}\n\nx_2 = \\boxed{2.5}", "1, 2.5"),
        ("The answers:\n- $\\boxed{1}$\n- $\\boxed{2}$\n", "1, 2"),
        ("\\[\\boxed{1}\\]\nand\n\\[\\boxed{2}\\]", "1, 2"),
        (r"For $n=1.5$ it is \boxed{1} and for larger n it is \boxed{2}.", "1, 2"),
        # Another sentence, or what is taken back, is no part of the answer.
        (r"First $\boxed{7}$. So $x=\boxed{1}$ or $x=\boxed{2}$.", "1, 2"),
        ("Try \\boxed{7} first\nthen we get x=\\boxed{1}.", "1"),
        (r"It is \boxed{1}, no, \boxed{2}.", "2"),
        (r"It is \boxed{1}. Wait: \boxed{2} or \boxed{3}.", "2, 3"),
        (r"\boxed{1, 2}", "1, 2"),
        (r"\boxed{\boxed{1, 2}}", "1, 2"),
        (r"\boxed{7}. \boxed{1} or \boxed{\boxed{2}}", "1, 2"),
        (r"\boxed{1} or \boxed{2", None),
        ("no box", None),
    ],
)
def test_the_boxes_of_the_last_sentence_are_one_answer(text: str, answer: str | None) -> None:
    assert boxed_together(text) == answer


def test_many_names_between_two_boxes_take_no_time() -> None:
    names = ", ".join(f"x_{{{number}}}" for number in range(400))
    assert boxed_together(f"\\boxed{{1}}, {names}. So \\boxed{{2}}") == "2"
