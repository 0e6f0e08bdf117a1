"""Fetch requests and responses as values, and their incremental sessions (KIP-227). Pure.

messages         declares requests and responses, independent of their version.
wire             encodes and decodes them, versions 4-18.
session          is a follower's half of a fetch session.
leader_sessions  is the leader's half: what it remembers of each fetcher.
arrival          yields each partition's answer while the response is still arriving.

Other folders import what is exported here. It is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door

if TYPE_CHECKING:
    from .arrival import ArrivedAnswer
    from .leader_sessions import AskedPartition, FetchContext, FetchSessionCache, LeaderSession, PartitionKey
    from .messages import (
        HIGH_WATERMARK_UNKNOWN,
        LOCAL_LOG_START_UNKNOWN,
        NO_READ_REPLICA,
        READ_COMMITTED,
        READ_UNCOMMITTED,
        AbortedTransaction,
        EpochEndOffset,
        FetchPartition,
        FetchPartitionResponse,
        FetchRequest,
        FetchResponse,
        FetchTopic,
        FetchTopicResponse,
        SnapshotId,
    )
    from .session import SESSION_ID_MAX, FetchSession, is_same_partition
    from .wire import RACK_SINCE

__all__ = [
    "HIGH_WATERMARK_UNKNOWN",
    "LOCAL_LOG_START_UNKNOWN",
    "NO_READ_REPLICA",
    "RACK_SINCE",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "SESSION_ID_MAX",
    "AbortedTransaction",
    "ArrivedAnswer",
    "AskedPartition",
    "EpochEndOffset",
    "FetchContext",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSession",
    "FetchSessionCache",
    "FetchTopic",
    "FetchTopicResponse",
    "LeaderSession",
    "PartitionKey",
    "SnapshotId",
    "is_same_partition",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "AbortedTransaction": "messages",
            "ArrivedAnswer": "arrival",
            "AskedPartition": "leader_sessions",
            "EpochEndOffset": "messages",
            "FetchContext": "leader_sessions",
            "FetchPartition": "messages",
            "FetchPartitionResponse": "messages",
            "FetchRequest": "messages",
            "FetchResponse": "messages",
            "FetchSession": "session",
            "FetchSessionCache": "leader_sessions",
            "FetchTopic": "messages",
            "FetchTopicResponse": "messages",
            "HIGH_WATERMARK_UNKNOWN": "messages",
            "LOCAL_LOG_START_UNKNOWN": "messages",
            "LeaderSession": "leader_sessions",
            "NO_READ_REPLICA": "messages",
            "PartitionKey": "leader_sessions",
            "RACK_SINCE": "wire",
            "READ_COMMITTED": "messages",
            "READ_UNCOMMITTED": "messages",
            "SESSION_ID_MAX": "session",
            "SnapshotId": "messages",
            "is_same_partition": "session",
        },
    )
