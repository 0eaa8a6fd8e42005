r"""The mathematics benchmarks: the answer is what the last \boxed{...} of a text holds.

If a problem asks for several answers, it is what the boxes of the last sentence hold together.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Timer
from typing import cast

from redqueen.base.optional import is_installed, missing
from redqueen.errors import UserError
from redqueen.evals.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.grader import Grader, OpenGraders, Problem, ThreadedGrader, boxed_together, last_boxed
from redqueen.extras.benchmarks.latex import are_several, depth_of, split_answers
from redqueen.jail.probes import cores
from redqueen.records import Prompt, Status, Verdict

# Judges mathematical answers by math-verify, in processes that can be killed.
#
# A problem's `data` has `answers`: one reference answer, or several if all of them have to be given (`latex.py`).
# The answer is what the model's last box holds (`last_boxed`).

CPU_S = 10.0
"""CPU seconds for one answer."""
WALL_S = 120.0
"""Seconds after which a process is taken for stuck: the machine's fault."""
START_CPU_S = 60.0
MOST_TEXT = 4_000
"""Longer answers are not read."""
MOST_BRACKETS = 60
"""An answer with more brackets in each other is not read: it would take seconds, and means nothing."""


class MathsGrader(ThreadedGrader):
    """Judges answers in one process for each core.

    Raises MissingLibraryError if math-verify is not installed.
    """

    def __init__(self, workers: int | None = None, cpu_s: float = CPU_S) -> None:
        if not is_installed("math_verify"):
            raise missing("math-verify", "evals", "a mathematics benchmark")
        count = workers or cores()
        self._cpu_s = cpu_s
        self._processes = [MathsProcess() for _ in range(count)]
        self._free: SimpleQueue[MathsProcess] = SimpleQueue()
        for process in self._processes:
            self._free.put(process)
        super().__init__(count)

    def grade(self, problem: Problem, answer: str) -> Verdict:
        if not answer.strip():
            return Verdict("malformed", detail="no answer")
        if len(answer) > MOST_TEXT:
            return Verdict("malformed", detail=f"an answer of more than {MOST_TEXT} characters")
        if depth_of(answer) > MOST_BRACKETS:
            return Verdict("malformed", detail=f"more than {MOST_BRACKETS} brackets in each other")
        process = self._free.get()
        try:
            return process.ask(tuple(problem.data["answers"]), answer, self._cpu_s)
        finally:
            self._free.put(process)

    def close(self) -> None:
        super().close()
        for process in self._processes:
            process.close()


class MathsProcess:
    """One process that compares answers. It starts with the first question, and anew after it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, answers: tuple[str, ...], answer: str, cpu_s: float) -> Verdict:
        """Returns the verdict on one answer. The kernel ends the process after `cpu_s` seconds of CPU."""
        try:
            process = self._started()
            reply = _exchange(process, answers, answer, cpu_s)
        except OSError as error:
            self.close()
            return Verdict("infra_error", detail=f"the process for mathematics: {error}")
        if reply:
            status, detail = json.loads(reply)
            return Verdict(cast("Status", status), detail=detail)
        code = process.wait()
        self.close()
        if code == -signal.SIGPROF:
            return Verdict("timeout", detail=f"{cpu_s:g} s of CPU")
        if code == -signal.SIGKILL:
            return Verdict("infra_error", detail="the process for mathematics was killed")
        return Verdict("error", detail=f"the process for mathematics ended with {code}")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "redqueen.extras.benchmarks.maths_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "0"},
                text=True,
                encoding="utf-8",
            )
            # What is read for the first time costs more, and must not count against an answer.
            if not _exchange(self._process, (r"\frac{1}{2}",), "0.5", START_CPU_S):
                raise OSError(f"it did not start: exit code {self._process.wait()}")
        return self._process


def _exchange(process: subprocess.Popen[str], answers: tuple[str, ...], answer: str, cpu_s: float) -> str:
    """Sends one question. Returns the reply, or "" if the process ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    alarm = Timer(WALL_S, process.kill)
    alarm.start()
    try:
        process.stdin.write(json.dumps({"answers": answers, "answer": answer, "cpu_s": cpu_s}) + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    finally:
        alarm.cancel()


def maths(_: OpenGraders) -> Grader:
    """Opens math-verify; a problem's `data` has the `answers`."""
    return MathsGrader()


Answers = Callable[[Row], tuple[str, ...]]
"""Returns what an answer to a row has to give: one text, or several if it asks for several in any order."""

# A model reads the texts below: a changed word makes results incomparable with earlier ones.
ASK = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
WORKED = """\
Problem:
Tom has 3 boxes with 4 pens each, and 2 pens more. How many pens does he have?

Solution:
The boxes hold 3 \\cdot 4 = 12 pens. With 2 more he has 12 + 2 = 14 pens. The answer is \\boxed{14}.

"""
COMPLETE = WORKED + "Problem:\n{problem}\n\nSolution:\n"
NEXT = ("\nProblem:",)


def plain(row: Row) -> tuple[str, ...]:
    """Returns the answer of a row that has it as a text or a number.

    >>> plain({"answer": 27.0})
    ('27',)
    """
    answer = row["answer"]
    # AMC's answers are stored as numbers with a point: 27.0.
    return (_whole(answer) if isinstance(answer, float) else str(answer).removesuffix(".0"),)


def _whole(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def _in_solution(row: Row) -> tuple[str, ...]:
    # The hub's rows have the answer alone.
    boxed = last_boxed(row["solution"] if "solution" in row else f"\\boxed{{{row['answer']}}}")
    if boxed is None:
        raise ValueError("no box in the solution")
    return (boxed,)


def _after_hashes(row: Row) -> tuple[str, ...]:
    return (row["answer"].rpartition("####")[2].strip().replace(",", ""),)


def _one_or_several(row: Row) -> tuple[str, ...]:
    answer = row["final_answer"][0]
    return split_answers(answer) if row["is_multiple_answer"] else (answer,)


def maths_benchmark(
    *, name: str, title: str, source: Source, standard: Form = "chat", answers: Answers = plain
) -> Benchmark:
    """Returns a benchmark whose rows are problems with a final answer, which `answers` takes from a row."""

    def problem(row: Row) -> Problem:
        try:
            wanted = answers(row)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            number = row.get("id", row.get("idx", row.get("unique_id", "?")))
            raise UserError(f"row {number} of {name} has no answer: {type(error).__name__}: {error}") from error
        number = next(str(row[key]) for key in ("unique_id", "id", "idx", "problem", "question") if key in row)
        return Problem(id=number, benchmark=name, prompt=_text(row), data={"answers": wanted})

    return Benchmark(
        name=name,
        title=title,
        group="maths",
        source=source,
        problem=problem,
        pose=pose,
        read=read,
        standard=standard,
        max_tokens=2048,
        grader=maths,
    )


def _text(row: Row) -> str:
    # OlympiadBench keeps what several questions share in a field of its own.
    text = row["problem"] if "problem" in row else row["question"]
    return f"{row['context']}\n\n{text}" if row.get("context") else text


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt of a problem."""
    if form == "chat":
        return Prompt(ASK.format(problem=problem.prompt), (), chat=True)
    # Texts of problems hold braces, so `format` sees the frame alone.
    return Prompt(COMPLETE.replace("{problem}", problem.prompt), NEXT)


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns what the last box of a text holds; of a problem with several answers, what those of its end hold."""
    del form
    return boxed_together(text) if are_several(problem.data["answers"]) else last_boxed(text)


AIME24 = maths_benchmark(
    name="aime24",
    title="AIME 24",
    source=Source(files=("aime24.jsonl",), rows=30, hub="HuggingFaceH4/aime_2024", split="train"),
)
"""AIME 2024, I and II: 30 problems whose answers are integers from 0 to 999."""
AIME25 = maths_benchmark(
    name="aime25", title="AIME 25", source=Source(files=("aime25.jsonl",), rows=30, hub="math-ai/aime25")
)
"""AIME 2025, I and II: 30 problems whose answers are integers from 0 to 999."""
AMC23 = maths_benchmark(
    name="amc23", title="AMC 23", source=Source(files=("amc23.jsonl",), rows=40, hub="math-ai/amc23")
)
"""AMC 12 of 2023: 40 problems whose answers are numbers."""
MATH500 = maths_benchmark(
    name="math500", title="MATH-500", source=Source(files=("math500.jsonl",), rows=500, hub="HuggingFaceH4/MATH-500")
)
"""MATH-500: 500 problems of the data set MATH (Hendrycks et al. 2021), chosen by Lightman et al. (2023)."""
MINERVA = maths_benchmark(
    name="minerva",
    title="Minerva",
    source=Source(files=("minerva_math.jsonl",), rows=272, hub="math-ai/minervamath"),
    standard="completion",
    answers=_in_solution,
)
"""Minerva: 272 problems of undergraduate courses (Lewkowycz et al. 2022, "OCWCourses")."""
GSM8K = maths_benchmark(
    name="gsm8k",
    title="GSM8K",
    source=Source(files=("gsm8k.jsonl",), rows=1319, hub="openai/gsm8k", subset="main"),
    standard="completion",
    answers=_after_hashes,
)
"""GSM8K: 1,319 word problems of grade school (Cobbe et al. 2021)."""
OLYMPIADBENCH = maths_benchmark(
    name="olympiadbench",
    title="OlympiadBench",
    source=Source(
        files=("olympiadbench.jsonl",),
        rows=675,
        hub="Hothan/OlympiadBench",
        subset="OE_TO_maths_en_COMP",
        split="train",
    ),
    answers=_one_or_several,
)
"""OlympiadBench (He et al. 2024): the 675 open-ended English mathematics problems of competitions, without pictures."""
