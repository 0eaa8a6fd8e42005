"""Writes redqueen/tasks/python/seeds/cells.json: what the seed programs cover (`redqueen.tasks.python`).

Run it after the seeds or a measure of coverage have changed: `python tools/write_seed_cells.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import redqueen.tasks.python
from redqueen.config import SandboxConfig
from redqueen.method.behaviour import behaviours
from redqueen.method.planting import seed_tasks
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Task, Verifier
from redqueen.run.recording.measures import signature_of
from redqueen.tasks.programs import parse
from redqueen.tasks.programs.coverage import functions_of, paths_of
from redqueen.tasks.programs.reached import reached_tree
from redqueen.tasks.python import CELLS, PYTHON

FILE = Path(redqueen.tasks.python.__file__).parent / "seeds" / CELLS


def cells(tasks: Sequence[Task], verifier: Verifier) -> dict[str, list[str]]:
    """Returns the cells of seed tasks with all their inputs, sorted, by the name of the coverage."""
    covered: dict[str, set[str]] = {"programs": set(), "paths": set(), "functions": set(), "signatures": set()}
    by_types: dict[tuple[str, str], Task] = {}
    for task in tasks:
        tree = reached_tree(parse(task.program))
        covered["programs"].add(PYTHON.shape(task.program))
        covered["paths"] |= paths_of(tree)
        covered["functions"] |= functions_of(tree)
        for made in _made_of(task):
            types = signature_of(made)
            covered["signatures"].add(types)
            # The inputs that a program is called on depend on the types of its own inputs alone.
            by_types.setdefault((task.program, types.rpartition("->")[0]), made)
    numbered = [replace(task, id=str(number)) for number, task in enumerate(by_types.values())]
    covered["behaviours"] = {behaviour.cell for behaviour in behaviours(numbered, verifier).values()}
    return {name: sorted(found) for name, found in covered.items()}


def _made_of(task: Task) -> Iterator[Task]:
    """The tasks that can be made of a seed: with each pair, and with all."""
    yield task
    for pair in task.pairs:
        yield replace(task, pairs=(pair,))


if __name__ == "__main__":
    with LocalVerifier(SandboxConfig()) as verifier:
        found = cells(seed_tasks(verifier, PYTHON), verifier)
    FILE.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {FILE}: " + ", ".join(f"{len(words)} {name}" for name, words in found.items()))
