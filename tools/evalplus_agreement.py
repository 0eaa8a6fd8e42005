"""Compares the graders of HumanEval+ and MBPP+ with evalplus on mutants of canonical solutions.

evalplus is no dependency of the project. Install it in an environment of its own, and run the first two commands with
the project's Python and the third with that one:

    python tools/evalplus_agreement.py mutants DIR OUT/mutants.jsonl
    python tools/evalplus_agreement.py ours DIR OUT/mutants.jsonl OUT/ours.jsonl
    python tools/evalplus_agreement.py theirs DIR OUT/mutants.jsonl OUT/theirs.jsonl
    python tools/evalplus_agreement.py compare OUT/mutants.jsonl OUT/ours.jsonl OUT/theirs.jsonl

DIR holds HumanEvalPlus.jsonl.gz and MbppPlus.jsonl.gz. evalplus runs the mutants without a jail.
"""

# Each command is run where only one of the two is installed.
# ruff: noqa: PLC0415
from __future__ import annotations

import ast
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SETS = {"humaneval+": "HumanEvalPlus.jsonl.gz", "mbpp+": "MbppPlus.jsonl.gz"}
EACH = 200
SEED = 18
SLOW = ("Mbpp/255", "Mbpp/599")
"""Problems that take a minute for each program."""

_PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Add, ast.Sub),
    (ast.Div, ast.FloorDiv),
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
]
_SWAPPED = dict(_PAIRS) | {other: one for one, other in _PAIRS} | {ast.Mult: ast.Add, ast.Mod: ast.Mult}
_ADDED = (1e-9, 1e-7, 1e-5, 0.0, 1)
_CASTS = ("list", "tuple", "float")


def read(folder: str) -> dict[str, dict[str, Any]]:
    """Returns the rows of both benchmarks by their id, with the benchmark's name in `benchmark`."""
    rows: dict[str, dict[str, Any]] = {}
    for benchmark, name in SETS.items():
        for line in gzip.decompress((Path(folder) / name).read_bytes()).decode().splitlines():
            row = json.loads(line)
            rows[row["task_id"]] = {**row, "benchmark": benchmark}
    return rows


def lines(path: str) -> list[dict[str, Any]]:
    """Returns the records of a file of JSON lines."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write(path: str, records: list[dict[str, Any]]) -> None:
    """Writes records as JSON lines."""
    Path(path).write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def changes(tree: ast.AST, draw: random.Random) -> list[Callable[[], None]]:
    """Returns every single change that can be made to a program."""
    found: list[Callable[[], None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPPED:
            found.append(lambda node=node: setattr(node, "op", _SWAPPED[type(node.op)]()))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
            found.append(lambda node=node: node.ops.__setitem__(0, _SWAPPED[type(node.ops[0])]()))
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            found.append(lambda node=node: setattr(node, "value", not node.value))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            found.append(lambda node=node: setattr(node, "value", node.value + draw.choice((-1, 1))))
        elif isinstance(node, ast.If):
            found.append(lambda node=node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)))
        elif isinstance(node, ast.Return) and node.value is not None:
            found.append(lambda node=node: setattr(node, "value", ast.Constant(None)))
            added = ast.Constant(draw.choice(_ADDED))
            found.append(lambda node=node, added=added: setattr(node, "value", ast.BinOp(node.value, ast.Add(), added)))
            cast = ast.Name(draw.choice(_CASTS), ast.Load())
            found.append(lambda node=node, cast=cast: setattr(node, "value", ast.Call(cast, [node.value], [])))
    return found


def mutants(folder: str, out: str) -> None:
    """Writes mutants: one change each, of problems that are drawn."""
    draw = random.Random(SEED)
    rows = read(folder)
    records: list[dict[str, Any]] = []
    for benchmark in SETS:
        names = [name for name, row in rows.items() if row["benchmark"] == benchmark and name not in SLOW]
        for _ in range(EACH):
            name = draw.choice(names)
            tree = ast.parse(rows[name]["prompt"] + rows[name]["canonical_solution"])
            # Every program has a `return`, so that there is something to change.
            draw.choice(changes(tree, draw))()
            program = ast.unparse(ast.fix_missing_locations(tree))
            records.append({"id": name, "benchmark": benchmark, "program": program})
    write(out, records)


def ours(folder: str, programs: str, out: str) -> None:
    """Writes the grades of this project."""
    from redqueen.evals.grader import Problem
    from redqueen.extras.benchmarks.evalplus import EvalPlusGrader

    rows = read(folder)
    with EvalPlusGrader() as grader:
        futures = [
            grader.submit(
                Problem(id=each["id"], benchmark=each["benchmark"], prompt="", data=rows[each["id"]]), each["program"]
            )
            for each in lines(programs)
        ]
        write(out, [{"right": future.result().status == "correct", "said": str(future.result())} for future in futures])


def theirs(folder: str, programs: str, out: str) -> None:
    """Writes the verdicts of evalplus."""
    from evalplus.data.mbpp import mbpp_deserialize_inputs  # type: ignore[import-not-found]
    from evalplus.eval import untrusted_check  # type: ignore[import-not-found]
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS  # type: ignore[import-not-found]
    from evalplus.gen.util import trusted_exec  # type: ignore[import-not-found]

    rows = read(folder)
    records: list[dict[str, Any]] = []
    known: dict[tuple[str, str], Any] = {}
    for each in lines(programs):
        row = rows[each["id"]]
        mbpp = row["benchmark"] == "mbpp+"
        name = row["entry_point"]
        said: list[str] = []
        for part in ("base_input", "plus_input"):
            inputs = mbpp_deserialize_inputs(each["id"], list(row[part])) if mbpp else row[part]
            if (each["id"], part) not in known:
                known[each["id"], part] = trusted_exec(
                    row["prompt"] + row["canonical_solution"],
                    inputs,
                    name,
                    record_time=True,
                    output_not_none=mbpp and name in MBPP_OUTPUT_NOT_NONE_TASKS,
                )
            truth, seconds = known[each["id"], part]
            data_set = "mbpp" if mbpp else "humaneval"
            said.append(
                untrusted_check(data_set, each["program"], inputs, name, truth, row["atol"], seconds, fast_check=True)[
                    0
                ]
            )
        records.append({"right": said == ["pass", "pass"], "said": " ".join(said)})
    write(out, records)


def compare(programs: str, first: str, second: str) -> None:
    """Prints where the two differ, and how often they do."""
    counts: Counter[str] = Counter()
    for each, one, other in zip(lines(programs), lines(first), lines(second), strict=True):
        counts["both right" if one["right"] and other["right"] else "both wrong"] += one["right"] == other["right"]
        counts["different"] += one["right"] != other["right"]
        if one["right"] != other["right"]:
            print(f"{each['id']}: {one['said']}; evalplus: {other['said']}\n{each['program']}\n")
    print(dict(counts))


if __name__ == "__main__":
    {"mutants": mutants, "ours": ours, "theirs": theirs, "compare": compare}[sys.argv[1]](*sys.argv[2:])
