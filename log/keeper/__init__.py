"""All logs of one node in their directories.

manager                opens, creates, deletes and closes the logs of a node. Begin here.
log_directory          is one log directory: its owner, its logs, its checkpoints.
directory_checkpoints  writes where each log begins, and up to where it is flushed, committed and compacted.
upkeep                 flushes, checkpoints, trims, compacts, probes and removes in the background.
replace_replica        replaces a replica by one that was rebuilt from the tier (bootstrap rule 4).
future_logs            moves a log to another log directory, by way of a future log.
side_directories       builds directories beside a partition's own, and resolves them after a crash.
damage                 puts a damaged log aside without deleting a byte.
"""

from __future__ import annotations

from .damage import damage_of, put_damaged_aside
from .future_logs import advance, create_future, drop_future, pending_step, switch
from .log_directory import HeldLock, LogDirectory, LogServices
from .manager import LogManager
from .replace_replica import adopt
from .side_directories import AdoptedState
from .upkeep import UpkeepSettings

__all__ = [
    "AdoptedState",
    "HeldLock",
    "LogDirectory",
    "LogManager",
    "LogServices",
    "UpkeepSettings",
    "adopt",
    "advance",
    "create_future",
    "damage_of",
    "drop_future",
    "pending_step",
    "put_damaged_aside",
    "switch",
]
