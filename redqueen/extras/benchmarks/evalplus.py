"""HumanEval+ and MBPP+: the answer is a whole program."""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redqueen.evals import jailed
from redqueen.evals.benchmark import Benchmark, Form, Row, Source
from redqueen.evals.grader import Grader, JailedGrader, OpenGraders, Problem, code_answer, failed, function_job
from redqueen.extras.benchmarks.evalplus_rules import Comparison, asked, mbpp_arguments
from redqueen.jail import BENCHMARKS, Limits, Sandbox, encode_arguments, parse_literal
from redqueen.jail.child.values import CodecError, decode
from redqueen.records import Prompt, Verdict

# Judges solutions of HumanEval+ and MBPP+ by evalplus' rules, in the project's own jail.
#
# A problem's `data` is the row of the benchmark's release file: task_id, prompt, canonical_solution, entry_point,
# base_input, plus_input, atol. The answer is a whole program. It is right if it gives what the canonical solution gives
# on all base and plus inputs (`evalplus_rules.py` says what counts as the same).
#
# What differs from evalplus, on purpose:
#
# - The expected outputs come from the jail too, and no solution sees them.
# - Limits are CPU time and not time. evalplus gives a second to each input and a minute to all. Here up to `CALLS`
#   inputs share `MOST_S` seconds and four times the reference's time.
# - An output of more than 32 KiB is compared by a digest, and so without a tolerance.
# - A value that is not plain (a `Fraction`, a view of a dict) equals nothing.

# What reference solutions give, kept in a file, so that they run once and not before each evaluation.

_FIELDS = ("task_id", "prompt", "canonical_solution", "entry_point", "base_input", "plus_input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the reference gives, by the list of inputs ("base" and "plus")."""

    outputs: Mapping[str, list[Any]]
    """One for each input, as the jail carries it."""
    cpu_s: Mapping[str, list[float]]
    """CPU seconds of each process that computed some of them."""


def key_of(row: Mapping[str, Any]) -> str:
    """Returns the checksum of everything that the expected outputs depend on."""
    dependencies = [row[field] for field in _FIELDS]
    dependencies += [Path(jailed.__file__).read_text(encoding="utf-8"), platform.python_version()]
    return hashlib.sha256(json.dumps(dependencies).encode()).hexdigest()


class ExpectedFile:
    """An SQLite file of expected outputs by their checksum. Without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._execute("CREATE TABLE IF NOT EXISTS expected (key TEXT PRIMARY KEY, said BLOB, sum TEXT)")

    def read(self, key: str) -> Expected | None:
        """Returns what is kept; None if there is nothing or the bytes are not those that were written."""
        rows = self._execute("SELECT said, sum FROM expected WHERE key = ?", key)
        if not rows or hashlib.sha256(rows[0][0]).hexdigest() != rows[0][1]:
            return None
        try:
            outputs, cpu_s = decode(rows[0][0])
        except CodecError:
            return None
        return Expected(outputs=outputs, cpu_s=cpu_s)

    def write(self, key: str, expected: Expected) -> None:
        encoded = encode_arguments((dict(expected.outputs), dict(expected.cpu_s)))
        self._execute(
            "INSERT OR REPLACE INTO expected VALUES (?, ?, ?)", key, encoded, hashlib.sha256(encoded).hexdigest()
        )

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        if self._path is None:
            return []
        with self._lock, closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(statement, values).fetchall()


CALLS = 128
"""How many inputs share a process."""
MOST_S = 10.0
"""CPU seconds of a process on top of four times what the reference took."""
LEAST_S = 2.0
REFERENCE_S = 300.0
LEAST_WALL_S = 120.0
_WALL = 10
"""The wall-clock limit as a multiple of the CPU limit. A solution cannot wait, so only a busy machine gets near it."""
LISTS = ("base", "plus")


class ReferenceError(Exception):
    """The canonical solution gave no output on some input."""


class EvalPlusGrader(JailedGrader):
    r"""Judges programs by the outputs of the canonical solution, which it computes once and keeps.

    >>> with EvalPlusGrader() as grader:  # doctest: +SKIP
    ...     grader.submit(problem, "def add(x, y):\n    return x + y").result()
    Verdict(status='correct', output='', detail='', cpu_ms=0.0)
    """

    def __init__(self, sandbox: Sandbox | None = None, cache: Path | None = None) -> None:
        """Keeps the expected outputs in the file `cache` too, if one is named."""
        super().__init__(sandbox)
        self._expected: dict[str, Expected] = {}
        self._file = ExpectedFile(cache)
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def grade(self, problem: Problem, answer: str) -> Verdict:
        """Returns `correct`, or what was wrong with the first input that gave anything else."""
        try:
            expected = self.expected(problem)
        except ReferenceError as error:
            return Verdict("infra_error", detail=str(error))
        row = problem.data
        what = asked(problem.benchmark, row["entry_point"])[1]
        for part in LISTS:
            inputs = list(row[f"{part}_input"])
            comparison = Comparison(problem.benchmark, row)
            for number, start in enumerate(range(0, len(inputs), CALLS)):
                chunk = inputs[start : start + CALLS]
                limits = limits_of(len(chunk), expected.cpu_s[part][number])
                calls = encoded_calls(problem.benchmark, row["task_id"], chunk)
                outcome = self.run(function_job(answer, row["entry_point"], what, calls, limits))
                for index, text in enumerate(outcome.outputs):
                    output = parse_literal(text, limits.output_bytes)
                    if not comparison.equal(chunk[index], output, expected.outputs[part][start + index]):
                        return Verdict("wrong", detail=f"{part} input {start + index}")
                if outcome.status != "ok":
                    return failed(outcome, part)
        return Verdict("correct")

    def expected(self, problem: Problem) -> Expected:
        """Returns what the canonical solution gives. Raises ReferenceError if it fails."""
        with self._guard:
            lock = self._locks.setdefault(problem.id, threading.Lock())
        with lock:
            if problem.id not in self._expected:
                key = key_of(problem.data)
                expected = self._file.read(key)
                if expected is None:
                    expected = self._compute(problem)
                    self._file.write(key, expected)
                self._expected[problem.id] = expected
            return self._expected[problem.id]

    def _compute(self, problem: Problem) -> Expected:
        row = problem.data
        what = asked(problem.benchmark, row["entry_point"])[0]
        outputs: dict[str, list[Any]] = {}
        cpu_s: dict[str, list[float]] = {}
        limits = _limits(REFERENCE_S)
        for part in LISTS:
            outputs[part] = []
            cpu_s[part] = []
            inputs = list(row[f"{part}_input"])
            for start in range(0, len(inputs), CALLS):
                calls = encoded_calls(problem.benchmark, row["task_id"], inputs[start : start + CALLS])
                outcome = self.run(function_job(reference(row), row["entry_point"], what, calls, limits))
                if outcome.status != "ok":
                    raise ReferenceError(f"the reference of {problem.id}: {outcome.status}: {outcome.detail}")
                outputs[part] += [parse_literal(text, limits.output_bytes) for text in outcome.outputs]
                cpu_s[part].append(outcome.cpu_ms / 1000)
        return Expected(outputs=outputs, cpu_s=cpu_s)


def reference(row: Mapping[str, Any]) -> str:
    """Returns the canonical solution as a whole program."""
    return row["prompt"] + row["canonical_solution"]


def encoded_calls(benchmark: str, task_id: str, inputs: Sequence[Sequence[Any]]) -> list[bytes]:
    """Returns the arguments of each call as a job takes them."""
    if benchmark == "mbpp+":
        return [encode_arguments(mbpp_arguments(task_id, arguments)) for arguments in inputs]
    return [encode_arguments(arguments) for arguments in inputs]


def limits_of(calls: int, reference_s: float) -> Limits:
    """Returns what a solution may use for so many calls."""
    # The base inputs are few, so that a solution that never ends is soon found out.
    return _limits(min(MOST_S, max(LEAST_S, calls)) + 4 * reference_s)


def _limits(cpu_s: float) -> Limits:
    return replace(BENCHMARKS.limits, cpu_s=cpu_s, wall_s=max(LEAST_WALL_S, _WALL * cpu_s))


def evalplus(shared: OpenGraders) -> Grader:
    """Opens the judge of whole programs by evalplus' rules."""
    return EvalPlusGrader(shared.sandbox, shared.cache)


FIELDS = ("prompt", "canonical_solution", "entry_point", "base_input", "plus_input", "atol")

# A model reads this text: a changed word makes results incomparable with earlier ones.
ASK = """\
Write the Python function that this text asks for. Answer with one ```python block that holds the whole program, with \
its imports.

```python
{prompt}
```"""


def evalplus_benchmark(*, name: str, title: str, source: Source, stop: tuple[str, ...]) -> Benchmark:
    """Returns a benchmark whose rows are those of an evalplus release file. `stop` ends a completion."""

    def problem(row: Row) -> Problem:
        # The grader reads these fields; without them every answer would fail in it.
        missing = [field for field in FIELDS if field not in row]
        if missing:
            raise KeyError(*missing)
        return Problem(id=row["task_id"], benchmark=name, prompt=row["prompt"], data=row)

    def pose(problem: Problem, form: Form) -> Prompt:
        if form == "chat":
            return Prompt(ASK.format(prompt=problem.prompt.strip()), (), chat=True)
        return Prompt(problem.prompt, stop)

    return Benchmark(
        name=name,
        title=title,
        group="code",
        source=source,
        problem=problem,
        pose=pose,
        read=read,
        standard="completion",
        max_tokens=768,
        grader=evalplus,
        programs=reference,
    )


def read(problem: Problem, form: Form, text: str) -> str | None:
    """Returns the program: what a message gives, or the prompt with its completion."""
    if form == "chat":
        return code_answer(text, problem.data["entry_point"])
    return problem.prompt + text


HUMANEVAL = evalplus_benchmark(
    name="humaneval+",
    title="HumanEval+",
    source=Source(
        files=("HumanEvalPlus.jsonl.gz", "HumanEvalPlus.jsonl"),
        rows=164,
        hub="evalplus/humanevalplus",
        release="https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/HumanEvalPlus.jsonl.gz",
        sha256="272720b90ac375502c8ed23cd791c2a93dfb22a911641a494da74a426c09f101",
    ),
    # The function ends where another statement begins in the first column.
    stop=("\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ", "\nif __name__", "\nprint(", "\n#", "\n```"),
)
"""HumanEval+ (Chen et al. 2021; Liu et al. 2023): 164 functions to complete."""
MBPP = evalplus_benchmark(
    name="mbpp+",
    title="MBPP+",
    source=Source(
        files=("MbppPlus.jsonl.gz", "MbppPlus.jsonl"),
        rows=378,
        hub="evalplus/mbppplus",
        release="https://github.com/evalplus/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz",
        sha256="af43697e8791c4c149bdfd6b489d8b5412507551ac20e28a439f650b8225db63",
    ),
    # The text may begin with helpers and imports, so these end nothing.
    stop=('\n"""', "\nassert", "\nif __name__", "\ndef main(", "\nprint(", "\n```"),
)
"""MBPP+ (Austin et al. 2021; Liu et al. 2023): 378 functions to write from a sentence and one example."""
