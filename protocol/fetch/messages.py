"""Fetch requests and responses as version-independent values. What a version lacks has its default (`fetch.wire`)."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from ..errors import ErrorCode
from ..messages.base import Request
from ..messages.errors import WithError
from ..values import value
from ..wire.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from ..wire.primitives import BUFFER_TYPES, Part

INT32_MAX: Final = 2**31 - 1
HIGH_WATERMARK_UNKNOWN: Final = 2**63 - 1
"""A follower's high watermark where its version has no field for it."""
LOCAL_LOG_START_UNKNOWN: Final = -1
"""A follower's local log start where it is no thin replica (`extensions`)."""
NO_READ_REPLICA: Final = -1
"""Where a consumer is sent nowhere else."""

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


@value
class FetchPartition:
    """What is asked of one partition. -1: not known or not sent; `log_start_offset` is the follower's own."""

    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = INT32_MAX
    replica_directory_id: UUID | None = None
    high_watermark: int = HIGH_WATERMARK_UNKNOWN
    local_log_start_offset: int = LOCAL_LOG_START_UNKNOWN

    def can_raise_to(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether a follower's high watermark, which ends with its log at the latest, or its log start is below what it
        could be. Not to be asked of a consumer: some clients write a log start of 0 there.
        """
        if -1 < self.log_start_offset < log_start_offset:
            return True
        return self.high_watermark < high_watermark and self.high_watermark < self.fetch_offset


@value
class FetchTopic:
    """`topic` is empty from version 13 on, `topic_id` None before."""

    partitions: tuple[FetchPartition, ...]
    topic: str = ""
    topic_id: UUID | None = None


@value
class ForgottenTopic:
    """Partitions (by number) that leave the session."""

    partitions: tuple[int, ...]
    topic: str = ""
    topic_id: UUID | None = None


@value
class FetchRequest(Request["FetchResponse"]):
    """`replica_id` -1 is a consumer. The session defaults say "no session" (id 0, epoch -1)."""

    api_key: ClassVar[int] = 1
    max_wait_ms: int
    min_bytes: int
    topics: tuple[FetchTopic, ...]
    max_bytes: int = INT32_MAX
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = -1
    replica_epoch: int = -1
    session_id: int = 0
    session_epoch: int = -1
    forgotten_topics: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    cluster_id: str | None = None


class EpochEndOffset(NamedTuple):
    """The largest epoch below the asked one that the leader knows, and where it ended there."""

    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """What to fetch by FetchSnapshot instead."""

    end_offset: int
    epoch: int


class AbortedTransaction(NamedTuple):
    """A read_committed consumer drops this producer's records from `first_offset` to its next abort marker."""

    producer_id: int
    first_offset: int


@value
class FetchPartitionResponse:
    """`records`: a buffer, or a slice that the server sends and releases; a view of the frame in a decoded response."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = NO_READ_REPLICA
    records: Part | None = b""
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None


@value
class FetchTopicResponse:
    """Named as its request names it."""

    partitions: tuple[FetchPartitionResponse, ...]
    topic: str = ""
    topic_id: UUID | None = None


@value
class FetchResponse(WithError):
    """`error_code` is for the session or the request as a whole; versions below 7 cannot say it."""

    topics: tuple[FetchTopicResponse, ...]
    error_code: ErrorCode = ErrorCode.none
    session_id: int = 0
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def release_records(response: FetchResponse) -> None:
    """Release every slice of the response; idempotent."""
    for topic in response.topics:
        for partition in topic.partitions:
            release_records_of(partition)


def release_records_of(answer: FetchPartitionResponse) -> None:
    """Release the slice of one partition's answer; idempotent."""
    records = answer.records
    if records is not None and not isinstance(records, BUFFER_TYPES):
        records.release()
