"""Conformance suites for plugin authors: subclass a suite, give it a fixture, run pytest.

remote_storage       checks a `RemoteStorageManager`.
remote_log_metadata  checks a `RemoteLogMetadataManager`.
"""

from __future__ import annotations

from .remote_log_metadata import RemoteLogMetadataConformance
from .remote_storage import RemoteStorageConformance

__all__ = [
    "RemoteLogMetadataConformance",
    "RemoteStorageConformance",
]
