"""How tasks become prompts and how answers are read.

There are three implementations: raw completion for base and small models, the same with work before the answer, and
chat for instruct models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.records import Draft, Kind, Prompt, Task
from redqueen.tasks.kinds import Block, WorkedText, Workings, fence, find, find_or_plain
from redqueen.tasks.kinds.kind import BLOCK
from redqueen.tasks.programs.fenced import Fenced, chosen, dedented
from redqueen.tasks.programs.tagged import CLOSE, last_answer

# Chat prompts for instruct models: reasoning in <think>, the result as fenced blocks in <answer>.

# A model reads the texts below and those of the kinds: a changed word makes runs incomparable with earlier ones.
_STOP = (CLOSE,)
_FORMAT = "Think first, between <think> and </think>. Then give the result between <answer> and </answer>, as {what}."
_NEEDED = re.compile(r"```(\w+)")
_PROGRAM = re.compile(r"^[ \t]*(?:async +)?(?:def|class) +\w+ *[(:\[]|\binput *\(|\bstdin\b|\bopen\(0\b", re.MULTILINE)
"""What a program that tests can judge has, and an example of its use has not: it defines something, or reads input."""


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
        return Prompt(f"{kind.chat_question(task)}\n\n{form}", _STOP, chat=True, tagged=True)

    def write_attempt(self, task: Task) -> str:
        return f"<answer>\n{_fenced([find(task.kind).write_answer_block(task)])}\n"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        wanted = find(kind)
        name = wanted.answer_block
        blocks = last_answer(text) or ()
        if name == "python":
            # Blocks beside the program show how it is used.
            own = [block for block in blocks if block.name not in _OTHERS]
            names = [name for name in [wanted.language.words.function.strip("`")] if name]
            if not names:
                own = [block for block in own if _PROGRAM.search(block.body)] or own
            return chosen(own, names)
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


def _fenced(blocks: Sequence[Block]) -> str:
    return "\n".join(fence(name, body) for name, body in blocks)


def _bodies(blocks: Sequence[Fenced]) -> list[Block]:
    return [(block.name, dedented(block.body) if block.name == "python" else block.body) for block in blocks]


def _named(blocks: Sequence[Block], needed: Sequence[str]) -> list[Block]:
    """Returns blocks. If exactly one has no name and exactly one needed name is missing, it gets that name."""
    present = {name for name, _ in blocks}
    missing = [name for name in dict.fromkeys(needed) if name not in present]
    nameless = [body for name, body in blocks if not name]
    if len(missing) != 1 or len(nameless) != 1:
        return list(blocks)
    return [(name or missing[0], body) for name, body in blocks]


# Raw completion prompts: worked puzzles and the beginning of the next one, which ends at a blank line.


class CompletionPrompts:
    """Shows worked puzzles and leaves the next one to be completed. The kinds have the words."""

    def __init__(self, game: GameConfig) -> None:
        self.counts = game.input_counts

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        wanted = find(kind)
        worked = "".join(f"{wanted.heading}\n{wanted.worked_proposal(task, self.counts)}\n\n" for task in references)
        prompt = wanted.ask_proposal(start, self.counts)
        return replace(prompt, text=worked + prompt.text)

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        return find(kind).read_proposal(text, start, self.counts)

    def write_proposal(self, task: Task) -> str:
        return find(task.kind).write_proposal(task, self.counts)

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        kind = find(task.kind)
        worked = "".join(f"{kind.question(example).text}{kind.write_answer(example)}\n\n" for example in examples)
        question = kind.question(task)
        return replace(question, text=worked + question.text)

    def write_attempt(self, task: Task) -> str:
        return find(task.kind).write_answer(task)

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        return find(kind).read_answer(text)


class WorkPrompts(CompletionPrompts):
    """Asks as completion prompts do. Only the answer is judged, so work pays where it leads to more right ones.

    A text that the token limit ends is malformed, so work that is longer than it needs to be costs what it should.
    """

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        # Worked examples would need the work of other tasks. The warm start teaches the form.
        del examples
        return replace(find(task.kind).question(task), stop=BLOCK)

    def write_work(self, task: Task, workings: Workings) -> str | None:
        return find(task.kind).write_work(task, workings)

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        return find(kind).read_work(text).answer

    def work(self, kind: Kind, text: str) -> str:
        return find(kind).read_work(text).work


__all__ = [
    "ChatPrompts",
    "CompletionPrompts",
    "Prompts",
    "WithLessons",
    "WithWork",
    "WorkPrompts",
    "prompts",
    "taken_apart",
    "work_of",
]


class Prompts(Protocol):
    """Asks for tasks, poses tasks and reads the answers. Reading evaluates nothing."""

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        """Returns the request for a proposal. It starts from the program of `start` if the kind says so."""
        ...

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        """Returns the draft in a teacher's text, or one line that says why there is none."""
        ...

    def write_proposal(self, task: Task) -> str:
        """Returns the text, prefix included, with which a teacher proposes `task`. It is the warm start's target."""
        ...

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        """Returns the question of a task; `examples` are worked tasks of the same kind."""
        ...

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        """Returns the answer in a student's text (a literal, an argument list or a program), None if there is none."""
        ...

    def write_attempt(self, task: Task) -> str:
        """Returns the text, prefix included, that answers `task` as recorded."""
        ...


@runtime_checkable
class WithWork(Protocol):
    """A format in which a student writes work before its answer."""

    def work(self, kind: Kind, text: str) -> str:
        """Returns what a student wrote on the way to its answer; "" if it wrote none. It is never judged."""
        ...


@runtime_checkable
class WithLessons(WithWork, Protocol):
    """A format whose work the warm start teaches."""

    def write_work(self, task: Task, workings: Workings) -> str | None:
        """Returns the text, prefix included, that works `task` out and answers it; None if there is none."""
        ...


def prompts(name: str, game: GameConfig) -> Prompts:
    """Returns the implementation called `name`: "completion", "work", "chat", or a plugin's."""
    if name == "completion":
        return CompletionPrompts(game)
    if name == "work":
        return WorkPrompts(game)
    if name == "chat":
        return ChatPrompts(game)
    return plugins.find("prompt format", name)(game)


def work_of(prompts: Prompts, kind: Kind, text: str) -> str:
    """Returns the work in a student's text; "" if there is none, or the format has none."""
    return prompts.work(kind, text) if isinstance(prompts, WithWork) else ""


def taken_apart(name: str, kind: Kind, text: str) -> WorkedText:
    """Returns an attempt's work, and its answer as people are shown it, in a run whose prompts are called `name`.

    All of an attempt in a format without work is its answer, and so it is in a format of a plugin that is not loaded.
    """
    asked = find_or_plain(kind)
    if name == "work":
        written = asked.read_work(text)
        return replace(written, answer=written.answer and asked.answered(written.answer))
    if name == "chat":
        return parted(text)
    return WorkedText(work="", answer=asked.written(text))
