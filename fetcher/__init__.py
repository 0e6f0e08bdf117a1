"""How a follower keeps up with its leader: epoch validation, truncation, bootstrap from the tier, resume.

It knows a leader only as an endpoint, and the leader's half of the same protocol as pure functions.

core/              decides: the answer to a Fetch, the truncation point, where an empty follower begins.
ports              declares what a follower needs: the leader, and the partition it replicates into.
leader_endpoint    reaches a leader over the wire.
gathered_questions puts the questions of many replicas to a leader in few requests.
replica_fetcher    fetches any number of partitions from one leader.
followed_replica   holds one replica's state, back-off and costs.
wanted_partitions  keeps the list of partitions to fetch, and revisits only those that changed.
bootstrap_runner   runs one bootstrap: it asks the leader and the tier, prepares, and commits.
policy_registry    finds the bootstrap policy that is configured.
aux_state          rebuilds leader epochs and producer state from the tier (KIP-405).
embedded           follows a partition into a directory: the public calls of docs/library.md.
all_done           waits for several tasks.

Other folders import decisions from `fetcher.core`, and the rest from here, where a name is imported when it is asked
for: the shells would be loaded with every decision, by the quorum's core too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door

if TYPE_CHECKING:
    from .aux_state import AuxStateBuilder
    from .bootstrap_runner import Bootstrapper, BootstrapSettings
    from .embedded import EmbeddedFollower, FollowEndedError, follow, follow_with
    from .followed_replica import FollowedReplica, ReplicaProgress, ReplicaState
    from .leader_endpoint import NO_DETAILS, BrokerEndpoint, ReplicaDetails
    from .policy_registry import ConfiguredPolicies, load_bootstrap_policy
    from .ports import Arrived, FollowerPartition
    from .replica_fetcher import FetcherConfig, ReplicaFetcher

__all__ = [
    "NO_DETAILS",
    "Arrived",
    "AuxStateBuilder",
    "BootstrapSettings",
    "Bootstrapper",
    "BrokerEndpoint",
    "ConfiguredPolicies",
    "EmbeddedFollower",
    "FetcherConfig",
    "FollowEndedError",
    "FollowedReplica",
    "FollowerPartition",
    "ReplicaDetails",
    "ReplicaFetcher",
    "ReplicaProgress",
    "ReplicaState",
    "follow",
    "follow_with",
    "load_bootstrap_policy",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Arrived": "ports",
            "AuxStateBuilder": "aux_state",
            "BootstrapSettings": "bootstrap_runner",
            "Bootstrapper": "bootstrap_runner",
            "BrokerEndpoint": "leader_endpoint",
            "ConfiguredPolicies": "policy_registry",
            "EmbeddedFollower": "embedded",
            "FetcherConfig": "replica_fetcher",
            "FollowEndedError": "embedded",
            "FollowedReplica": "followed_replica",
            "FollowerPartition": "ports",
            "NO_DETAILS": "leader_endpoint",
            "ReplicaDetails": "leader_endpoint",
            "ReplicaFetcher": "replica_fetcher",
            "ReplicaProgress": "followed_replica",
            "ReplicaState": "followed_replica",
            "follow": "embedded",
            "follow_with": "embedded",
            "load_bootstrap_policy": "policy_registry",
        },
    )
