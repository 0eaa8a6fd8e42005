"""Estimates how long the prompts of a run's first step are.

Memory is planned before a run starts, so the estimate uses the seed programs only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from redqueen.base import streams
from redqueen.config import PlaySettings
from redqueen.method.prompts import Prompts, prompts
from redqueen.method.seeds import AUTHOR, SeedError
from redqueen.records import Kind, Pair, Prompt, PromptLengths, Task
from redqueen.tasks.kinds import find

CountTokens = Callable[[Prompt], int]
"""How many tokens the base's tokenizer makes of a prompt."""

# How many teachers' prompts are drawn for each kind, and how many seed programs at most, which stand for all.
_DRAWN = 100
_PROGRAMS = 400
# The share of prompts that are no longer than the estimate. The maximum would plan memory for one unusual prompt.
_QUANTILE = 0.95


def prompt_lengths(settings: PlaySettings, count_tokens: CountTokens) -> PromptLengths:
    """Returns the lengths, in tokens, that 95 of 100 prompts of the first step do not exceed.

    The kind with the longest prompts decides.

    The estimate runs no programs, so it takes an output to be as long as its input, and a teacher's task to be as long
    as a teacher may write. Programs grow during a run, so later prompts may be longer.
    """
    game = settings.game
    prompts_of = prompts(settings.prompts, game)
    proposals: list[int] = []
    attempts: list[int] = []
    for kind in game.kinds:
        # A stream of its own: the estimate must not move any draw of the run.
        rng = streams.python(settings.seed, "lengths", kind)
        wholes = seed_programs(game.seeds, kind)
        # To read the inputs of all takes longer than the first step of a small run.
        wholes = rng.sample(wholes, min(_PROGRAMS, len(wholes)))
        tasks = [task for whole in wholes if (task := find(kind).of_program(whole)) is not None]
        # A kind whose seeds make no tasks begins without references, and starts from programs of other kinds.
        asked = _proposal_prompts(game.references, prompts_of, kind, tasks, tasks or wholes, rng)
        proposals.append(_long(asked, count_tokens))
        if tasks:
            attempts.append(_long(_attempt_prompts(game.shots, prompts_of, tasks, rng), count_tokens))
    # A student is also shown what a teacher wrote, which may be as long as a proposal can be.
    return PromptLengths(proposal=max(proposals), attempt=max([*attempts, settings.sampling.proposal_tokens]))


def _proposal_prompts(
    count: int, prompts_of: Prompts, kind: Kind, tasks: Sequence[Task], starts: Sequence[Task], rng: random.Random
) -> list[Prompt]:
    # All references are drawn before the first start. Another order of draws would give another estimate for the same
    # configuration.
    references = [rng.sample(tasks, min(count, len(tasks))) for _ in range(_DRAWN)]
    drawn: list[Prompt] = []
    for shown in references:
        start = rng.choice(starts) if find(kind).starts_from_program else None
        drawn.append(prompts_of.propose(kind, shown, start))
    return drawn


def _attempt_prompts(shots: int, prompts_of: Prompts, tasks: Sequence[Task], rng: random.Random) -> list[Prompt]:
    return [prompts_of.attempt(task, rng.sample(tasks, min(shots, len(tasks)))) for task in tasks]


def _long(asked: Sequence[Prompt], count_tokens: CountTokens) -> int:
    """Returns the quantile of the prompts' lengths, in tokens."""
    lengths = sorted(count_tokens(prompt) for prompt in asked)
    return lengths[int(_QUANTILE * len(lengths))]


def seed_programs(source: str | None, kind: Kind) -> list[Task]:
    """Returns the seed programs of a kind's language, with all their inputs.

    Each input also stands for its output, which only the sandbox could tell.
    """
    wanted = find(kind)
    try:
        drafts = wanted.language.seeds(source)
    except SeedError:
        # A run can be resumed without the file that it began with, as its task bank is in the checkpoint.
        drafts = wanted.language.seeds()
    return [
        Task(
            id=f"seed-{number}",
            kind=wanted.language.name,
            author=AUTHOR,
            step=0,
            program=draft.program,
            pairs=tuple(Pair(text, text) for text in draft.inputs),
            message=draft.message,
        )
        for number, draft in enumerate(drafts)
    ]
