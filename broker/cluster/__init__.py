"""The broker in its cluster: what it knows, what it reports to the controllers, and how it registers.

view                   declares the `ClusterView` port: what a broker knows of its cluster and what it may ask for.
quorum_view            implements that port over an observer of the metadata log.
lifecycle              registers the broker, sends heartbeats, and leaves in order (KIP-500, KIP-631).
controller_channel     finds the active controller and repeats a request until it is answered.
isr_changes            gathers the ISR changes of all led partitions into one AlterPartition at a time.
directory_assignments  reports in which log directory each replica is stored (AssignReplicasToDirs, KIP-858).
producer_ids           hands out the producer ids that the controller gave to this broker.
group_limits           checks a group's own configs against the broker's keys.
topic_config           derives a topic's default configuration from the broker's `log.*` keys.
"""

from __future__ import annotations

from .view import NO_LEADER, BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage

__all__ = [
    "NO_LEADER",
    "BrokerRegistration",
    "ClusterImage",
    "PartitionRegistration",
    "TopicImage",
]
