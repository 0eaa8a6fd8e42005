"""Raw completion prompts: worked puzzles and the beginning of the next one, which ends at a blank line."""

from __future__ import annotations

from collections.abc import Sequence

from redqueen.config import GameConfig
from redqueen.programs.normal_form import split_calls
from redqueen.records import Draft, Kind, Prompt, Task

# A model reads these texts: a changed word makes runs incomparable with earlier ones.
TITLES: dict[Kind, str] = {
    "code_o": "# Puzzle: predict the output",
    "code_i": "# Puzzle: find the input",
    "code_f": "# Puzzle: write the function",
}
_LINE = ("\n",)
_BLOCK = ("\n\n",)
# Inputs of a worked code_f puzzle. More would lengthen the prompt and show the model nothing new.
SHOWN_INPUTS = 5


class CompletionPrompts:
    """Shows worked puzzles and leaves the next one to be completed."""

    def __init__(self, game: GameConfig) -> None:
        self.game = game

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        blocks = "".join(f"{TITLES[kind]}\n{self._worked(task)}\n\n" for task in references)
        if start is None:
            return Prompt(f"{blocks}{TITLES[kind]}\n", _BLOCK, "def f(")
        # Only `max_inputs` calls are read, so the text ends after as many lines. Without that, a teacher that repeats
        # one call without end would always run into the token limit.
        lines = 1 + self.game.max_inputs
        return Prompt(f"{blocks}{TITLES[kind]}\n{start.program}\n", _BLOCK, "#", max_lines=lines)

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        if start is None:
            program, inputs = split_calls(text)
            return Draft(program, inputs) if len(inputs) == 1 else "a program and one call f(...) are needed"
        first, _, rest = text.partition("\n")
        message = first.removeprefix("#").strip()
        program, inputs = split_calls(rest)
        # An input that is given twice counts once, in the place where it came first.
        inputs = tuple(dict.fromkeys(inputs))[: self.game.max_inputs]
        if not message or program or len(inputs) < self.game.min_inputs:
            return f"a message and {self.game.min_inputs} different calls f(...) are needed"
        return Draft(start.program, inputs, message)

    def write_proposal(self, task: Task) -> str:
        # At least min_inputs, or the warm start would teach proposals that the game refuses.
        calls = "\n".join(f"f({pair.input})" for pair in task.pairs[: max(SHOWN_INPUTS, self.game.min_inputs)])
        return f"# {task.message}\n{calls}" if task.kind == "code_f" else f"{task.program}\n{calls}"

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        worked = "".join(f"{_question(t)}{self.write_attempt(t)}\n\n" for t in examples)
        question = worked + _question(task)
        if task.kind == "code_f":
            return Prompt(question, _BLOCK, "def f(")
        return Prompt(question, _LINE)

    def write_attempt(self, task: Task) -> str:
        if task.kind == "code_f":
            return task.program
        return f" {task.pairs[0].output}" if task.kind == "code_o" else f"{task.pairs[0].input})"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        answer = text.strip("\n") if kind == "code_f" else text.strip()
        if kind == "code_i":
            # The prompt opened the call's parenthesis, so the answer must close it.
            answer = answer[:-1] if answer.endswith(")") else ""
            return answer if text.strip().endswith(")") else None
        return answer or None

    def _worked(self, task: Task) -> str:
        written = self.write_proposal(task)
        return f"{task.program}\n{written}" if task.kind == "code_f" else written


def _question(task: Task) -> str:
    if task.kind == "code_f":
        shown = "".join(f"# f({pair.input}) == {pair.output}\n" for pair in task.shown)
        return f"# {task.message}\n{shown}"
    pair = task.pairs[0]
    if task.kind == "code_o":
        return f"{task.program}\nassert f({pair.input}) =="
    return f"{task.program}\nassert {pair.output} == f("
