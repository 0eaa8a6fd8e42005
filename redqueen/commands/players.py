"""Opens what a run plays with: the policy with its base, and the verifier, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from redqueen.cluster.policy import ClusterPolicy
from redqueen.cluster.ray_cluster import Cluster
from redqueen.cluster.verifier import ClusterVerifier
from redqueen.config import Config
from redqueen.game.prompt_lengths import prompt_lengths
from redqueen.policy.model.base import BaseFacts, facts_of, load
from redqueen.policy.model.dimensions import token_counter
from redqueen.policy.policy import MemberPolicy, open_policy
from redqueen.recording.measures import Spread
from redqueen.records import Verifier
from redqueen.train import members
from redqueen.verifier import LocalVerifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Players:
    """What a run plays with."""

    policy: MemberPolicy
    """Without members yet. Whoever uses it closes it."""
    base: BaseFacts
    verifier: Verifier
    tier: str
    """How well the sandbox isolates."""
    spread: Spread = map
    """Computes a function of many tasks."""


@contextmanager
def open_players(config: Config, report: Callable[[str], None]) -> Generator[Players]:
    """Opens the policy and the verifier of a run, and closes the verifier in the end.

    `report` gets a line whenever a machine of a cluster is lost or joins. Raises UserError.
    """
    if config.cluster.address:
        with Cluster(config.cluster.address) as cluster, ClusterVerifier(cluster, config, report) as verifier:
            lengths = prompt_lengths(config, token_counter(config.model))
            policy = ClusterPolicy(cluster, config, members(config), lengths, report)
            yield Players(
                policy=policy, base=policy.base, verifier=verifier, tier=verifier.tier, spread=verifier.spread
            )
        return
    base = load(config.model)
    facts = facts_of(base)
    with LocalVerifier(config.sandbox, config.game.min_inputs, config.run.seed) as verifier:
        policy = open_policy(base, config.model, members(config), config.sampling, config.learning)
        yield Players(policy=policy, base=facts, verifier=verifier, tier=verifier.tier)
