"""What the experiment in expr reads out of a run's archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from redqueen.store.archive.rows import EvaluationRow
from redqueen.store.directory import RunDirectory
from tools import expr_scores


class Archive:
    """Stands for an archive with three answers to one problem."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def every(self, row: type[EvaluationRow], step: int) -> list[EvaluationRow]:
        assert row is EvaluationRow
        return [
            EvaluationRow(
                step=step,
                member="S0",
                benchmark="reserved",
                problem=f"reserved-all-0-{kind}",
                text="",
                status=status,
                tokens=1,
                cut_off=False,
            )
            for kind, status in (("expr_o", "correct"), ("expr_i", "infra_error"), ("expr_f", "wrong"))
        ]


@pytest.mark.slow
def test_what_the_machine_lost_is_no_wrong_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr_scores, "ArchiveReader", Archive)
    (cells,) = expr_scores.depth_scores(RunDirectory(tmp_path), 5).values()
    assert list(cells.values()) == [{"rate": 0.5, "problems": 2}]
