"""The cells of the seeds are what the seeds cover, and the whole of it."""

from __future__ import annotations

import pytest

from redqueen.method.behaviour import behaviours
from redqueen.method.planting import seed_tasks as all_seed_tasks
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Kind, Task
from redqueen.run.recording.measures import signature_of
from redqueen.tasks.programs import parse
from redqueen.tasks.programs.coverage import functions_of, paths_of
from redqueen.tasks.programs.reached import reached_tree
from redqueen.tasks.python import PYTHON, seed_cells
from tools.write_seed_cells import cells


def test_what_some_seeds_cover_is_there(seed_tasks: dict[Kind, list[Task]], verifier: LocalVerifier) -> None:
    known = seed_cells()
    for task in seed_tasks["code_f"] + seed_tasks["code_o"]:
        tree = reached_tree(parse(task.program))
        assert PYTHON.shape(task.program) in known["programs"]
        assert paths_of(tree) <= known["paths"]
        assert functions_of(tree) <= known["functions"]
        assert signature_of(task) in known["signatures"]
    called = behaviours(seed_tasks["code_o"][::5], verifier)
    assert {behaviour.cell for behaviour in called.values()} <= known["behaviours"]


@pytest.mark.slow
def test_nothing_else_is_there(verifier: LocalVerifier) -> None:
    """If it fails, the seeds or a measure have changed: run `python tools/write_seed_cells.py`."""
    assert {
        name: set(found) for name, found in cells(all_seed_tasks(verifier, PYTHON), verifier).items()
    } == seed_cells()
