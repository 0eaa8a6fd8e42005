"""The answer in a chat text: fenced blocks between <answer> and </answer>, perhaps after a <think> part.

Reasoning models repeat the words of their instruction ("between <answer> and </answer>"), write drafts, and withdraw
them. So a tag in the words is not the answer, a tag within a block belongs to the block, and of several answers the
last one that holds a block counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from redqueen.tasks.programs.fenced import Blocks, Fenced

OPEN = "<answer>"
CLOSE = "</answer>"
_TAG = re.compile("</?answer>")
_THOUGHT = "<think>"
_THOUGHT_END = "</think>"


@dataclass(frozen=True, slots=True)
class TaggedAnswer:
    """What stands between <answer> and the end of an answer."""

    blocks: tuple[Fenced, ...]
    """Its blocks that have a closing fence."""
    end: int
    """Where its closing tag begins, or, without one, where the next answer or the end of the text is."""
    closed: bool
    """Whether it has a closing tag."""


def last_answer(text: str) -> tuple[Fenced, ...] | None:
    """Returns the blocks of the last answer that has one, () if none has, None if there is no <answer>.

    The closing tag may be missing: it ends the sampling of a text.
    """
    opened = text.rfind(OPEN)
    if opened < 0:
        return None
    blocks: tuple[Fenced, ...] = ()
    # Drafts in the reasoning are no answers if something that follows it is meant as one.
    for answer in _answers(text, _after_thought(text, opened)):
        blocks = answer.blocks or blocks
    return blocks


def answer_end(text: str) -> int | None:
    """Returns where the </answer> begins with which a text that is being written has answered; None if it has not yet.

    What counts is the first one behind a block that is closed, and not while the text thinks.
    """
    if text.lstrip().startswith(_THOUGHT) and _THOUGHT_END not in text:
        return None
    for answer in _answers(text, _after_thought(text, text.rfind(OPEN))):
        if answer.closed and answer.blocks:
            return answer.end
    return None


def _after_thought(text: str, opened: int) -> int:
    """Returns where the reasoning ends that stands before `opened`; 0 if there is none."""
    end = text.rfind(_THOUGHT_END, 0, max(0, opened))
    return 0 if end < 0 else end + len(_THOUGHT_END)


def _answers(text: str, at: int) -> Iterator[TaggedAnswer]:
    """Yields the answers from `at` on. Each begins where the one before ends, so that no text is read twice."""
    blocks = Blocks(text)
    at = text.find(OPEN, at)
    while at >= 0:
        answer = _read(text, blocks, at + len(OPEN))
        yield answer
        at = text.find(OPEN, answer.end)


def _read(text: str, blocks: Blocks, at: int) -> TaggedAnswer:
    """Returns the answer whose opening tag ends at `at`."""
    closed: list[Fenced] = []
    tag = _TAG.search(text, at)
    while (block := blocks.after(at, tag.start() if tag else None)) is not None:
        at = block.end
        if block.closed:
            closed.append(block)
        # Tags within a block belong to it. But one that is not closed before the next one opens is none.
        if tag and tag.start() < block.end:
            if not block.closed:
                break
            tag = _TAG.search(text, at)
    end = tag.start() if tag else len(text)
    return TaggedAnswer(tuple(closed), end, closed=tag is not None and tag.group() == CLOSE)
