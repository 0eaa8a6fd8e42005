"""Where a chat text answers, and where it ends."""

from __future__ import annotations

import pytest

from redqueen.tasks.programs.tagged import CLOSE, answer_end, last_answer
from tests.linear import LENGTH, LIMIT_S, cpu_seconds

FOUR = "```output\n4\n```"


@pytest.mark.parametrize(
    "text",
    [
        f"<answer>\n{FOUR}\n</answer>",
        f"<think>Between <answer> and </answer>.</think>\n<answer>\n{FOUR}\n</answer>",
        f"Between <answer> and </answer>.\n<answer>\n{FOUR}\n</answer>",
        f"<think>\n<answer>\n{FOUR}\n</answer>, no.</think><answer>{FOUR}</answer>",
        f"<answer>\n```python\ns = '</answer>'\n```\n{FOUR}\nThat is it.\n</answer>",
    ],
)
def test_a_text_ends_at_the_tag_behind_its_answer_and_nowhere_before(text: str) -> None:
    end = text.rindex(CLOSE)
    # As the sampler asks: whenever another tag is complete.
    ends = [answer_end(text[:at]) for at in range(1, len(text)) if text[:at].endswith(CLOSE)]
    assert ends == [None] * len(ends)
    assert answer_end(text) == end
    assert answer_end(f"{text} and so on") == end


@pytest.mark.parametrize(
    "text", ["", "<answer>4</answer>", f"{FOUR}</answer>", f"<think><answer>\n{FOUR}\n</answer>", f"<answer>\n{FOUR}\n"]
)
def test_a_text_without_an_answer_does_not_end(text: str) -> None:
    assert answer_end(text) is None


def test_of_several_answers_the_last_with_a_block_counts() -> None:
    texts = ["```a\n1\n```", "```b\n2\n```", "nothing"]
    blocks = last_answer("".join(f"<answer>{text}</answer>" for text in texts))
    assert blocks is not None
    assert [block.name for block in blocks] == ["b"]
    assert last_answer("nothing") is None
    assert last_answer("<answer>") == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "<answer>",
        "</answer>",
        "<answer></answer>\n",
        "<answer>```a\n",
        "<answer>\n```a\n```\n",
        "```a\n```\n",
        "</think>",
    ],
)
def test_reading_answers_takes_time_in_proportion_to_the_text(unit: str) -> None:
    text = "<answer>\n" + unit * (LENGTH // len(unit))
    assert cpu_seconds(lambda: (last_answer(text), answer_end(text))) < LIMIT_S
