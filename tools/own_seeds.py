r"""Prints the 32 seed expressions that runs on 32 tasks draw, as a file of seeds: for a start that has seen no others.

    python -m tools.own_seeds 0 > own-32.txt
    redqueen warm-start adapters/own-32 expr game.kinds=expr_o game.seeds=own-32.txt model.workers=1 \
        --steps 150,60 --proposals 160

The argument is the run's seed. `docs/reports/OWN_TASKS.md` says what such a start is for.
"""

from __future__ import annotations

import sys

from redqueen.base import streams
from redqueen.extras.expr.modes import EXPR
from tools.experiments import OWN_TASKS


def main() -> None:
    """Prints the file. The draw is that of `redqueen.method.planting`."""
    drafts = EXPR.seeds()
    chosen = streams.python(int(sys.argv[1]), "seed tasks").sample(range(len(drafts)), OWN_TASKS)
    for number in sorted(chosen):
        calls = [f"f({arguments})" for arguments in drafts[number].inputs]
        print("# an expression", drafts[number].program, *calls, "", sep="\n")


if __name__ == "__main__":
    main()
