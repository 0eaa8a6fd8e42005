"""The paper's table: its columns in its order, from two runs and the base."""

from __future__ import annotations

from dataclasses import replace

from redqueen.cli.eval import markdown_table, notes, paper_table, weakest_lines
from redqueen.evals import paper
from redqueen.evals.benchmark import Source
from redqueen.evals.runner import Plan
from redqueen.evals.scores import Results, ScoreEntry
from tests.evals.made_up import loaded, results

ENTRIES = [
    ScoreEntry(target="runs/population", member="S3"),
    ScoreEntry(target="runs/population", member="S4"),
    ScoreEntry(target="runs/single", member="A0", single_agent=True),
    ScoreEntry(target="warm-start", member=""),
    ScoreEntry(target="base", member=""),
]


def found() -> Results:
    right = {"humaneval+": (30, 36, 20, 10, 0), "gsm8k": (30, 34, 22, 10, 2), "math500": (28, 32, 20, 8, 0)}
    return results(right, entries=ENTRIES)


def test_columns_have_the_order_of_the_paper_whatever_order_the_targets_had() -> None:
    table = paper_table(found())
    assert table[0] == [
        "%",
        "base",
        "warm-start",
        "runs/single (single agent)",
        "runs/population mean of 2",
        "best: S4",
        "worst: S3",
    ]
    assert [row[0] for row in table[1:]] == [
        "HumanEval+",
        "GSM8K",
        "MATH-500",
        "maths average",
        "all",
        "cut off",
        "tokens",
    ]
    rates = {row[0]: [cell.partition(" ")[0] for cell in row[1:]] for row in table[1:]}
    assert rates["HumanEval+"] == ["0.0", "25.0", "50.0", "82.5", "90.0", "75.0"]
    assert rates["maths average"] == ["2.5", "22.5", "52.5", "77.5", "82.5", "72.5"]
    assert rates["tokens"] == ["1,200"] * 3 + ["2,400", "1,200", "1,200"]
    assert markdown_table(table).count("\n") == len(table)


def test_the_table_as_data_has_the_same_numbers() -> None:
    table = paper.document(found(), ["said"], ["noted"])
    assert [column["kind"] for column in table["columns"]] == [
        "base",
        "adapter",
        "single agent",
        "mean",
        "best",
        "worst",
    ]
    first = table["rows"][0]
    assert [cell["mean"] for cell in first["cells"]] == [0, 0.25, 0.5, 0.825, 0.9, 0.75]
    assert all(cell["low"] is not None for cell in first["cells"])
    assert [row["average"] for row in table["rows"]] == [False, False, False, True, True]
    assert table["cut_off"] == [0.5] * 6
    assert (table["sentences"], table["notes"]) == (["said"], ["noted"])


def test_the_weakest_is_compared_with_each_baseline() -> None:
    said = weakest_lines(found())
    assert len(said) == 3
    assert "The weakest member of runs/population is above base (all: " in said[2]


def test_the_weakest_of_several_is_never_said_to_be_below() -> None:
    # The least of several is low by chance alone, and the least of redrawn ones lower.
    (said,) = weakest_lines(results({"gsm8k": (30, 4, 32)}))
    assert said.startswith("The weakest member of run is not shown to be above base (gsm8k: -65.0 points, ")


def test_the_form_is_reported_as_problems_were_posed() -> None:
    plan = Plan(template="chat", samples=1, temperature=0.0, max_tokens=None, base="")
    gsm8k = loaded("gsm8k", 3)
    made = replace(gsm8k, benchmark=replace(gsm8k.benchmark, source=Source(rows=3, made=lambda: [])))
    # What languages hold out is posed in the run's own prompts.
    reserved = replace(gsm8k, benchmark=replace(gsm8k.benchmark, source=Source(rows=3)))
    forms = [line.split(", ")[1] for line in notes([gsm8k, made, reserved], plan)[1:]]
    assert forms == ["chat", "chat", "completion"]
