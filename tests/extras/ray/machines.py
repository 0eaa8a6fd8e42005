"""Two machines of a cluster on this one: two raylets of Ray, each with one core, and a run of the toy game on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster as RayNodes

from redqueen.config import Config
from redqueen.engine.model.dimensions import token_counter
from redqueen.extras.ray.policy import ClusterPolicy
from redqueen.extras.ray.ray_cluster import Cluster
from redqueen.extras.ray.replica import ReplicaSettings
from redqueen.method.prompt_lengths import prompt_lengths
from redqueen.method.verifier import LocalVerifier
from redqueen.run.trainer import Trainer
from redqueen.store import checkpoint
from redqueen.store.directory import RunDirectory
from tests import toy


class Machines:
    """The machines of a test, and the policies that it opened on them."""

    def __init__(self) -> None:
        # Ray sends small results in a message. Here all stay where they were made, as those of real adapters do, and
        # are lost with their machine.
        system = {"max_direct_call_object_size": 0}
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": system}
        self.nodes = RayNodes(initialize_head=True, head_node_args=head)
        self.second: Any = self.nodes.add_node(num_cpus=1)
        self.cluster = Cluster(self.nodes.address)
        self.lines: list[str] = []
        self.policies: list[ClusterPolicy] = []

    def policy(self, config: Config) -> ClusterPolicy:
        lengths = prompt_lengths(config.play_settings, token_counter(config.model))
        settings = ReplicaSettings(config=config, capacity=config.capacity, lengths=lengths)
        policy = ClusterPolicy(self.cluster, settings, self.lines.append)
        self.policies.append(policy)
        return policy

    def trainer(self, config: Config, run: Path, verifier: LocalVerifier, *, begin: bool = True) -> Trainer:
        """A trainer of the toy game, new or resumed."""
        directory = RunDirectory(run)
        if begin:
            directory.create(config, {})
        policy = self.policy(config)
        trainer = Trainer(config, policy, policy.base, verifier, directory)
        toy.install(trainer.self_play)
        if begin:
            trainer.begin()
        else:
            trainer.restore(checkpoint.load(directory.checkpoints, directory.saved()[-1]))
        return trainer

    def lose_second(self) -> None:
        """Ends the second machine as a power cut would."""
        self.nodes.remove_node(self.second, allow_graceful=False)

    def add_second(self) -> None:
        """Adds a machine in place of the second one."""
        self.second = self.nodes.add_node(num_cpus=1)

    def end_policies(self) -> None:
        """Ends the replicas of all policies that are still open."""
        for policy in self.policies:
            policy.close()
        self.policies.clear()

    def close(self) -> None:
        self.end_policies()
        self.cluster.close()
        self.nodes.shutdown()
