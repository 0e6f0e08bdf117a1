"""The values of one Fetch: what a follower requests of one partition, and what the leader responds. Pure."""

from __future__ import annotations

from ...log.core import EpochEnd
from ...protocol import ErrorCode, TopicIdPartition, value

NO_RECORDS = memoryview(b"")


@value
class PartitionToFetch:
    """A follower's position: it has everything in [log_start_offset, fetch_offset). Epochs are -1 where absent."""

    partition: TopicIdPartition
    fetch_offset: int
    log_start_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    max_bytes: int


@value
class FetchedPartition:
    """The leader's answer for one partition. `records` are whole batches except for a possibly torn last one, and stay
    as they are for as long as they are referred to; offsets are -1 where the leader did not fill them.
    """

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEnd | None = None
    records: memoryview = NO_RECORDS

    @property
    def agrees(self) -> bool:
        """Whether its records can be appended, and its offsets followed: almost always."""
        return self.error is ErrorCode.none and self.diverging_epoch is None


@value
class FetchLimits:
    """`replica.fetch.wait.max.ms`, `.min.bytes`, `.response.max.bytes`."""

    wait_max_ms: int
    min_bytes: int
    response_max_bytes: int
