"""The composition root: it wires a node together. It owns no rule that a folder below could own.

node              composes one broker, and fixes the order in which its parts start and stop.
cluster/          is the broker's view of its cluster, and its reports to the controllers.
replicas/         makes the hosted replicas follow the cluster image: logs, roles, fetchers.
handlers/         answers requests, one module for each family of APIs.
quotas/           applies the quotas of clients to their requests and connections.
coordinator/      is what all coordinators run on: roles, loading, writing, timers.
groups/           coordinates consumer groups.
transactions/     coordinates transactions.
share/            gives the records of led partitions to the members of share groups.
core/             holds the decisions that need only values.
config/           reads the configuration file.
peers             reaches other brokers: clients, and how a fetcher of one leader is made.
tier              starts the two tier plugins and what works on them.
metadata_topic    reads and writes `__remote_log_metadata` through the leaders of its partitions.
listener_reload   follows the dynamic configs of listeners.
combined          runs a controller and a broker in one process.
embedded          runs a broker in a program of one's own: the public calls of docs/library.md.
environment       names what a node takes from its machine, so that a simulation can replace it.
shared_lock       shares the lock of a log directory between the logs and the metadata log.
metrics           registers the metrics of docs/metrics.md.
kafka_names       repeats totals under the names that Kafka's have.
node_process      reports what every process has: memory, descriptors, pauses.
pauses            bounds the pauses of the garbage collector, and measures those of the event loop.
metrics_endpoint  answers /metrics, /health and /ready.
http_endpoint     serves a node's own HTTP: connections, TLS, passwords, limits.

Other folders import what is exported here. It is imported when it is asked for: a controller needs little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door

if TYPE_CHECKING:
    from .combined import CombinedConfig, only_of_controllers, open_combined, parse_combined
    from .embedded import EmbeddedBroker, join_cluster, open_server
    from .environment import NodeEnvironment
    from .metadata_topic import MetadataTopicReader
    from .metrics_endpoint import monitoring_endpoint
    from .node import Broker, StartError, open_broker
    from .node_process import process_metrics
    from .pauses import PAUSES
    from .tier import Tier, manager_config

__all__ = [
    "PAUSES",
    "Broker",
    "CombinedConfig",
    "EmbeddedBroker",
    "MetadataTopicReader",
    "NodeEnvironment",
    "StartError",
    "Tier",
    "join_cluster",
    "manager_config",
    "monitoring_endpoint",
    "only_of_controllers",
    "open_broker",
    "open_combined",
    "open_server",
    "parse_combined",
    "process_metrics",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Broker": "node",
            "CombinedConfig": "combined",
            "EmbeddedBroker": "embedded",
            "MetadataTopicReader": "metadata_topic",
            "NodeEnvironment": "environment",
            "PAUSES": "pauses",
            "StartError": "node",
            "Tier": "tier",
            "join_cluster": "embedded",
            "manager_config": "tier",
            "monitoring_endpoint": "metrics_endpoint",
            "only_of_controllers": "combined",
            "open_broker": "node",
            "open_combined": "combined",
            "open_server": "embedded",
            "parse_combined": "combined",
            "process_metrics": "node_process",
        },
    )
