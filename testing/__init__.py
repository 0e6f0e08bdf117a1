"""A cluster for the tests of an application, a simulated one too, and conformance suites for the tests of a plugin.

cluster/             runs a real cluster in the process of a test (docs/testing.md).
pytest_plugin        makes it a fixture, `tierfetch_cluster`.
simulation/          runs an application in a simulated cluster, under faults (docs/simulate-your-app.md).
remote_storage       checks a `RemoteStorageManager`.
bootstrap_policy     checks a `BootstrapPolicy`.
replica_placement    checks a `ReplicaPlacement`.
replica_selector     checks a `ReplicaSelector`.
blocking             detects calls that block the event loop.
remote_log_metadata  checks a `RemoteLogMetadataManager`.

A name is imported when it is asked for: a suite needs pytest, which a plain installation does not bring, and a test
run that uses no cluster does not pay for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..doors import lazy_door

if TYPE_CHECKING:
    from .bootstrap_policy import BootstrapPolicyConformance
    from .cluster.configs import ClusterOptions
    from .cluster.local_cluster import InProcessCluster
    from .remote_log_metadata import RemoteLogMetadataConformance
    from .remote_storage import RemoteStorageConformance
    from .replica_placement import ReplicaPlacementConformance
    from .replica_selector import ReplicaSelectorConformance
    from .simulation.node import SimulatedNode
    from .simulation.run import SimulatedFailure, SimulatedRun, simulated

__all__ = [
    "BootstrapPolicyConformance",
    "ClusterOptions",
    "InProcessCluster",
    "RemoteLogMetadataConformance",
    "RemoteStorageConformance",
    "ReplicaPlacementConformance",
    "ReplicaSelectorConformance",
    "SimulatedFailure",
    "SimulatedNode",
    "SimulatedRun",
    "simulated",
]

_MODULES: Final = {
    "BootstrapPolicyConformance": "bootstrap_policy",
    "ClusterOptions": "cluster.configs",
    "InProcessCluster": "cluster.local_cluster",
    "RemoteLogMetadataConformance": "remote_log_metadata",
    "RemoteStorageConformance": "remote_storage",
    "ReplicaPlacementConformance": "replica_placement",
    "ReplicaSelectorConformance": "replica_selector",
    "SimulatedFailure": "simulation.run",
    "SimulatedNode": "simulation.node",
    "SimulatedRun": "simulation.run",
    "simulated": "simulation.run",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_door(__name__, _MODULES)
