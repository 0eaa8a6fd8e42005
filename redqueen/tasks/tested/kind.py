"""`code_t`: the student sees a prompt and some tests, and writes the program that passes all of them.

A person's task may have tests alone. A teacher writes the prompt, a program and what the tests ask; the jail runs the
program, and what it gives is what the tests expect.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from dataclasses import replace

from redqueen.jail import PROGRAMS, LiteralError, Outcome, to_literal
from redqueen.jail.judging import decided
from redqueen.jail.literals import parse_literal
from redqueen.records import Draft, Pair, Prompt, Proposal, Task, Verdict
from redqueen.tasks.kinds.induction import NO_MESSAGE, Induction
from redqueen.tasks.kinds.kind import (
    BLOCK,
    EXAMPLES,
    Answer,
    Block,
    InputCounts,
    Question,
    TaskKind,
    Trial,
    attempt_verdict,
    fence,
    input_blocks,
)
from redqueen.tasks.kinds.work import Workings
from redqueen.tasks.programs.fenced import defines
from redqueen.tasks.programs.normal_form import normalise
from redqueen.tasks.tested.tests import cases, defined, expression, is_plain, shown, spelled, stdin_of

MOST_SHOWN = 3
"""Tests that a student sees, at most half of them; it is judged on all."""
CALLS_NEEDED = 3
"""No teacher has to write more calls than this: it writes as many as it is shown, and MBPP's rows have three."""
_PLAIN = 1 << 24


class PassTests(Induction):
    """The answer is a program, which is judged by tests as `redqueen.jail.judge` does it."""

    title = "write the program that passes these tests"
    puzzle = "write the program"
    starts_from_program = False
    few_pairs = True
    guessable = False

    def has_program(self, task: Task) -> bool:
        return bool(task.program)

    def idea(self, program: str, message: str) -> str:
        return TaskKind.idea(self, program, message) if program else super().idea(program, message)

    def shown(self, task: Task) -> tuple[Pair, ...]:
        return task.pairs[: min(MOST_SHOWN, (len(task.pairs) + 1) // 2)]

    def judged_on(self, task: Task) -> tuple[Pair, ...]:
        return task.pairs

    def of_program(self, whole: Task, rng: random.Random | None = None) -> Task | None:
        made = super().of_program(whole, rng)
        # A single test is shown, and a program may write its answer out.
        return made if made and len(made.pairs) > 1 else None

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        # A teacher's text has been read by the game's counts. A person's task may have fewer tests.
        return super().made(proposal, pairs, verdict, replace(counts, least=2))

    # Judging.

    def answer(self, program: str, pairs: Sequence[Pair], text: str | None) -> Answer:
        cases(pairs, PROGRAMS.limits.output_bytes)
        return Answer(
            kind=self.name,
            program=program,
            inputs=tuple(pair.input for pair in pairs),
            # Any equal value is right, also one of another type, so there are no bytes to compare.
            expected=tuple(pair.output.encode("utf-8", "surrogatepass") for pair in pairs),
            text=text,
        )

    def trial(self, answer: Answer, text: str) -> Trial:
        outputs = [data.decode("utf-8", "surrogatepass") for data in answer.expected]
        pairs = [Pair(given, output) for given, output in zip(answer.inputs, outputs, strict=True)]
        tests = cases(pairs, PROGRAMS.limits.output_bytes)
        job = self.language.job(text, answer.inputs)

        def verdict(outcomes: Sequence[Outcome]) -> Verdict:
            return attempt_verdict(decided(tests, outcomes[0]))

        return Trial(jobs=(job,), verdict=verdict)

    # Completion prompts.

    def ask_proposal(self, start: Task | None, counts: InputCounts) -> Prompt:
        return Prompt(f"{self.heading}\n", BLOCK, self.language.comment("").strip())

    def read_proposal(self, text: str, start: Task | None, counts: InputCounts) -> Draft | str:
        lines = text.strip("\n").split("\n")
        first = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
        program, inputs = self.language.split_calls("\n".join(lines[first:]))
        message = _uncommented(lines[:first])
        return self._draft(program, inputs, message, counts, "lines `# message`, a program, and below it calls")

    def _draft(self, program: str, inputs: Sequence[str], message: str, counts: InputCounts, form: str) -> Draft | str:
        different = tuple(dict.fromkeys(inputs))[: counts.most]
        least = min(counts.least, CALLS_NEEDED)
        if not message or not program or len(different) < least:
            return f"{form}, {least} different ones, are needed"
        try:
            # What asks nothing of the program would be passed by any.
            if not all(map(is_plain, different)):
                return "an input is a call of the program with literals, or stdin('...')"
            missing = [name for name in defined(different) if not defines(program, name)]
        except LiteralError as error:
            return str(error)
        return f"the program does not define {missing[0]}" if missing else Draft(program, different, message)

    def write_proposal(self, task: Task, counts: InputCounts) -> str:
        pairs = task.pairs[: max(EXAMPLES, counts.least)]
        return "\n".join([*self._message(task), _compact(task.program), *(pair.input for pair in pairs)])

    def worked_proposal(self, task: Task, counts: InputCounts) -> str:
        return self.write_proposal(task, counts)

    def _message(self, task: Task) -> list[str]:
        """Returns the lines of the message as comments."""
        return [self.language.comment(line).rstrip() for line in (task.message or NO_MESSAGE).split("\n")]

    def question(self, task: Task) -> Prompt:
        lines = [self.heading, *self._message(task), *(self.language.comment(_line(pair)) for pair in self.shown(task))]
        return Prompt("".join(f"{line}\n" for line in lines), BLOCK, _opening(task))

    def write_answer(self, task: Task) -> str:
        return _compact(task.program)

    def write_work(self, task: Task, workings: Workings) -> str | None:
        given = self.shown(task)[0].input
        lines = workings.trace(task, given)
        if lines is None:
            return None
        return "\n".join([_compact(task.program), *map(self.language.comment, [shown(given), *lines])])

    # Chat prompts.

    def goal(self, counts: InputCounts) -> str:
        return (
            f"Invent a programming task: a message that says what to write, a {self.language.words.name} program that "
            f"does it, and {counts.most} different calls of it whose results test whether another program does it too."
            " The message must say all that is needed, take real reasoning, and hold no code."
        )

    def proposal_form(self, counts: InputCounts) -> str:
        return (
            f"a ```message block, a ```python block with the program, and {counts.most} ```input blocks, each with a "
            "call such as f([1, 2], 'a') (or stdin('1 2') for a program that reads standard input and prints)"
        )

    def read_proposal_blocks(self, blocks: Sequence[Block], start: Task | None, counts: InputCounts) -> Draft | str:
        programs = [body for name, body in blocks if name == "python"]
        messages = [body.strip() for name, body in blocks if name == "message"]
        form = "one ```message block, one ```python block and ```input blocks with calls"
        if len(programs) != 1 or len(messages) != 1:
            return f"{form} are needed"
        return self._draft(programs[0].strip("\n"), input_blocks(blocks), messages[0], counts, form)

    def write_proposal_blocks(self, task: Task) -> list[Block]:
        inputs = [("input", pair.input) for pair in task.pairs]
        return [("message", task.message or NO_MESSAGE), ("python", task.program), *inputs]

    def worked_proposal_blocks(self, task: Task) -> list[Block]:
        return self.write_proposal_blocks(task)

    def chat_question(self, task: Task) -> str:
        asked = "Write a Python program that does what this message says and passes all tests, of which these are some."
        lines: list[str] = []
        for pair in self.shown(task):
            text = stdin_of(pair.input)
            printed = None if text is None else str(parse_literal(pair.output, _PLAIN))
            if text is None or printed is None:
                lines.append(_line(pair))
            else:
                lines += [fence("input", text.rstrip("\n")), fence("output", printed.rstrip("\n"))]
        if all(line.startswith("assert ") for line in lines):
            lines = [fence("python", "\n".join(lines))]
        return "\n\n".join([asked, fence("message", task.message or NO_MESSAGE), *lines])

    def answer_form(self) -> str:
        return "one ```python block with the whole program"

    # For people.

    def write_question(self, task: Task) -> str:
        return "\n".join([*self._message(task), *map(_line, task.pairs)])

    def read_question(self, lines: Sequence[str]) -> Question | None:
        tests = [line for line in lines if line and not line.startswith("#")]
        if not tests or not all(line.startswith(("assert ", "stdin(")) for line in tests):
            return None
        pairs = [self.language.read_equation(line) for line in tests]
        if not all(pairs):
            return None
        message = _uncommented([line for line in lines if line.startswith("#")])
        found = tuple(Pair(spelled(pair.input), pair.output) for pair in pairs if pair)
        return Question(kind=self.name, program="", pairs=found, message=message or NO_MESSAGE)


def _line(pair: Pair) -> str:
    """Returns a test as a line: `assert add(2, 2) == 4`, or `stdin('1 2') == '3'`."""
    text = stdin_of(pair.input)
    if text is None:
        return f"assert {shown(pair.input)} == {pair.output}"
    return f"stdin({to_literal(text)}) == {pair.output}"


def _uncommented(lines: Sequence[str]) -> str:
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip("\n")


def _compact(program: str) -> str:
    """Returns a program without blank lines, at which completions end."""
    try:
        # A blank line may be part of a text. Written anew, each text has one line.
        text = normalise(program) if '"""' in program or "'''" in program else program
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = program
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


def _opening(task: Task) -> str:
    """Returns the beginning of an answer, if it is clear: the definition of what the tests use."""
    inputs = [pair.input for pair in task.pairs]
    names = defined(inputs)
    if len(names) != 1:
        return ""
    # What may be either contradicts nothing.
    openings = {_definition(names[0], given) for given in inputs} - {""}
    opening = openings.pop() if len(openings) == 1 else ""
    return opening if not task.program or _compact(task.program).startswith(opening) else ""


def _definition(name: str, given: str) -> str:
    """Returns how the definition of a name begins as far as its use tells; "" if it may be a function or a class."""
    asked = expression(given)
    nodes = list(ast.walk(asked))
    functions = [(node, node.func) for node in nodes if isinstance(node, ast.Call)]
    calls = [call for call, function in functions if isinstance(function, ast.Name) and function.id == name]
    is_object = any(isinstance(node, ast.Attribute) and node.value in calls for node in nodes)
    # In `len(NAME(1))` only a capital tells a class, and in `NAME(1).upper()` a small letter tells nothing: texts have
    # methods too.
    is_capital = name[0].isupper()
    if is_object and is_capital:
        return f"class {name}"
    return f"def {name}(" if asked in calls or (calls and not is_object and not is_capital) else ""
