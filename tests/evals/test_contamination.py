"""Which programs of benchmarks a run has played: what hides a program, and which seeds count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from redqueen.evals.contamination import notes, overlaps, plain_shape
from redqueen.store.directory import RunDirectory, write_json
from tests.cli.archived import ADD, archived
from tests.evals.made_up import loaded

RARE = (
    "def g(word, table):\n    best = [table.get(c, 0) ** 2 for c in word if c in table]\n    return sorted(best)[-3:]"
)


def test_annotations_and_their_imports_hide_no_program() -> None:
    body = "{}def total(x{}){}:\n    {}\n    return sum(y)"
    bare = body.format("", "", "", "y = x")
    written = body.format("from typing import List\nimport typing as t\n\n", ": List[t.Any]", " -> int", "y: List = x")
    assert plain_shape(written) == plain_shape(bare)
    # What a program computes with matters.
    used = "import math\ndef f(x):\n    return math.gcd(x, 3)"
    assert plain_shape(used) != plain_shape(used.replace("import math", "import cmath as math"))
    assert plain_shape("SELECT 1") == plain_shape("SELECT 1")


def test_a_run_with_own_seeds_is_compared_with_them(tmp_path: Path) -> None:
    run = RunDirectory(archived(tmp_path))
    one = replace(loaded("cruxeval-o", 2), programs=[f"from typing import List\n{ADD}", RARE])
    assert overlaps(str(run.path), [one])[0].alike == ("0",)
    file = tmp_path / "own.txt"
    file.write_text(f"# rare\n{RARE.replace('def g', 'def f')}\nf('a', {{}})\n")
    write_json(run.path / "config.json", run.config().override([f"game.seeds={file}"]).model_dump(mode="json"))
    (found,) = overlaps(str(run.path), [one])
    assert (found.alike, found.tasks < 10) == (("0", "1"), True)
    file.unlink()
    assert "were not compared with the benchmarks: game.seeds=" in notes([str(run.path)], [one])[1][0]
