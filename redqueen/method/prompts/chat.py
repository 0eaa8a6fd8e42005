"""Chat prompts for instruct models: reasoning in <think>, the result as fenced blocks in <answer>."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redqueen.config import GameConfig
from redqueen.records import Draft, Kind, Prompt, Task
from redqueen.tasks.kinds import Block, WorkedText, fence, find
from redqueen.tasks.programs.fenced import Fenced, chosen, dedented
from redqueen.tasks.programs.tagged import CLOSE, last_answer

# A model reads the texts below and those of the kinds: a changed word makes runs incomparable with earlier ones.
_STOP = (CLOSE,)
_FORMAT = "Think first, between <think> and </think>. Then give the result between <answer> and </answer>, as {what}."
_NEEDED = re.compile(r"```(\w+)")


class ChatPrompts:
    """Describes the format of an answer in words; the model's chat template is applied by the sampler."""

    def __init__(self, game: GameConfig) -> None:
        self.counts = game.input_counts

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        wanted = find(kind)
        words = wanted.language.words
        goal = wanted.goal(self.counts)
        if start is not None:
            goal = f"{goal}\n\n{fence(words.fence, start.program)}"
        examples = [_fenced(wanted.worked_proposal_blocks(task)) for task in references]
        shown = "\n\n".join(f"Example {i}:\n{example}" for i, example in enumerate(examples, 1))
        intro = "Do not repeat these examples; be more original and harder:\n" if references else ""
        form = _FORMAT.format(what=wanted.proposal_form(self.counts))
        return Prompt(
            "\n\n".join(filter(None, [goal, words.rules, intro + shown, form])), _STOP, chat=True, tagged=True
        )

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        blocks = last_answer(text)
        if blocks is None:
            return "no <answer> with fenced blocks"
        wanted = find(kind)
        needed = _NEEDED.findall(wanted.proposal_form(self.counts))
        return wanted.read_proposal_blocks(_named(_bodies(blocks), needed), start, self.counts)

    def write_proposal(self, task: Task) -> str:
        return f"<answer>\n{_fenced(find(task.kind).write_proposal_blocks(task))}\n"

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        # An instruct model reads a description of the format, so it needs no worked tasks.
        del examples
        kind = find(task.kind)
        form = _FORMAT.format(what=kind.answer_form())
        return _asked(f"{kind.chat_question(task)}\n\n{form}")

    def write_attempt(self, task: Task) -> str:
        return f"<answer>\n{_fenced([find(task.kind).write_answer_block(task)])}\n"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        wanted = find(kind)
        name = wanted.answer_block
        blocks = last_answer(text) or ()
        if name == "python":
            # Blocks beside the program show how it is used.
            own = [block for block in blocks if block.name not in _OTHERS]
            return chosen(own, [name for name in [wanted.language.words.function.strip("`")] if name])
        named = _named(_bodies(blocks), [name])
        answers = list(dict.fromkeys(body for each, body in named if each == name))
        if not answers and len(named) == 1 and named[0][0] not in _OTHERS:
            # The only block of an answer is the answer, whatever it is called.
            return named[0][1]
        return answers[0] if len(answers) == 1 else None

    def work(self, kind: Kind, text: str) -> str:
        del kind
        return parted(text).work


def parted(text: str) -> WorkedText:
    """Returns the work in an attempt, and its answer as it was written. Without a tag all of it is work."""
    thought, tag, answer = text.rpartition("<answer>")
    return WorkedText(work=(thought if tag else text).strip(), answer=answer.strip() if tag else None)


_OTHERS = ("input", "output", "message")
"""Names of blocks in the game. One in place of another is a slip of the model that a reader cannot mend."""


def _asked(text: str) -> Prompt:
    return Prompt(text, _STOP, chat=True, tagged=True)


def _fenced(blocks: Sequence[Block]) -> str:
    return "\n".join(fence(name, body) for name, body in blocks)


def _bodies(blocks: Sequence[Fenced]) -> list[Block]:
    return [(block.name, dedented(block.body) if block.name == "python" else block.body) for block in blocks]


def _named(blocks: Sequence[Block], needed: Sequence[str]) -> list[Block]:
    """Returns blocks, of which the only one without a name has the only needed name that no other one has."""
    present = {name for name, _ in blocks}
    missing = [name for name in dict.fromkeys(needed) if name not in present]
    nameless = [body for name, body in blocks if not name]
    if len(missing) != 1 or len(nameless) != 1:
        return list(blocks)
    return [(name or missing[0], body) for name, body in blocks]
