"""What runs: a cluster or a quorum, their clients, the administrator, and the runner of seeds.

administrator    `Administrator` changes a cluster under faults, and repairs what only people can.
application      `ApplicationScenario` runs an application of others in a cluster, under faults.
client           `SimClient` is a client of the cluster, through the wire.
cluster          `ClusterScenario` runs controllers, brokers, a tiered topic, clients and an administrator.
cluster_clients  `ClusterClients` makes the producers and readers of the main topic.
cluster_nodes    `ClusterNodes` starts the nodes of a cluster, and shows what runs of them.
cluster_options  `ClusterOptions` is what a seed chooses beside its faults, and the configurations that follow.
cluster_state    It says what changed in the metadata, and what still keeps a cluster from being at rest.
cluster_voters   `ClusterVoters` changes the voters of a cluster's quorum, where a seed says so, and has them judged.
combined         `CombinedProcess` is a process with both roles on a simulated host.
controller_taps  It publishes heartbeats at the controllers' listeners, and holds requests of leaders up.
controllers      A controller's process on a simulated host, and a quorum's.
final_reads      `FinalReads` reads the main topic once a run is over.
lives            It has clients of a place follow one another.
looks/           Operators ask what they ask of a cluster at rest, and change something last.
operations/      A grammar of actions: rows that are drawn by weight, done, and replayed.
operator         `Operator` does what operators do at a moment that a seed chooses.
parties          `Parties` are the groups of a cluster: workers, members of a share group.
pipelined        `PipelinedProducer` keeps several idempotent batches of a partition in flight, as Java's does.
quorum           `QuorumScenario` runs a quorum alone: voters, an observer, appends, snapshots.
quorum_probes    `QuorumProbes` finds what a quorum does when nothing fails but a link.
report           `RunReport` is what one run came to, as values; it is written as JSON and printed.
runner           `run_seed` runs a seed, judges it, and shortens the schedule of one that failed.
sharing/         Members of a share group, under faults of their own.
strangers/       speak in the name of brokers and voters: impostors, ghosts, zombies.
tier_probes      `TierProbes` finds what consumers get of a tier that is slow.
upkeep           `Upkeep` restarts nodes as operators do: one, all brokers in turn, those whose disk is well again.
workers/         A group that consumes, transforms and produces, under faults of its own.
workload         The producers and readers of a run, and what they share.

What is exported here is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .application import ApplicationFailedError, ApplicationScenario, ClusterFailedError, Place, Play
    from .cluster_options import BROKERS, PORT
    from .report import REPORTS, RunReport
    from .runner import SCENARIOS, run_seed, shrink_failure

__all__ = [
    "BROKERS",
    "PORT",
    "REPORTS",
    "SCENARIOS",
    "ApplicationFailedError",
    "ApplicationScenario",
    "ClusterFailedError",
    "Place",
    "Play",
    "RunReport",
    "run_seed",
    "shrink_failure",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "ApplicationFailedError": "application",
            "ApplicationScenario": "application",
            "BROKERS": "cluster_options",
            "ClusterFailedError": "application",
            "PORT": "cluster_options",
            "Place": "application",
            "Play": "application",
            "REPORTS": "report",
            "RunReport": "report",
            "SCENARIOS": "runner",
            "run_seed": "runner",
            "shrink_failure": "runner",
        },
    )
