"""A cluster for the tests of an application, and conformance suites for the tests of a plugin.

cluster/             runs a real cluster in the process of a test (docs/testing.md).
pytest_plugin        makes it a fixture, `tierfetch_cluster`.
remote_storage       checks a `RemoteStorageManager`.
blocking             detects calls that block the event loop.
remote_log_metadata  checks a `RemoteLogMetadataManager`.

A name is imported when it is asked for: a suite needs pytest, which a plain installation does not bring, and a test
run that uses no cluster does not pay for one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .cluster.configs import ClusterOptions
    from .cluster.local_cluster import InProcessCluster
    from .remote_log_metadata import RemoteLogMetadataConformance
    from .remote_storage import RemoteStorageConformance

__all__ = [
    "ClusterOptions",
    "InProcessCluster",
    "RemoteLogMetadataConformance",
    "RemoteStorageConformance",
]

_MODULES: Final = {
    "ClusterOptions": "cluster.configs",
    "InProcessCluster": "cluster.local_cluster",
    "RemoteLogMetadataConformance": "remote_log_metadata",
    "RemoteStorageConformance": "remote_storage",
}


def __getattr__(name: str) -> object:
    """Return a suite, or what runs a cluster. AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    suite: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return suite
