"""Writes the reference of metrics.jsonl in docs/METRICS.md, from the table of metrics.

python -m tools.write_metrics
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from redqueen.recording.metrics import METRICS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "METRICS.md"
BEGIN = "<!-- written by `python -m tools.write_metrics` -->\n"
END = "<!-- end -->\n"
TITLES = {
    "dynamics": "Tasks and attempts",
    "complexity": "Complexity",
    "coverage": "Coverage and novelty",
    "training": "Training",
    "league": "League",
}


def reference() -> str:
    """Returns the tables: every metric, section by section."""
    lines: list[str] = []
    for section, metrics in groupby(METRICS, key=lambda metric: metric.section):
        lines += ["", f"### {TITLES[section]}", "", "| key | meaning |", "|---|---|"]
        lines += [f"| `{metric.name}` | {metric.doc} |" for metric in metrics]
    return "\n".join(lines) + "\n\n"


def page(text: str) -> str:
    """Returns the text of the page with the reference in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + reference() + END + after


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {TARGET}")
