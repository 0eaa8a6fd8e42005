"""Chat prompts for instruct models: reasoning in <think>, the result as fenced blocks in <answer>."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.config import GameConfig
from redqueen.kinds import Block, fence, find
from redqueen.records import Draft, Kind, Prompt, Task

# A model reads the texts below and those of the kinds: a changed word makes runs incomparable with earlier ones.
_STOP = ("</answer>",)
_FORMAT = "Think first, between <think> and </think>. Then give the result between <answer> and </answer>, as {what}."
_FENCE = "```"


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
        return Prompt("\n\n".join(filter(None, [goal, words.rules, intro + shown, form])), _STOP, chat=True)

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        blocks = _answer_blocks(text)
        if blocks is None:
            return "no <answer> with fenced blocks"
        return find(kind).read_proposal_blocks(blocks, start, self.counts)

    def write_proposal(self, task: Task) -> str:
        return f"<answer>\n{_fenced(find(task.kind).write_proposal_blocks(task))}\n"

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        # An instruct model reads a description of the format, so it needs no worked tasks.
        del examples
        kind = find(task.kind)
        form = _FORMAT.format(what=kind.answer_form())
        return Prompt(f"{kind.chat_question(task)}\n\n{form}", _STOP, chat=True)

    def write_attempt(self, task: Task) -> str:
        return f"<answer>\n{_fenced([find(task.kind).write_answer_block(task)])}\n"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        wanted = find(kind).answer_block
        answers = [body for name, body in _answer_blocks(text) or () if name == wanted]
        return answers[0] if len(answers) == 1 else None

    def work(self, kind: Kind, text: str) -> str:
        del kind
        # Without the tag all of it is work, of which nothing came.
        thought, _, _ = text.rpartition("<answer>")
        return (thought or text).strip()


def _fenced(blocks: Sequence[Block]) -> str:
    return "\n".join(fence(name, body) for name, body in blocks)


def _answer_blocks(text: str) -> list[Block] | None:
    """Returns the names and bodies of the fenced blocks after the last <answer>, or None without that tag.

    The closing tag may be missing, because it is the stop string. A block that is not closed before the next one opens
    is dropped.
    """
    # The text is read line by line. A regular expression took quadratic time on a run of spaces or letters: seconds for
    # 20,000 characters, and a model that repeats itself writes that many.
    # The last tag counts: the reasoning before it may mention <answer> itself.
    _, tag, answer = text.rpartition("<answer>")
    if not tag:
        return None
    blocks: list[Block] = []
    name = ""
    body: list[str] | None = None
    for line in answer.partition("</answer>")[0].splitlines():
        mark = line.strip()
        if body is not None and mark == _FENCE:
            blocks.append((name, "\n".join(body)))
            body = None
        elif mark.startswith(_FENCE):
            name, body = mark.removeprefix(_FENCE).strip(), []
        elif body is not None:
            body.append(line)
    return blocks
