"""Kinds of the language expr with a fault at the gate: a share of the admitted tasks has a wrong gold.

    redqueen train expr plugins=tools.faulty_gate game.kinds=expr_o_wrong10,expr_i_wrong10

The gate is where a proposal becomes a task with the outputs that the verifier computed. These kinds let some tasks
pass with another output than that. Seeds and held-out tasks are not proposed, so their outputs stay right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redqueen import plugins
from redqueen.base import streams
from redqueen.extras.expr.modes import EXPR, FindInputs, PredictValue
from redqueen.records import Pair, Proposal, Task, Verdict
from redqueen.tasks.kinds import Answer, InputCounts, TaskKind, Trial

SHARES = (10, 30)
"""Per cent of the tasks."""
_LARGEST_CHANGE = 9


class Faulty(TaskKind):
    """A kind of which `share` of the proposed tasks are recorded with wrong outputs."""

    share: float
    mode: str

    @property
    def held_out_as(self) -> str:
        # With names of their own these kinds would be tested on other inputs than the kinds that they stand beside.
        return self.mode

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        verdict, task = super().made(proposal, pairs, verdict, counts)
        rng = streams.python("faulty gate", proposal.id, proposal.draft.program, *proposal.draft.inputs)
        if task is None or rng.random() >= self.share:
            return verdict, task
        change = rng.randint(1, _LARGEST_CHANGE) * rng.choice((-1, 1))
        return verdict, replace(task, pairs=changed(task.pairs, change))


def changed(pairs: Sequence[Pair], change: int) -> tuple[Pair, ...]:
    """Returns pairs whose outputs are too large by `change`."""
    return tuple(Pair(pair.input, str(int(pair.output) + change)) for pair in pairs)


class FaultyPrediction(Faulty, PredictValue):
    """The value is asked, and the recorded one may be wrong."""


class FaultySearch(Faulty, FindInputs):
    """Inputs are asked that give the recorded value, which may be a wrong one."""

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        # Otherwise the recorded input would be run as well, and would tell that the task is at fault.
        return super().trial(replace(answer, inputs=()), text)


for _percent in SHARES:
    for _class, _mode in ((FaultyPrediction, "expr_o"), (FaultySearch, "expr_i")):
        _kind = _class(f"{_mode}_wrong{_percent}", EXPR)
        _kind.share = _percent / 100
        _kind.mode = _mode
        plugins.kind(_kind)
