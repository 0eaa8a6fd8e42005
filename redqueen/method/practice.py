"""Students alone: fixed tasks in the task bank, which students are posed in turn, in place of teachers' proposals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from redqueen.base import streams
from redqueen.method.judging import judge_proposals
from redqueen.method.matchmaking import BANK, Match
from redqueen.method.seeds import SeedError
from redqueen.method.self_play import SelfPlay, refuse_lost
from redqueen.records import Attempted, Completion, Draft, Progress, Proposal, Proposed, Rollout, Task, Verdict
from redqueen.tasks.kinds import find


def add_fixed_tasks(play: SelfPlay, tasks: Sequence[Task], source: str) -> int:
    """Adds tasks from elsewhere to the task bank, as far as the verifier finds them valid here.

    Returns how many it left out: invalid here, with other outputs, similar to reserved programs, or there already.
    Raises SeedError, which names the `source`, if one of the run's kinds has no task then.
    """
    proposals: list[Proposal] = []
    kinds = play.config.game.kinds
    with_program = [task for task in tasks if find(task.kind).has_program(task)]
    for number, task in enumerate(with_program):
        draft = Draft(task.program, tuple(pair.input for pair in task.pairs), task.message)
        proposals.append(Proposal(id=f"fixed-{number}", kind=task.kind, author=BANK, step=0, draft=draft))
    judged = judge_proposals(play.verifier, proposals)
    refuse_lost([verdict for verdict, _ in judged])
    added = 0
    # The file's outputs may be of another version of Python, or made up.
    valid = {task for task, (_, made) in zip(with_program, judged, strict=True) if made and made.pairs == task.pairs}
    for number, task in enumerate(tasks):
        # What a person expects is right by itself where no program gives it.
        if task.kind in kinds and (task in valid or not find(task.kind).has_program(task)):
            added += play.task_bank.add(replace(task, id=f"fixed-{number}", author=BANK, step=0), None)
    if added > len(play.task_bank):
        raise SeedError(f"{source} has more than game.bank_size={play.task_bank.capacity} tasks of a kind: raise it")
    there = {entry.task.kind for entry in play.task_bank.entries()}
    missing = [kind for kind in kinds if kind not in there]
    if missing:
        raise SeedError(
            f"{source} has no valid task of the kind {' and '.join(missing)}: choose other game.kinds, or other tasks"
        )
    return len(tasks) - added


def practise(
    play: SelfPlay, step: int, matches: Sequence[Match], progress: Progress
) -> tuple[list[Proposed], list[Attempted]]:
    """Returns the tasks of the task bank that each student is posed, and its attempts at them.

    A student is posed `game.proposals` tasks of each kind. It meets all of a kind before one comes again.
    """
    game = play.config.game
    posed: list[tuple[Match, Task]] = []
    for match in matches:
        for kind in game.kinds:
            order = partial(streams.python, play.seed, "practise", match.student, kind)
            drawn = play.task_bank.in_turn(kind, (step - 1) * game.proposals, game.proposals, order)
            # The id of a task names what becomes of it in this match.
            for number, task in enumerate(drawn):
                posed.append((match, replace(task, id=f"{match.id}.{kind}.{number}", step=step)))
    if not posed:
        raise SeedError("every task of the task bank was withdrawn, since it gave different outputs: choose others")
    attempted = play.attempt([(match.student, task) for match, task in posed], game.attempts, progress)
    return [_as_proposed(match, task) for match, task in posed], play.settle(attempted)


def _as_proposed(match: Match, task: Task) -> Proposed:
    """Returns a task of the task bank in the place of a proposal; nobody wrote it now, and nobody is paid for it."""
    completion = Completion(
        member=BANK, version=0, prompt_ids=(), token_ids=(), logprobs=(), text=task.program, finish_reason="stop"
    )
    return Proposed(
        id=task.id,
        match=match.id,
        student=match.student,
        prompt="",
        references=(),
        rollout=Rollout(member=BANK, role="teacher", kind=task.kind, group=task.id, completion=completion),
        verdict=Verdict("valid", "; ".join(pair.output for pair in task.pairs)),
        task=task,
    )
