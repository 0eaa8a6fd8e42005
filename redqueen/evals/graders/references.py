"""The reference answers of the mathematics benchmarks, out of the rows of their files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redqueen.errors import UserError
from redqueen.evals.graders.extraction import last_boxed
from redqueen.evals.graders.latex import split_answers

_PLAIN = frozenset(("aime24", "aime25", "amc23", "math500"))


def reference_answers(benchmark: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what an answer has to give: one text, or several if the problem asks for several in any order.

    Raises UserError if the row has no answer.

    >>> reference_answers("amc23", {"answer": 27.0})
    ('27',)
    """
    try:
        return _answers(benchmark, row)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        name = row.get("id", row.get("idx", row.get("unique_id", "?")))
        raise UserError(f"row {name} of {benchmark} has no answer: {type(error).__name__}: {error}") from error


def _answers(benchmark: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    if benchmark in _PLAIN:
        answer = row["answer"]
        # AMC's answers are stored as numbers with a point: 27.0.
        return (_whole(float(answer)) if isinstance(answer, float | int) else str(answer).removesuffix(".0"),)
    if benchmark == "minerva":
        boxed = last_boxed(row["solution"])
        if boxed is None:
            raise ValueError("no box in the solution")
        return (boxed,)
    if benchmark == "gsm8k":
        return (row["answer"].rpartition("####")[2].strip().replace(",", ""),)
    if benchmark == "olympiadbench":
        answer = row["final_answer"][0]
        return split_answers(answer) if row["is_multiple_answer"] else (answer,)
    raise ValueError(f"no mathematics benchmark is named {benchmark}")


def _whole(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
