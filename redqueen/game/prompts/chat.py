"""Chat prompts for instruct models: reasoning in <think>, the result as fenced blocks in <answer>."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.config import GameConfig
from redqueen.records import Draft, Kind, Prompt, Task

# A model reads the texts below: a changed word makes runs incomparable with earlier ones.
_STOP = ("</answer>",)
_FORMAT = "Think first, between <think> and </think>. Then give the result between <answer> and </answer>, as {what}."
_RULES = (
    "The program defines a function `f`; it is deterministic, ends quickly, prints nothing, reads no files and uses "
    "at most pure modules such as math, re, itertools or collections. Inputs and outputs are Python literals."
)
_GOALS: dict[Kind, str] = {
    "code_o": "Invent a Python program and an input such that its output takes real reasoning to predict.",
    "code_i": "Invent a Python program and an input such that, from program and output alone, an input that gives "
    "this output takes real reasoning to find.",
    "code_f": "Below is a Python program. Write {count} different inputs for it and a message, so that somebody who "
    "sees the message and half of the input/output pairs can, with real reasoning, write the function. The message "
    "must not contain code.",
}
_WRITE = "Write a Python function `f` that fits this message and these input/output pairs; it will be judged on others."
_FIND = "Find an input for which `f` returns this output; any that does is right."
_FENCE = "```"


class ChatPrompts:
    """Describes the format of an answer in words; the model's chat template is applied by the sampler."""

    def __init__(self, game: GameConfig) -> None:
        self.game = game

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        goal = _GOALS[kind].format(count=self.game.max_inputs)
        shown = "\n\n".join(f"Example {i}:\n{_worked(task)}" for i, task in enumerate(references, 1))
        if start is None:
            what = "a ```python block with the program and an ```input block with the arguments, comma-separated"
        else:
            goal = f"{goal}\n\n{_fence('python', start.program)}"
            what = f"{self.game.max_inputs} ```input blocks with arguments, comma-separated, and a ```message block"
        intro = "Do not repeat these examples; be more original and harder:\n" if references else ""
        return Prompt(
            "\n\n".join(filter(None, [goal, _RULES, intro + shown, _FORMAT.format(what=what)])),
            _STOP,
            chat=True,
        )

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        blocks = _answer_blocks(text)
        if blocks is None:
            return "no <answer> with fenced blocks"
        # An input that is given twice counts once, in the place where it came first.
        inputs = tuple(dict.fromkeys(body.strip() for name, body in blocks if name == "input"))
        if start is None:
            programs = [body for name, body in blocks if name == "python"]
            if len(programs) != 1 or len(inputs) != 1:
                return "one ```python block and one ```input block are needed"
            return Draft(programs[0], inputs)
        messages = [body.strip() for name, body in blocks if name == "message"]
        if len(messages) != 1 or not messages[0] or len(inputs) < self.game.min_inputs:
            return f"one ```message block and {self.game.min_inputs} different ```input blocks are needed"
        return Draft(start.program, inputs[: self.game.max_inputs], messages[0])

    def write_proposal(self, task: Task) -> str:
        inputs = "\n".join(_fence("input", pair.input) for pair in task.pairs)
        if task.kind == "code_f":
            return f"<answer>\n{_fence('message', task.message)}\n{inputs}\n"
        return f"<answer>\n{_fence('python', task.program)}\n{inputs}\n"

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        # An instruct model reads a description of the format, so it needs no worked tasks.
        del examples
        program, pair = _fence("python", task.program), task.pairs[0]
        if task.kind == "code_f":
            shown = [_pair(pair.input, pair.output) for pair in task.shown]
            ask = "\n\n".join([_WRITE, _fence("message", task.message), *shown])
            what = "one ```python block that defines `f`"
        elif task.kind == "code_o":
            ask = f"What does `f` return for this input?\n\n{program}\n\n{_fence('input', pair.input)}"
            what = "one ```output block with a Python literal"
        else:
            ask = f"{_FIND}\n\n{program}\n\n{_fence('output', pair.output)}"
            what = "one ```input block with the arguments as Python literals, comma-separated"
        return Prompt(f"{ask}\n\n{_FORMAT.format(what=what)}", _STOP, chat=True)

    def write_attempt(self, task: Task) -> str:
        if task.kind == "code_f":
            return f"<answer>\n{_fence('python', task.program)}\n"
        pair = task.pairs[0]
        answer = _fence("output", pair.output) if task.kind == "code_o" else _fence("input", pair.input)
        return f"<answer>\n{answer}\n"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        wanted = {"code_o": "output", "code_i": "input", "code_f": "python"}[kind]
        answers = [body for name, body in _answer_blocks(text) or () if name == wanted]
        return answers[0] if len(answers) == 1 else None


def _answer_blocks(text: str) -> list[tuple[str, str]] | None:
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
    blocks: list[tuple[str, str]] = []
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


def _fence(name: str, body: str) -> str:
    return f"```{name}\n{body}\n```"


def _pair(given: str, result: str) -> str:
    return f"{_fence('input', given)}\n{_fence('output', result)}"


def _worked(task: Task) -> str:
    inputs = "\n".join(_fence("input", pair.input) for pair in task.pairs)
    program = f"{_fence('python', task.program)}\n{inputs}"
    return f"{program}\n{_fence('message', task.message)}" if task.kind == "code_f" else program
