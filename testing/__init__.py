"""A cluster for the tests of an application, and conformance suites for the tests of a plugin.

cluster/             runs a real cluster in the process of a test (docs/testing.md).
pytest_plugin        makes it a fixture, `tierfetch_cluster`.
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

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .bootstrap_policy import BootstrapPolicyConformance
    from .cluster.configs import ClusterOptions
    from .cluster.local_cluster import InProcessCluster
    from .remote_log_metadata import RemoteLogMetadataConformance
    from .remote_storage import RemoteStorageConformance
    from .replica_placement import ReplicaPlacementConformance
    from .replica_selector import ReplicaSelectorConformance

__all__ = [
    "BootstrapPolicyConformance",
    "ClusterOptions",
    "InProcessCluster",
    "RemoteLogMetadataConformance",
    "RemoteStorageConformance",
    "ReplicaPlacementConformance",
    "ReplicaSelectorConformance",
]

_MODULES: Final = {
    "BootstrapPolicyConformance": "bootstrap_policy",
    "ClusterOptions": "cluster.configs",
    "InProcessCluster": "cluster.local_cluster",
    "RemoteLogMetadataConformance": "remote_log_metadata",
    "RemoteStorageConformance": "remote_storage",
    "ReplicaPlacementConformance": "replica_placement",
    "ReplicaSelectorConformance": "replica_selector",
}


def __getattr__(name: str) -> object:
    """Return a suite, or what runs a cluster. AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    suite: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return suite
