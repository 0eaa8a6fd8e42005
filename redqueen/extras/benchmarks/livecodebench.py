"""LiveCodeBench v5 (Jain et al. 2024): 880 problems of programming contests, with tests that are not shown.

A problem has either a function to write (`functional` tests) or a program that reads standard input (`stdin` tests).
The private tests are packed: base64, zlib, pickle, and inside it JSON.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import pickletools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from redqueen.errors import UserError
from redqueen.evals.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.grader import (
    Grader,
    JailedGrader,
    OpenGraders,
    Problem,
    code_answer,
    failed,
    function_job,
    right_or_wrong,
    script_job,
)
from redqueen.evals.jailed import carried
from redqueen.jail import BENCHMARKS, encode_arguments, parse_literal
from redqueen.jail.tokens import decimal
from redqueen.records import Prompt, Verdict

# Judges solutions of LiveCodeBench: functions called with JSON values, and scripts that read standard input.
#
# A problem's `data` has `tests`, each with `input` and `output` as the benchmark's files have them, and `function`: the
# name of the method of `Solution` that is called, or None for scripts. The answer is a whole program.
#
# The rules are those of the benchmark's own `testing_util.py`, in code of our own: six seconds a test, a tuple counts
# as a list, printed lines are compared without white space at their ends and, where they differ, as decimal numbers.
# Each test has a process of its own, so that nothing is left over from the last one. In the jail a solution cannot
# start threads, read a clock, or import what is not in the standard library (`numpy`, `sortedcontainers`).

OUTPUT_BYTES = 1 << 22
LIMITS = replace(BENCHMARKS.limits, cpu_s=6.0, wall_s=120.0, output_bytes=OUTPUT_BYTES)
"""What a solution may use for one test."""


class LiveCodeBenchGrader(JailedGrader):
    """Judges programs by the tests of their problems; the first that fails decides."""

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns `correct`, or what was wrong with the first test that failed."""
        function = problem.data["function"]
        for number, test in enumerate(problem.data["tests"]):
            verdict = self._method(function, answer, test) if function else self._script(answer, test)
            if verdict.status != "correct":
                where = f"test {number}"
                return replace(verdict, detail=f"{where}: {verdict.detail}" if verdict.detail else where)
        return Verdict("correct")

    def _method(self, function: str, answer: str, test: Mapping[str, str]) -> Verdict:
        arguments = [line for line in test["input"].split("\n") if line.strip()]
        try:
            # The jail reads the arguments. They are read here to tell a fault of the benchmark's from the solution's.
            for line in arguments:
                _json(line)
            expected = carried(_json(test["output"]))
        except (ValueError, RecursionError) as error:
            return Verdict("infra_error", detail=f"the benchmark's own values are no JSON: {error}")
        calls = [encode_arguments(arguments)]
        outcome = self.run(function_job(answer, f"Solution.{function}", "list", calls, LIMITS, preamble=True))
        if outcome.status != "ok":
            return failed(outcome)
        return right_or_wrong(parse_literal(outcome.outputs[0], LIMITS.output_bytes) == expected)

    def _script(self, answer: str, test: Mapping[str, str]) -> Verdict:
        outcome = self.run(script_job(answer, test["input"], LIMITS))
        if outcome.status != "ok":
            return failed(outcome)
        return right_or_wrong(same_text(parse_literal(outcome.outputs[0], LIMITS.output_bytes), str(test["output"])))


def _json(text: str) -> Any:
    # Python itself refuses ints of more than 4,300 digits.
    return json.loads(text, parse_int=decimal)


def same_text(output: Any, expected: str) -> bool:
    r"""Returns whether a script printed what was expected, line by line.

    >>> same_text("1.50 \n", "1.5"), same_text("1 2", "1 3")
    (True, False)
    """
    printed = _lines(str(output))
    wanted = _lines(expected)
    return len(printed) == len(wanted) and all(
        _same_line(one, other) for one, other in zip(printed, wanted, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(printed: str, wanted: str) -> bool:
    if printed == wanted:
        return True
    try:
        return _numbers(printed.split()) == _numbers(wanted.split())
    except InvalidOperation:
        return False


def _numbers(words: Sequence[str]) -> list[Decimal]:
    return [Decimal(word) for word in words]


def livecodebench(shared: OpenGraders) -> Grader:
    """Opens the judge of whole programs by their tests."""
    return LiveCodeBenchGrader(shared.sandbox)


# Reads pickles that hold plain data only: text, numbers, lists, tuples and dicts.
#
# LiveCodeBench packs its private tests with pickle, and a pickle can name any function to be called. Here nothing can
# be named, so nothing can be called.

_MOST_INSTRUCTIONS = 1_000
"""A text takes six. Each instruction of one byte may make an object, and a gigabyte of them is packed in a megabyte."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it names {module}.{name}: only plain data are read")

    def persistent_load(self, pid: object) -> object:
        raise pickle.UnpicklingError("it refers to something outside: only plain data are read")


def load_plain(data: bytes) -> object:
    """Returns the plain data in a pickle. Raises UserError if it holds anything else or much, or if it is damaged."""
    try:
        _check(data)
        return _Plain(io.BytesIO(data)).load()
    # A damaged pickle raises nearly anything: its opcodes work on a stack that may be empty.
    except Exception as error:
        raise UserError(f"cannot read packed tests: {error}") from error


def _check(data: bytes) -> None:
    """Raises UnpicklingError if reading a pickle would take memory that its length does not say."""
    remembered = 0
    for count, (instruction, argument, _) in enumerate(pickletools.genops(data), 1):
        if count > _MOST_INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it has more than {_MOST_INSTRUCTIONS:,} instructions")
        if instruction.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            # What is remembered is numbered one after the other. The reader makes room for all numbers up to the last.
            if instruction.name != "MEMOIZE" and (argument or 0) > remembered:
                raise pickle.UnpicklingError(f"its first {remembered + 1} numbers are not those up to {argument}")
            remembered += 1


NAME = "livecodebench"
# Release 5 is these five files, one after another.
FILES = "test.jsonl+test2.jsonl+test3.jsonl+test4.jsonl+test5.jsonl"
MOST_BYTES = 1 << 30
"""Packed tests that unpack to more are refused: a few packed bytes can stand for any amount."""
FIELDS = ("input", "output", "testtype")

# A model reads the texts below: a changed word makes results incomparable with earlier ones.
FUNCTION = "Use this start, and keep its names:\n\n```python\n{start}\n```"
PROGRAM = "Read the input from standard input, and print the answer to standard output."
ASK = "{text}\n\n{how}\n\nAnswer with one ```python block that holds the whole program."
COMPLETE = '"""\n{text}\n\n{how}\n"""\n\n'


def unpacked_tests(packed: str) -> list[dict[str, Any]]:
    """Returns the tests in a row's field: JSON, or JSON that is packed. Raises ValueError or UserError if it is not."""
    try:
        decoded = _decoded(packed)
    except json.JSONDecodeError:
        decoded = _decoded(cast("str", load_plain(_unpacked(packed))))
    tests = cast("list[dict[str, Any]]", decoded)
    for test in tests:
        if not all(isinstance(test[field], str) for field in FIELDS) or test["testtype"] not in ("functional", "stdin"):
            raise ValueError("a test has no text as input or output")
    return tests


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the tests are nested too deeply") from error


def _unpacked(packed: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(packed.encode("utf-8")), MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"packed tests: {error}") from error
    if not unpacker.eof:
        raise ValueError(f"packed tests are damaged, or of more than {MOST_BYTES} bytes")
    return data


class Tests:
    """The tests of a problem: the public ones first, then the private ones.

    They are unpacked whenever they are read. Packed, those of all problems take 4 GB.
    """

    def __init__(self, public: str, private: str) -> None:
        self.packed = (public, private)

    def __iter__(self) -> Iterator[dict[str, str]]:
        for packed in self.packed:
            for test in unpacked_tests(packed):
                yield {field: test[field] for field in FIELDS}


def problem(row: Row) -> Problem:
    """Returns the problem of a row."""
    tests = Tests(row["public_test_cases"], row["private_test_cases"])
    # All are read once, so that damaged ones are known before anything is sampled.
    if not sum(1 for _ in tests):
        raise ValueError("no tests")
    metadata = json.loads(row["metadata"] or "{}")
    data = {"tests": tests, "function": metadata.get("func_name"), "starter_code": row["starter_code"]}
    return Problem(id=row["question_id"], benchmark=NAME, prompt=row["question_content"], data=data)


def pose(problem: Problem, form: Form) -> Prompt:
    """Returns the prompt of a problem."""
    start = problem.data["starter_code"]
    how = FUNCTION.format(start=start.strip()) if start.strip() else PROGRAM
    if form == "chat":
        return Prompt(ASK.format(text=problem.prompt.strip(), how=how), (), chat=True)
    return Prompt(COMPLETE.format(text=problem.prompt.strip(), how=how), ("\n```", '\n"""'))


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the program in a text."""
    del form
    return code_answer(text, "Solution" if problem.data["function"] else "")


LIVECODEBENCH = Benchmark(
    name=NAME,
    title="LiveCodeBench",
    group="code",
    source=Source(
        files=(FILES, "livecodebench.jsonl"),
        rows=880,
        hub="livecodebench/code_generation_lite",
        # Later commits may arrange the files in another way.
        revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    ),
    problem=problem,
    pose=pose,
    read=read,
    standard="chat",
    max_tokens=2048,
    grader=livecodebench,
)
