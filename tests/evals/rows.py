"""Files of our own in the formats of the benchmarks."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CRUXEVAL = [
    {"id": "sample_0", "code": "def f(x):\n    return x + 1", "input": "3", "output": "4"},
    {"id": "sample_1", "code": "def f(s, n):\n    return s * n", "input": "'ab', 2", "output": "'abab'"},
    {"id": "sample_2", "code": "def f(x):\n    return [x]", "input": "{1: 2}", "output": "[{1: 2}]"},
]
MBPP = {
    "task_id": "Mbpp/2",
    "prompt": '"""\nWrite a function that doubles.\nassert double(1) == 2\n"""\n',
    "entry_point": "double",
    "canonical_solution": "\ndef double(x):\n    return 2 * x\n",
    "base_input": [[1]],
    "plus_input": [[2]],
    "atol": 0,
}
DOUBLE = "class Solution:\n    def double(self, numbers):\n        "


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")


def packed(tests: object) -> str:
    """Packs tests as LiveCodeBench does."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def tests(kind: str, *pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"input": given, "output": result, "testtype": kind} for given, result in pairs]


def livecodebench(question: str, kind: str, public: list[Any], private: list[Any]) -> dict[str, str]:
    functional = kind == "functional"
    return {
        "question_title": question,
        "question_content": f"Double each number ({question}).",
        "platform": "leetcode" if functional else "atcoder",
        "question_id": question,
        "contest_id": "c",
        "contest_date": "2024-01-01T00:00:00",
        "starter_code": DOUBLE if functional else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(private),
        "metadata": json.dumps({"func_name": "double"} if functional else {}),
    }


LIVECODEBENCH = [
    livecodebench(
        "one",
        "functional",
        tests("functional", ("[1, 2]", "[2, 4]")),
        tests("functional", ("[]", "[]"), ("[5]", "[10]")),
    ),
    livecodebench("two", "stdin", tests("stdin", ("2\n1 2\n", "2 4\n")), tests("stdin", ("1\n7\n", "14"))),
]
