"""What the console shows, as values, and how it is cut into pages. Pure.

state      holds the cluster at one moment: brokers, partitions, groups, the quorum, moves, what could not be read.
replicas   decides the sign of each replica, and draws it as parts of its partition's offsets.
verdicts   decides what a page begins with.
selection  filters rows and cuts them into pages.
hosts      decides which addresses may be served, and which Host headers may ask.
documents  turns these values into JSON.
"""

from __future__ import annotations

from .documents import document_of
from .hosts import ListenRefusedError, allowed_hosts, check_listen
from .replicas import BarPart, Disk, OnDisk, PartKind, ReplicaBar, Sign, replica_bars
from .selection import PAGE_ROWS, Only, Page, Query, paged, query_of, selected
from .state import (
    Broker,
    Group,
    GroupLag,
    Lag,
    Move,
    Offsets,
    Overview,
    Partition,
    Plan,
    Prediction,
    Problem,
    Quorum,
    QuorumReplica,
    Topic,
    Wave,
    topics_of,
)

__all__ = [
    "PAGE_ROWS",
    "BarPart",
    "Broker",
    "Disk",
    "Group",
    "GroupLag",
    "Lag",
    "ListenRefusedError",
    "Move",
    "Offsets",
    "OnDisk",
    "Only",
    "Overview",
    "Page",
    "PartKind",
    "Partition",
    "Plan",
    "Prediction",
    "Problem",
    "Query",
    "Quorum",
    "QuorumReplica",
    "ReplicaBar",
    "Sign",
    "Topic",
    "Wave",
    "allowed_hosts",
    "check_listen",
    "document_of",
    "paged",
    "query_of",
    "replica_bars",
    "selected",
    "topics_of",
]
