"""How an answer is taken from a model's text and judged, with the game's own verdicts, in the jail if it is code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from redqueen.base.closing import Closing
from redqueen.base.futures import finished, then
from redqueen.evals import jailed
from redqueen.jail import BENCHMARKS, Job, Limits, Outcome, Sandbox, encode_arguments
from redqueen.jail.probes import cores
from redqueen.method.verifier import answer_to
from redqueen.records import Task, Verdict, Verifier
from redqueen.tasks.programs.fenced import chosen, fenced_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a benchmark.

    >>> Problem(id="test/7", benchmark="gsm8k", prompt="How many ...?", data={"answers": ("42",)}).benchmark
    'gsm8k'
    """

    id: str
    """The benchmark's own name of the problem."""
    benchmark: str
    prompt: str
    """The benchmark's own text of the problem."""
    data: Mapping[str, Any]
    """What the grader needs: inputs, entry point, reference answers. Each grader's module says which keys it reads."""


class Grader(Protocol):
    """Judges answers: code or a mathematical expression, as `Benchmark.read` takes it from a model's text."""

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        """Queues one answer and returns at once, unless the queue is full.

        A fault of the machine is `infra_error`, and counts nowhere. No verdict is `valid` or `nondeterministic`.
        """
        ...

    def close(self) -> None:
        """Finishes what was submitted and ends every process. Does nothing the second time."""
        ...


class ThreadedGrader(Closing):
    """Judges several answers at a time; each thread waits for another process most of the time."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="grader")

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        return self._threads.submit(self.grade, problem, answer)

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns what the benchmark's rules say about one answer."""
        raise NotImplementedError

    def close(self) -> None:
        self._threads.shutdown(wait=True)


def right_or_wrong(right: bool) -> Verdict:
    """Returns the verdict on an answer that was compared."""
    return Verdict("correct" if right else "wrong")


class DataGrader:
    """Judges answers by a function, in this process: for answers that are compared as data. It never runs a program."""

    def __init__(self, right: Callable[[Problem, str], bool]) -> None:
        """`right` returns whether an answer is right."""
        self.right = right

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        return finished(right_or_wrong(self.right(problem, answer)))

    def close(self) -> None:
        """Does nothing."""


# Judges answers to tasks of the game: the reserved programs. A problem's `data` has the `task`.


class GameGrader:
    """Hands answers to the game's verifier. The verifier stays open when the grader is closed."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        task: Task = problem.data["task"]
        return then(self.verifier.judge_answer(answer_to(task, answer)), _of_the_answer)

    def close(self) -> None:
        """Does nothing: the opener of the verifier closes it."""


def _of_the_answer(verdict: Verdict) -> Verdict:
    # A program that does not repeat its own output says nothing about the answer, as a fault of the machine does not.
    if verdict.status == "nondeterministic":
        return replace(verdict, status="infra_error", detail=f"the program is not deterministic: {verdict.detail}")
    return verdict


# Opens the graders that an evaluation needs, and closes them.


class OpenGraders(Closing):
    """The graders of benchmarks; each starts when it is first asked for. A context manager, which closes them."""

    def __init__(self, verifier: Verifier, cache: Path | None = None) -> None:
        """The expected outputs of evalplus' problems are kept in the file `cache`, if one is named."""
        self.verifier = verifier
        self.cache = cache
        self._sandbox: Sandbox | None = None
        self._opened: dict[OpenGrader, Grader] = {}

    @property
    def sandbox(self) -> Sandbox:
        """One sandbox for all graders of programs; it starts when it is first asked for."""
        if self._sandbox is None:
            self._sandbox = Sandbox(BENCHMARKS)
        return self._sandbox

    def get(self, opens: OpenGrader) -> Grader:
        """Returns the grader that `opens` opens. Raises UserError if a library that it needs is not installed."""
        if opens not in self._opened:
            self._opened[opens] = opens(self)
        return self._opened[opens]

    def close(self) -> None:
        for grader in self._opened.values():
            grader.close()
        if self._sandbox is not None:
            self._sandbox.close()


OpenGrader = Callable[[OpenGraders], Grader]
"""Opens a grader with what all graders share: the verifier, a sandbox, a file for what references give."""


def game(shared: OpenGraders) -> Grader:
    """Opens the game's own judge; a problem's `data` has the `task`."""
    return GameGrader(shared.verifier)


# Takes the answer out of a model's text: a program, or what its last box holds.

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_CUT = re.compile(r"\\(?:b|bo|box|boxe|f|fb|fbo)$")
# A sentence or a line ends; the point of a decimal and those of an ellipsis do not count.
_END = re.compile(r"[!?](?:\s|$)|(?<!\.)\.(?:[\s$]|\\[)\]]|$)|\n")
# Only signs, names and connecting words stand between two boxes, perhaps on two lines. What was taken stays taken:
# a brace may be a sign or part of a name, and each name in a text that does not fit would double the time.
_BESIDE = re.compile(
    r"(?:[\s$,;&*()\[\]:=•-]|\d+[.)]|\\(?:text|quad|qquad|[,;:!()\[\]\\])|[{}]|\b(?:and|or|[A-Za-z](?:_\{?\w+\}?)?)(?![A-Za-z]))*+"
)
_TAKEN_BACK = re.compile(
    r"\b(?:no|not|wait|actually|instead|rather|sorry|mistake|incorrect|wrong|correction|corrected|error|but)\b", re.I
)


def code_answer(text: str, *names: str) -> str:
    r"""Returns the program in a text: the last fenced block of Python that defines `names`, or all of the text.

    Without names it is a script, the last block that is called Python or parses as a program.

    >>> code_answer("Here it is:\n```python\ndef f(x):\n    return x\n```\nIt works.")
    'def f(x):\n    return x\n'
    """
    # A text that was copied from a file may begin with a mark of its encoding.
    text = text.removeprefix("\ufeff")
    program = chosen(list(fenced_blocks(text)), [name for name in names if name])
    return text if program is None else program.rstrip("\n") + "\n"


def last_boxed(text: str) -> str | None:
    r"""Returns what the last `\boxed{...}` of a text holds, or None if there is none or the last one is cut off.

    >>> last_boxed(r"So \boxed{1}, no: \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    boxes = _boxes(text)
    return boxes[-1][2] if boxes else None


def boxed_together(text: str) -> str | None:
    r"""Returns what the boxes of the last sentence hold, as a list: for a problem with several answers.

    >>> boxed_together(r"Try \boxed{7}. So $x=\boxed{1}$ or $x=\boxed{2}$.")
    '1, 2'
    """
    boxes = _boxes(text)
    if not boxes or boxes[-1][2] is None:
        return None
    together = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        # What a box holds within another one is the answer of both.
        if box[1] > together[0][0]:
            continue
        between = text[box[1] : together[0][0]]
        # What is taken back, in the same sentence, is no answer.
        another_sentence = _END.search(between) and not _BESIDE.fullmatch(between)
        if box[2] is None or _TAKEN_BACK.search(between) or another_sentence:
            break
        together.insert(0, box)
    return ", ".join(str(content) for _, _, content in together)


def _boxes(text: str) -> list[tuple[int, int, str | None]]:
    """Returns where each box begins and ends, and what it holds; None for the last one if the text ends in it."""
    boxes: list[tuple[int, int, str | None]] = []
    for box in _BOX.finditer(text):
        start = box.end()
        if start == len(text):
            boxes.append((box.start(), start, None))
        elif text[start] == "{":
            inner = braced(text, start)
            end = len(text) if inner is None else start + len(inner) + 2
            # What stands in a box that is cut off is cut off too.
            boxes.append((box.start(), end, None if inner is None else inner.strip()))
            if inner is None:
                break
        # `\boxed 2` is TeX for `\boxed{2}`.
        elif text[start - 1].isspace() and (word := re.match(r"[^\s$.,]+", text[start:])):
            boxes.append((box.start(), start + word.end(), word.group()))
    # The text may end within the command itself.
    if _CUT.search(text):
        boxes.append((len(text), len(text), None))
    return boxes


def braced(text: str, start: int) -> str | None:
    """Returns what stands between the brace at `start` and the one that closes it; None if none does."""
    depth = 0
    escaped = False
    for at in range(start, len(text)):
        letter = text[at]
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : at]
    return None


# What the graders of code share: jobs that call a solution in the jail, and what their outcomes mean.


class JailedGrader(ThreadedGrader):
    """Judges solutions in a sandbox of the profile `BENCHMARKS`, several at a time."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        """Starts a sandbox of its own unless it gets one, which its owner closes."""
        if sandbox is not None and sandbox.profile.entry != BENCHMARKS.entry:
            raise ValueError("solutions of benchmarks need a sandbox of the profile BENCHMARKS")
        self._own = sandbox is None
        self._sandbox = sandbox or Sandbox(BENCHMARKS)
        super().__init__(2 * cores())

    def close(self) -> None:
        super().close()
        if self._own:
            self._sandbox.close()

    def run(self, job: Job) -> Outcome:
        return self._sandbox.submit(job).result()


# What some editors write in front of a file. Python skips it in a file, and refuses it in a text.
_MARK = "\ufeff"


@cache
def _jailed_text() -> str:
    return Path(jailed.__file__).read_text(encoding="utf-8")


def function_job(
    source: str, name: str, what: str, calls: Sequence[bytes], limits: Limits, *, preamble: bool = False
) -> Job:
    """Returns the job that calls the function `name` of a program once with each of the encoded arguments."""
    program = f"""{_jailed_text()}
function = load({source.removeprefix(_MARK)!r}, {name!r}, {preamble!r})
def run(*arguments):
    return call(function, arguments, {what!r})
"""
    return Job(program, tuple(calls), limits=limits)


def script_job(source: str, standard_input: str, limits: Limits) -> Job:
    """Returns the job that runs a program on its standard input. Its output is what the program printed."""
    source = source.removeprefix(_MARK)
    program = f"""{_jailed_text()}
import standard_streams
SOURCE = {source!r}
def run(text):
    return run_script(SOURCE, text, standard_streams)
"""
    return Job(program, (encode_arguments((standard_input,)),), limits=limits)


def failed(outcome: Outcome, where: Any = "") -> Verdict:
    """Returns the verdict for an outcome that is not `ok`."""
    detail = f"{where}: {outcome.detail}" if where else outcome.detail
    # What calls a solution stands around it, so a text that is no program fails while that runs.
    if outcome.detail.startswith(("SyntaxError", "IndentationError", "TabError")):
        # The line is one of the text around it.
        return Verdict("malformed", detail=detail.partition(" at line")[0])
    if outcome.status in ("ok", "wrong", "nondeterministic"):
        raise ValueError(f"an outcome that no job of a grader has: {outcome.status}")
    return Verdict(outcome.status, detail=detail)
