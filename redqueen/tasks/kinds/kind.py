"""A kind of task: how one is proposed, read, validated, posed, answered, judged and shown.

`TaskKind` itself stands for a program that is no task yet, such as a seed with all its inputs; `of_program` of another
kind makes a task of it. A kind is a mode (deduction, abduction, induction) of a language.

A kind of your own must say how a question is written and answered (`question`, `write_answer`; for chat also `goal`,
`chat_question`, `answer_form`, `answer_block`) and how an answer is judged (`trial`). The rest may be overridden.
`deduction.py` is the shortest kind, which runs nothing to judge; `abduction.py` runs the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from redqueen.errors import UserError
from redqueen.jail import Job, Outcome
from redqueen.records import Answer, Draft, Pair, Prompt, Proposal, Status, Task, Verdict
from redqueen.tasks.kinds.language import Language
from redqueen.tasks.kinds.work import WorkedText, Workings

Block = tuple[str, str]
"""The name and the body of a fenced block in a chat text."""

LINE = ("\n",)
"""What ends an answer of one line."""
BLOCK = ("\n\n",)
"""What ends an answer of several lines."""
EXAMPLES = 5
"""Inputs of a worked proposal with several. More would lengthen the prompt and show the model nothing new."""


class QuestionError(UserError):
    """A text that asks nothing; the message says how to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCounts:
    """How many inputs a proposal has whose kind shows examples, e.g. `InputCounts(least=4, most=10)`."""

    least: int
    """With fewer different inputs it is no task."""
    most: int
    """More are not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A task as a person wrote it, of which nothing has been run or checked yet."""

    kind: str
    program: str
    """The program; "" if it is asked for."""
    pairs: tuple[Pair, ...]
    """The examples, or one pair; what is asked for is "" in it."""
    message: str = ""
    unanswered: bool = False
    """Whether the program has to be run, since its output is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What has to run before an answer is judged."""

    jobs: tuple[Job | Outcome, ...]
    """They do not depend on each other. The order in which they run is drawn."""
    verdict: Callable[[Sequence[Outcome]], Verdict]
    """What their outcomes, in the order of `jobs`, say about the answer."""


class TaskKind:
    """A program with its inputs and outputs, and what every kind does with one unless it says otherwise."""

    title = "a program with its inputs and outputs"
    """What is asked for, for people: it completes "code_o: ..."."""
    puzzle = "a program"
    """What is asked for, in the heading of a completion prompt. A model reads it."""
    asks = ""
    """Beside a pair on the page: what of it is asked."""
    starts_from_program = False
    """Whether a proposal starts from a program of the task bank, so that the teacher does not write it."""
    shows_examples = False
    """Whether a task has several pairs, of which the student sees the first half and is judged on the rest."""
    few_pairs = False
    """Whether a seed or a person's task may have fewer pairs than `game.min_inputs`."""
    runs_program = False
    """Whether the task's program is run to judge an answer, which is an input then. Equal answers have to get equal
    verdicts: a task is withdrawn where they do not (`redqueen.method.retrial`)."""
    generated = False
    """Whether its tasks come from a generator, so that no teacher proposes them."""
    guessable = True
    """Whether a task may be guessed from what its program does on other inputs (`redqueen.method.behaviour`)."""

    def __init__(self, name: str, language: Language) -> None:
        self.name = name
        """The name in configurations, archives and prompts, e.g. `code_o`."""
        self.language = language

    @property
    def held_out_as(self) -> str:
        """The kind in which students are tested on held-out programs; a variant of another kind names that one."""
        return self.name

    def idea(self, program: str, message: str) -> str:
        """Returns what the author of a task thought of, as a text to compare: the program's shape."""
        del message
        return self.language.shape(program)

    def of_program(self, whole: Task, rng: random.Random | None = None) -> Task | None:
        """Returns a task of this kind on a program with several pairs: `seed-0` becomes `seed-0-code_o`.

        It has one pair, which `rng` draws; without `rng` it is the first. None if there is no such task.
        """
        pair = rng.choice(whole.pairs) if rng else whole.pairs[0]
        return replace(whole, id=f"{whole.id}-{self.name}", kind=self.name, pairs=(pair,))

    def posed(self, task: Task) -> str:
        """Returns the task's program as a student sees it."""
        return self.language.posed(task.program)

    def has_program(self, task: Task) -> bool:
        """Returns whether a task has a program of its own, which gives its outputs: a person's may have none."""
        del task
        return True

    def told(self, task: Task) -> bool:
        """Returns whether what the author wrote holds the answer as text (`redqueen.tasks.kinds.telling`)."""
        del task
        return False

    def shown(self, task: Task) -> tuple[Pair, ...]:
        """Returns the examples that a student sees."""
        return task.shown if self.shows_examples else ()

    # Validation.

    def job(self, draft: Draft) -> Job | Outcome:
        """Returns what decides whether a draft is a task: its program runs on its inputs, more than once."""
        return self.language.job(draft.program, draft.inputs, validate=True)

    def task(
        self, proposal: Proposal, outcome: Outcome, counts: InputCounts, max_input_bytes: int
    ) -> tuple[Verdict, Task | None]:
        """Returns what the outcome of `job` says about a proposal, and the task that it makes."""
        verdict = validation(outcome)
        if verdict.status != "valid":
            return verdict, None
        # Inputs are written again, so that every later reader sees one spelling of a value. A spelling may be longer
        # than the text that was proposed, and too long to be read again.
        inputs = [self.language.spell_input(text) for text in proposal.draft.inputs]
        for index, text in enumerate(inputs):
            if len(text.encode("utf-8", "surrogatepass")) > max_input_bytes:
                detail = f"input {index} is more than {max_input_bytes} bytes when it is written out"
                return replace(verdict, status="oversize", detail=detail), None
        pairs = tuple(Pair(text, output) for text, output in zip(inputs, outcome.outputs, strict=True))
        return self.made(proposal, pairs, verdict, counts)

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        """Returns the task of a proposal whose program gave these outputs, or a verdict that says what it lacks."""
        del counts
        task = Task(
            id=proposal.id,
            kind=proposal.kind,
            author=proposal.author,
            step=proposal.step,
            program=proposal.draft.program,
            pairs=pairs,
            message=proposal.draft.message,
        )
        return verdict, task

    # Judging.

    def answer(self, program: str, pairs: Sequence[Pair], text: str | None) -> Answer:
        """Returns an answer that is judged on `pairs`. Raises CodecError if an output of the pairs is no value."""
        return Answer(
            kind=self.name,
            program=program,
            inputs=tuple(pair.input for pair in pairs),
            expected=tuple(self.language.identity_of(pair.output) for pair in pairs),
            text=text,
        )

    def judged_on(self, task: Task) -> tuple[Pair, ...]:
        """Returns the pairs that an answer to a task is judged on."""
        return task.hidden if self.shows_examples else task.pairs

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        """Returns what has to run before an answer is judged, or the verdict; `text` is what was answered.

        Raises LiteralError or OversizeError if the answer does not have the right form.
        """
        raise NotImplementedError(f"{self.name} has no answers")

    # Completion prompts: worked puzzles and the beginning of the next one.

    @property
    def heading(self) -> str:
        """The line above a puzzle of this kind."""
        return self.language.comment(f"Puzzle: {self.puzzle}")

    def ask_proposal(self, start: Task | None, counts: InputCounts) -> Prompt:
        """Returns the request for a proposal without worked ones: the heading, and the program of `start`."""
        del start, counts
        return Prompt(f"{self.heading}\n", BLOCK, self.language.prefix)

    def read_proposal(self, text: str, start: Task | None, counts: InputCounts) -> Draft | str:
        """Returns the draft in a teacher's text, or one line that says why there is none."""
        del start, counts
        program, inputs = self.language.split_calls(text)
        call = self.language.call("...")
        return Draft(program, inputs) if len(inputs) == 1 else f"a program and one call {call} are needed"

    def write_proposal(self, task: Task, counts: InputCounts) -> str:
        """Returns the text, prefix included, with which a teacher proposes `task`."""
        # At least `counts.least`, or the warm start would teach proposals that the game refuses.
        pairs = task.pairs[: max(EXAMPLES, counts.least)]
        return "\n".join([task.program, *(self.language.call(pair.input) for pair in pairs)])

    def worked_proposal(self, task: Task, counts: InputCounts) -> str:
        """Returns a proposal as it is shown to teachers, below its heading."""
        return self.write_proposal(task, counts)

    def question(self, task: Task) -> Prompt:
        """Returns the question of a task, without worked ones."""
        raise NotImplementedError(f"{self.name} asks nothing")

    def write_answer(self, task: Task) -> str:
        """Returns the text, prefix included, that answers `task` as recorded."""
        raise NotImplementedError(f"{self.name} has no answers")

    def read_answer(self, text: str) -> str | None:
        """Returns the answer in a student's text, None if there is none."""
        return text.strip() or None

    # Work before the answer, below the question of a completion prompt.

    def write_work(self, task: Task, workings: Workings) -> str | None:
        """Returns the text with which a student works `task` out and answers it as recorded; None if there is none."""
        del task, workings

    def read_work(self, text: str) -> WorkedText:
        """Returns the work and the answer in a student's text."""
        return WorkedText(work="", answer=self.read_answer(text))

    # Chat prompts: a description of what is asked, and an answer in fenced blocks.

    @property
    def answer_block(self) -> str:
        """The name of the block that holds an answer."""
        raise NotImplementedError(f"{self.name} has no answers")

    def goal(self, counts: InputCounts) -> str:
        """Returns what a teacher is asked to invent."""
        raise NotImplementedError(f"{self.name} is not proposed")

    def proposal_form(self, counts: InputCounts) -> str:
        """Returns which blocks make a proposal."""
        del counts
        fence_name = self.language.words.fence
        return f"a ```{fence_name} block with the program and an ```input block with the arguments, comma-separated"

    def read_proposal_blocks(self, blocks: Sequence[Block], start: Task | None, counts: InputCounts) -> Draft | str:
        """Returns the draft in the blocks of a teacher's text, or one line that says why there is none."""
        del start, counts
        fence_name = self.language.words.fence
        inputs = input_blocks(blocks)
        programs = [body for name, body in blocks if name == fence_name]
        if len(programs) != 1 or len(inputs) != 1:
            return f"one ```{fence_name} block and one ```input block are needed"
        return Draft(programs[0], inputs)

    def write_proposal_blocks(self, task: Task) -> list[Block]:
        """Returns the blocks with which a teacher proposes `task`."""
        return [(self.language.words.fence, task.program), *(("input", pair.input) for pair in task.pairs)]

    def worked_proposal_blocks(self, task: Task) -> list[Block]:
        """Returns a proposal as it is shown to teachers."""
        return self.write_proposal_blocks(task)

    def chat_question(self, task: Task) -> str:
        """Returns the question of a task."""
        raise NotImplementedError(f"{self.name} asks nothing")

    def answer_form(self) -> str:
        """Returns which block makes an answer."""
        raise NotImplementedError(f"{self.name} has no answers")

    def write_answer_block(self, task: Task) -> Block:
        """Returns the block that answers `task` as recorded."""
        return self.answer_block, self.recorded_answer(task)

    # For people.

    def write_question(self, task: Task) -> str:
        """Returns the text that asks for what `task` asks, with all that is known of it."""
        message = [self.language.comment(line) for line in task.message.splitlines()]
        examples = [self.language.equation(pair.input, pair.output) for pair in task.pairs]
        return "\n".join([task.program, *message, *examples])

    def read_question(self, lines: Sequence[str]) -> Question | None:
        """Reads the question of a person, None if it is another kind's. Raises QuestionError if something is missing.

        The lines have nothing at their ends, and the last one is not empty.
        """
        del lines
        return None

    def written(self, answer: str) -> str:
        """Returns what a student wrote as it is shown to people."""
        return answer.strip()

    def answered(self, answer: str) -> str:
        """Returns an answer that was read, as it is shown to people."""
        return answer.strip("\n")

    def recorded_answer(self, task: Task) -> str:
        """Returns the answer that was recorded, in a line; "" if it is the program."""
        del task
        return ""

    def only_answer(self, task: Task) -> str:
        """Returns the recorded answer if no other one is right, else ""."""
        del task
        return ""

    def miss(self, verdict: Verdict) -> str:
        """Returns why a wrong answer is wrong, from its verdict; "" if there is nothing to say."""
        return verdict.detail


def fence(name: str, body: str) -> str:
    """Returns a fenced block."""
    return f"```{name}\n{body}\n```"


def input_blocks(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Returns the different inputs among the blocks of a text."""
    # An input that is given twice counts once, in the place where it came first.
    return tuple(dict.fromkeys(body.strip() for name, body in blocks if name == "input"))


def program_above(lines: Sequence[str]) -> str:
    """Returns the program above the line with a question. Raises QuestionError if there is none."""
    program = "\n".join(lines[:-1]).rstrip()
    if not program:
        raise QuestionError("the program is missing: write it above the line with the question mark")
    return program


def validation(outcome: Outcome) -> Verdict:
    """Returns what the validation of a program on its inputs says about it."""
    return Verdict(
        status="valid" if outcome.status == "ok" else outcome.status,
        output="; ".join(outcome.outputs),
        detail=outcome.detail,
        cpu_ms=outcome.cpu_ms,
    )


# A student's program that imports what it may not, or returns what no literal can say, has failed like one that raised.
_AS_ERROR: tuple[Status, ...] = ("forbidden", "unsupported")


def attempt_verdict(outcome: Outcome) -> Verdict:
    """Returns what running an answer says about an attempt."""
    status = "correct" if outcome.status == "ok" else outcome.status
    detail = outcome.detail
    if status in _AS_ERROR:
        detail = f"{status}: {detail}"
        status = "error"
    return Verdict(status=status, output="; ".join(outcome.outputs), detail=detail, cpu_ms=outcome.cpu_ms)


# A question in words, which has an answer and no program: the form that kinds of fixed questions share.


class QuestionKind(TaskKind):
    """The student sees a question, which is in the place of the program, and answers it."""

    title = "answer the question"
    puzzle = "answer the question"
    generated = True
    guessable = False

    def write_answer(self, task: Task) -> str:
        return f" {self.recorded_answer(task)}"

    def chat_question(self, task: Task) -> str:
        return task.program

    @property
    def answer_block(self) -> str:
        return "answer"

    def write_question(self, task: Task) -> str:
        return task.program
