"""Compares the grader of CRUXEval with the benchmark's own verdicts on answers that it published.

The repository facebookresearch/cruxeval has both: `data/cruxeval.jsonl` with the 800 rows, and
`samples/evaluation_results/*_input.json` and `*_output.json`, each with ten answers to every row and their verdicts.

    python tools/cruxeval_agreement.py data/cruxeval.jsonl input samples/evaluation_results/..._input.json
    python tools/cruxeval_agreement.py data/cruxeval.jsonl output samples/evaluation_results/..._output.json
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from redqueen.evals.benchmark import Row
from redqueen.extras.benchmarks.cruxeval import CRUXEVAL_I, CRUXEVAL_O, CruxEvalGrader


def main(data: str, kind: str, scored: str) -> None:
    """Prints how the references are judged, and both verdicts on all answers."""
    benchmark = CRUXEVAL_I if kind == "input" else CRUXEVAL_O
    rows: list[Row] = [json.loads(line) for line in Path(data).read_text(encoding="utf-8").splitlines()]
    published: dict[str, Any] = json.loads(Path(scored).read_text(encoding="utf-8"))
    verdicts: Counter[tuple[bool, bool]] = Counter()
    with CruxEvalGrader() as grader:
        references = [grader.submit(benchmark.problem(row), row[kind]) for row in rows]
        right = sum(future.result().status == "correct" for future in references)
        print(f"{right} of {len(rows)} references are right")
        for row in rows:
            answers = list(published["raw_generations"][row["id"]])
            theirs = dict(zip(answers, published["raw_scored_generations"][row["id"]], strict=True))
            ours = {answer: grader.submit(benchmark.problem(row), answer) for answer in theirs}
            for answer, future in ours.items():
                grade = future.result()
                verdicts[theirs[answer], grade.status == "correct"] += answers.count(answer)
                if theirs[answer] != (grade.status == "correct"):
                    print(row["id"], repr(answer), theirs[answer], grade)
    for (official, own), count in verdicts.items():
        print(f"official {official}, ours {own}: {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
