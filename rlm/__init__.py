"""The remote log manager: which segments to copy, which remote ones to expire, which local ones to delete.

It is given leadership and offsets; `core/plan.py` decides, the rest performs.

core/              decides. Begin with `core/plan.py`.
worker/            copies in a process of its own, of low priority.
manager            runs one task for each tiered partition, within shared limits.
partition_task     looks, plans and performs, again and again, for one partition.
copier             copies one closed segment to the tier.
checked_source     checks every batch on its way to the tier.
expiry             deletes from the tier and locally, verifies uploads, and raises the log start.
pending_deletions  remembers the remote segments of deleted topics until they are gone.
embedded           tiers a log of a program's own: the public calls of docs/library.md.
reader             reads the tier for consumers.
chunks             fetches aligned chunks ahead of readers, and caches them.
runs               fetches chunks, one alone or several by one request.
times              finds offsets by time across both tiers (bootstrap rule 10).
deadlines          puts a deadline around every remote call.
rate_limit         shares `copy` and `fetch` rate limits among tasks.
config             declares limits under Kafka's keys.
metrics            counts copies, fetches and errors, and measures the copy lag.

Other folders import what is exported here.
"""

from __future__ import annotations

from .chunks import RemoteChunks
from .config import RemoteLogManagerConfig
from .core.view import TierMode, TierPolicy
from .core.warming import Missing, ThinView, ToWarm, to_warm
from .embedded import TieredLog, tier_log
from .manager import RemoteLogManager
from .metrics import CopyLag, RemoteLogCounters
from .pending_deletions import PendingDeletions
from .rate_limit import LimitedReads, RateLimit
from .reader import RemoteLogReader, RemoteRead, RemoteRecords
from .times import OffsetsByTime

__all__ = [
    "CopyLag",
    "LimitedReads",
    "Missing",
    "OffsetsByTime",
    "PendingDeletions",
    "RateLimit",
    "RemoteChunks",
    "RemoteLogCounters",
    "RemoteLogManager",
    "RemoteLogManagerConfig",
    "RemoteLogReader",
    "RemoteRead",
    "RemoteRecords",
    "ThinView",
    "TierMode",
    "TierPolicy",
    "TieredLog",
    "ToWarm",
    "tier_log",
    "to_warm",
]
