"""Writes the reference of metrics.jsonl in docs/reference/METRICS.md, from the table of metrics.

python -m tools.write_metrics
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from redqueen.run.recording.metrics import METRICS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "METRICS.md"
BEGIN = "<!-- written by `python -m tools.write_metrics` -->\n"
END = "<!-- end -->\n"
TITLES = {
    "dynamics": "Tasks and attempts",
    "complexity": "Complexity",
    "coverage": "Coverage and novelty",
    "training": "Training",
    "league": "League",
}
SAME = "The same by kind."
"""The text of a metric that shares the row of the one before it."""


def reference() -> str:
    """Returns the tables: every metric, section by section."""
    lines: list[str] = []
    for section, metrics in groupby(METRICS, key=lambda metric: metric.section):
        lines += ["", f"### {TITLES[section]}", "", "| key | meaning |", "|---|---|"]
        for metric in metrics:
            if metric.doc == SAME:
                lines[-1] = lines[-1].replace("` |", f"`, `{metric.name}` |", 1)
            else:
                lines.append(f"| `{metric.name}` | {metric.doc} |")
    return "\n".join(lines) + "\n\n"


def page(text: str) -> str:
    """Returns the text of the page with the reference in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + reference() + END + after


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {TARGET}")
