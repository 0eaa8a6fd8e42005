"""Opens a run's policy and verifier on the machines of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from redqueen.config import Config, PlaySettings
from redqueen.engine.model.dimensions import token_counter
from redqueen.extras.ray.policy import ClusterPolicy
from redqueen.extras.ray.ray_cluster import Cluster
from redqueen.extras.ray.replica import ReplicaSettings
from redqueen.extras.ray.verifier import ClusterVerifier
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.records import Verifier
from redqueen.run.recording.measures import Spread
from redqueen.run.session import Players


@contextmanager
def open_players(config: Config, own: Verifier | None, warn: Callable[[str], None]) -> Generator[Players]:
    """Opens the policy and the verifier (`redqueen.run.session.open_players`)."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(config.cluster.address))
        verifier = own
        spread: Spread = map
        if verifier is None:
            verifier = stack.enter_context(
                ClusterVerifier(cluster, config.sandbox, config.game.min_inputs, config.run.seed, config.plugins, warn)
            )
            spread = verifier.spread
        lengths = prompt_lengths(PlaySettings.of(config), token_counter(config.model))
        settings = ReplicaSettings(config=config, capacity=config.capacity, lengths=lengths)
        policy = ClusterPolicy(cluster, settings, warn)
        yield Players(policy=policy, base=policy.base, verifier=verifier, spread=spread)
