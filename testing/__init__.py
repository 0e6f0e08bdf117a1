"""Conformance suites for plugin authors: subclass a suite, give it a fixture, run pytest.

remote_storage       checks a `RemoteStorageManager`.
remote_log_metadata  checks a `RemoteLogMetadataManager`.

A suite is imported when it is asked for: it needs pytest, which a plain installation does not bring.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .remote_log_metadata import RemoteLogMetadataConformance
    from .remote_storage import RemoteStorageConformance

__all__ = [
    "RemoteLogMetadataConformance",
    "RemoteStorageConformance",
]

_MODULES: Final = {
    "RemoteLogMetadataConformance": "remote_log_metadata",
    "RemoteStorageConformance": "remote_storage",
}


def __getattr__(name: str) -> object:
    """Return a suite. AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    suite: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return suite
