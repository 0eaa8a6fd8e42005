"""What a run plays with: the policy with its base, and the verifier, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from redqueen import extras
from redqueen.config import Config
from redqueen.engine.model.base import BaseFacts, facts_of, load
from redqueen.engine.policy import MemberPolicy, open_policy
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Verifier
from redqueen.run.recording.measures import Spread
from redqueen.run.trainer import capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Players:
    """What a run plays with."""

    policy: MemberPolicy
    """Without members yet. The caller closes it."""
    base: BaseFacts
    verifier: Verifier
    spread: Spread = map
    """Computes a function of many tasks."""


@contextmanager
def open_players(config: Config, own: Verifier | None, warn: Callable[[str], None]) -> Generator[Players]:
    """Opens the policy and the verifier, and closes what judges in the end.

    `own` judges in place of the run's own verifier, and stays open; `warn` gets a line about each machine that is lost.
    """
    if config.cluster.address:
        with extras.find("cluster", "ray")(config, own, warn) as players:
            yield players
        return
    base = load(config.model)
    judge: AbstractContextManager[Verifier] = (
        nullcontext(own) if own is not None else LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed)
    )
    with judge as verifier:
        policy = open_policy(base, config.model, capacity(config), config.sampling, config.learning)
        yield Players(policy=policy, base=facts_of(base), verifier=verifier)
