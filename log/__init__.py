"""What one replica's local log is: segments, indexes, epochs, producer state, checkpoints, recovery.

It knows no other node and no remote store.

partition_log  is one replica's log behind one class. Begin here.
in_order       keeps steps in order that not all of them take.
embedded       is a log for a program without a broker: the public calls of docs/library.md.
replica/       holds the parts of that class: append, read, trim, truncate, recover.
core/          holds the formats and rules that need no disk.
segment/       is one segment's files, and the list of a log's segments.
disk/          declares the `Disk` port and implements it on the operating system.
keeper/        keeps all logs of one node in their directories.
cleaner/       compacts logs.

Other folders import what a room exports from the room. What is exported here is imported when it is asked for: the
whole log would be loaded for the format of one checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door

if TYPE_CHECKING:
    from .embedded import (
        EmbeddedLog,
        LogSummary,
        check_owner,
        open_log,
        open_log_with,
        partition_log_of,
        records_from,
        verify_log,
        verify_log_on,
    )
    from .in_order import InOrder
    from .partition_log import LogAppendInfo, LogLocation, PartitionLog, TimestampAndOffset

_EMBEDDED = (
    *("EmbeddedLog", "LogSummary", "check_owner", "open_log", "open_log_with", "partition_log_of", "records_from"),
    *("verify_log", "verify_log_on"),
)
_PUBLIC = dict.fromkeys(_EMBEDDED, "embedded")
_INNER = {name: "partition_log" for name in ("LogAppendInfo", "LogLocation", "PartitionLog", "TimestampAndOffset")}
_INNER["InOrder"] = "in_order"

__all__ = [
    "EmbeddedLog",
    "InOrder",
    "LogAppendInfo",
    "LogLocation",
    "LogSummary",
    "PartitionLog",
    "TimestampAndOffset",
    "check_owner",
    "open_log",
    "open_log_with",
    "partition_log_of",
    "records_from",
    "verify_log",
    "verify_log_on",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(__name__, _PUBLIC | _INNER)
