"""Scores adapters side by side on the reserved programs that are reported: greedy, every program in every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redqueen.adapters.factors import Factors
from redqueen.adapters.initialisation import fresh, generator
from redqueen.adapters.peft_files import refit
from redqueen.config import Config
from redqueen.errors import AdapterError, UserError
from redqueen.evals.held_out import HeldOutEvaluation
from redqueen.evals.reserved_tasks import most_tasks, reserved_tasks, worked_examples
from redqueen.evals.targets import Entrant
from redqueen.game.prompts import prompts
from redqueen.game.reserved import Half
from redqueen.game.rewards import is_judged
from redqueen.intervals import Interval, interval, share
from redqueen.judging import Progress
from redqueen.policy.model.base import Base, fingerprint
from redqueen.policy.policy import Policy, open_policy
from redqueen.records import KINDS, Attempted, Kind, SamplingParams, Verifier

HALF: Half = "report"
# One seed for everybody: all evaluations pose the same tasks, whatever seed a run had.
SEED = 0
ANSWER_TOKENS = 128
"""The fewest tokens that an answer may have: room for the longest reserved program (89 tokens with the bundled model),
which a run's own limit may not leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one entrant solved."""

    target: str
    member: str
    solved: Mapping[Kind, int]
    judged: Mapping[Kind, int]
    """How many tasks got a verdict: all, but for faults of the machine."""

    @property
    def rate(self) -> Interval | None:
        """The share of all tasks that was solved, with Wilson's 95 % interval; None if nothing was judged."""
        return share(sum(self.solved.values()), sum(self.judged.values()))


def evaluate(
    base: Base, config: Config, entrants: Sequence[Entrant], verifier: Verifier, limit: int, progress: Progress
) -> list[Score]:
    """Returns the score of each entrant on the first `limit` tasks. All are sampled together, in mixed batches.

    Raises UserError if a run was made on other weights than `base` has, AdapterError if an adapter does not fit it.
    """
    weights = fingerprint(base.model)
    for entrant in entrants:
        if entrant.fingerprint not in (None, weights):
            raise UserError(f"{entrant.target} was made on other weights than {config.model.name} has")
    # One bank holds adapters of one rank. The largest fits all without a change of any adapter's update.
    ranks = [_rank(entrant, config) for entrant in entrants]
    model = config.model.model_copy(update={"rank": max(ranks)})
    with open_policy(base, model, len(entrants), config.sampling, config.learning) as policy:
        names = [f"{number}" for number in range(len(entrants))]
        for name, entrant in zip(names, entrants, strict=True):
            scale = model.alpha / model.rank
            policy.join(name, _fitted(entrant, policy, model.rank, scale), trained=False)
        attempted = _evaluation(config, policy, verifier, limit).attempt(names, progress)
    by_name: dict[str, list[Attempted]] = {name: [] for name in names}
    for attempt in attempted:
        by_name[attempt.rollout.member].append(attempt)
    return [score_of(entrant, by_name[name]) for name, entrant in zip(names, entrants, strict=True)]


def population_mean(scores: Sequence[Score]) -> Interval | None:
    """Returns the mean rate of a run's members with Student's interval over members; None without any."""
    rates = [score.rate.mean for score in scores if score.rate is not None]
    return interval(rates)


def all_tasks() -> int:
    """Returns how many tasks there are."""
    return most_tasks(HALF, KINDS)


def answer_tokens(config: Config) -> int:
    """Returns the most tokens of an answer. A run's own limit counts if it is larger: its members may think first."""
    return max(ANSWER_TOKENS, config.sampling.attempt_tokens)


def _evaluation(config: Config, policy: Policy, verifier: Verifier, limit: int) -> HeldOutEvaluation:
    return HeldOutEvaluation(
        tasks=reserved_tasks(HALF, KINDS, limit, SEED, verifier),
        examples=worked_examples(KINDS, config.game.shots, SEED, verifier),
        prompts=prompts(config.model.prompts, config.game),
        sampler=policy,
        verifier=verifier,
        sampling=SamplingParams(max_tokens=answer_tokens(config), temperature=0),
        seed=SEED,
    )


def _rank(entrant: Entrant, config: Config) -> int:
    if entrant.adapter is None:
        return config.model.rank
    return next(iter(entrant.adapter.values())).a.shape[1]


def _fitted(entrant: Entrant, policy: Policy, rank: int, scale: float) -> dict[str, Factors]:
    """Returns the entrant's update of the weights as an adapter of this rank and scale."""
    noise = generator(SEED, "fresh")
    shapes = policy.shapes()
    if entrant.adapter is None:
        # The matrix b of a fresh adapter is zero: it leaves the base as it is.
        return fresh(shapes, rank, noise)
    if entrant.adapter.keys() != shapes.keys():
        raise AdapterError(f"{entrant.target} was made for another base or other model.targets")
    own_rank = next(iter(entrant.adapter.values())).a.shape[1]
    return refit(entrant.adapter, entrant.alpha / own_rank, rank, scale, noise)


def score_of(entrant: Entrant, attempts: Sequence[Attempted]) -> Score:
    """Returns how many of an entrant's attempts were right; those that the machine lost are left out."""
    solved: Counter[Kind] = Counter()
    judged: Counter[Kind] = Counter()
    for attempt in attempts:
        kind = attempt.task.kind
        judged[kind] += is_judged(attempt.verdict)
        solved[kind] += attempt.verdict.status == "correct"
    return Score(
        target=entrant.target,
        member=entrant.member,
        solved={kind: solved[kind] for kind in KINDS},
        judged={kind: judged[kind] for kind in KINDS},
    )
