"""The errors of a call, from the worker to the broker: what the plugin raised there is raised here, by the same class.

| raised in the worker              | raised in the broker                                    |
|-----------------------------------|---------------------------------------------------------|
| a class of `remote/storage.py`    | the same, or the nearest of them; with the same message |
| DamagedSegmentError, OSError      | the same, with errno and file                           |
| CancelledError                    | nothing: its caller has left                            |
| anything else                     | PluginCrashError, an internal error; the worker logs    |
|                                   | where it was raised                                     |
"""

from __future__ import annotations

import asyncio
from typing import Final

from ...remote import (
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    RemoteStorageTimeoutError,
)
from ..checked_source import DamagedSegmentError
from .core.messages import Failed

STORAGE_ERRORS: Final[dict[str, type[RemoteStorageError]]] = {
    "timeout": RemoteStorageTimeoutError,
    "refused": RemoteStorageRefusedError,
    "not found": RemoteResourceNotFoundError,
    "corrupt": RemoteStorageCorruptError,
    "storage": RemoteStorageError,
}
"""The base comes last: the first that fits is taken."""
DAMAGED: Final = "damaged"
OS: Final = "os"
CANCELLED: Final = "cancelled"
CRASH: Final = "crash"


class PluginCrashError(RuntimeError):
    """A plugin raised in the worker what no plugin should raise."""


def failure_of(call: int, error: BaseException) -> Failed:
    """Return what the worker says of an error."""
    if isinstance(error, asyncio.CancelledError):
        return Failed(call, CANCELLED, "cancelled")
    if isinstance(error, OSError):
        kind = DAMAGED if isinstance(error, DamagedSegmentError) else OS
        filename = None if error.filename is None else str(error.filename)
        return Failed(call, kind, error.strerror or str(error), error.errno, filename)
    for name, storage_error in STORAGE_ERRORS.items():
        if isinstance(error, storage_error):
            return Failed(call, name, str(error))
    return Failed(call, CRASH, f"{type(error).__name__}: {error}")


def error_of(failed: Failed) -> Exception:
    """Return what the broker raises."""
    if failed.kind in STORAGE_ERRORS:
        return STORAGE_ERRORS[failed.kind](failed.message)
    if failed.kind in (DAMAGED, OS):
        kind = DamagedSegmentError if failed.kind == DAMAGED else OSError
        if failed.errno is None:
            return kind(failed.message)
        return kind(failed.errno, failed.message, failed.filename)
    if failed.kind == CANCELLED:
        return RemoteStorageError("the call was cancelled in the worker")
    return PluginCrashError(f"the storage plugin, in the worker: {failed.message}")
