"""Runs side by side: what they cost, their verdicts, and the quantities of the paper's claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redqueen.analysis.compare.arms import Arm, arms, runs_of
from redqueen.analysis.compare.breadth import measures, vendi_quantities
from redqueen.analysis.compare.charts import other_problems
from redqueen.analysis.compare.summary import Budget, Quantity, budget, quantities, run_row
from redqueen.store.archive.rows import MeasureRow
from redqueen.store.files import damage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs side by side."""

    arms: Sequence[Arm]
    rows: Mapping[str, Sequence[MeasureRow]]
    """The measures of each run's tasks."""
    remarks: Sequence[str]
    """One line for each run without measures, and one if the runs were asked different held-out problems."""
    costs: Sequence[Budget]
    table: Sequence[Quantity]

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """Returns everything as plain data: arms, quantities and runs."""
        return {
            "arms": list(map(asdict, self.costs)),
            "quantities": list(map(asdict, self.table)),
            "runs": [run_row(run) for run in runs_of(self.arms)],
        }


def compare(paths: Sequence[Path], by: str) -> Comparison:
    """Returns runs side by side, pooled by a setting. Raises UserError for what cannot be read or compared."""
    read = arms(paths, by)
    rows, missing = measures(read)
    with damage_of("one of the runs"):
        costs = [budget(arm) for arm in read]
        table = [*quantities(read), *vendi_quantities(read, rows)]
    return Comparison(arms=read, rows=rows, remarks=[*missing, *other_problems(read)], costs=costs, table=table)
