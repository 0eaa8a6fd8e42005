"""How long the prompts of a run's first step are, from the seed programs alone: memory is estimated before a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from redqueen import streams
from redqueen.config import Config
from redqueen.game.prompts import Prompts, prompts
from redqueen.game.seeds import AUTHOR, seeds
from redqueen.records import Kind, Pair, Prompt, PromptLengths, Task

CountTokens = Callable[[Prompt], int]
"""How many tokens the base's tokenizer makes of a prompt."""

# teachers' prompts drawn of each kind
_DRAWN = 100
# the share of prompts that are no longer than the estimate
_QUANTILE = 0.95


def prompt_lengths(config: Config, count_tokens: CountTokens) -> PromptLengths:
    """The lengths that 95 of 100 prompts of the first step do not exceed, of the kind whose prompts are longest.

    Only the sandbox knows outputs, so an output is taken to be as long as its input. A task that a teacher wrote is
    taken to be as long as the teacher's limit. Programs grow in a run, so later prompts may be longer.
    """
    prompts_of = prompts(config.model.prompts, config.game)
    proposals: list[int] = []
    attempts: list[int] = []
    for kind in config.game.kinds:
        tasks = _seed_tasks(kind)
        rng = streams.python(config.run.seed, "lengths", kind)
        proposals.append(_long(_proposal_prompts(config, prompts_of, kind, tasks, rng), count_tokens))
        attempts.append(_long(_attempt_prompts(config, prompts_of, tasks, rng), count_tokens))
    return PromptLengths(proposal=max(proposals), attempt=max(*attempts, config.sampling.proposal_tokens))


def _proposal_prompts(
    config: Config, prompts_of: Prompts, kind: Kind, tasks: Sequence[Task], rng: random.Random
) -> list[Prompt]:
    game = config.game
    starts = [t for t in tasks if not game.start_lines or len(t.program.splitlines()) <= game.start_lines]
    # all references come first: the estimate must not change, so neither may the order of the draws
    references = [rng.sample(tasks, min(game.references, len(tasks))) for _ in range(_DRAWN)]
    return [prompts_of.propose(kind, shown, rng.choice(starts) if kind == "code_f" else None) for shown in references]


def _attempt_prompts(config: Config, prompts_of: Prompts, tasks: Sequence[Task], rng: random.Random) -> list[Prompt]:
    shots = min(config.game.shots, len(tasks))
    return [prompts_of.attempt(task, rng.sample(tasks, shots)) for task in tasks]


def _long(asked: Sequence[Prompt], count_tokens: CountTokens) -> int:
    lengths = sorted(count_tokens(prompt) for prompt in asked)
    return lengths[int(_QUANTILE * len(lengths))]


def _seed_tasks(kind: Kind) -> list[Task]:
    """The seed programs as tasks, each input standing in for its output."""
    tasks: list[Task] = []
    for number, draft in enumerate(seeds()):
        pairs = tuple(Pair(text, text) for text in draft.inputs)
        task = Task(
            id=f"seed-{number}",
            kind="code_f",
            author=AUTHOR,
            step=-1,
            program=draft.program,
            pairs=pairs,
            message=draft.message,
        )
        tasks.append(task.as_kind(kind))
    return tasks
