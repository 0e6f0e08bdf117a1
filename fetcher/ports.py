"""What a follower needs from outside: the leader as an endpoint, and the partition it replicates into.

Both raise what the errors of the project are: `KafkaError` for what a peer answered, `OSError` (timeouts included) for
the network and the disk. Every call of an endpoint ends within a deadline of the endpoint's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

from ..log.core import EpochEnd, LeaderEpochCache
from ..log.keeper import AdoptedState
from ..log.replica import LogOffsets
from ..protocol import TopicIdPartition
from ..remote.core import OffsetAndEpoch
from .core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch

Arrived = Callable[[TopicIdPartition, FetchedPartition], None]
"""Called with one partition's response while the responses of others are still on their way."""
Begins = Callable[[], None]
"""Called when the first bytes of a response are there."""


def pass_over() -> None:
    """Do nothing about the beginning of a response."""


class LeaderEndpoint(Protocol):
    """One broker, as the leader of any number of partitions. Questions do not wait behind a long fetch."""

    @property
    def broker_id(self) -> int: ...

    async def fetch(
        self,
        partitions: Mapping[TopicIdPartition, PartitionToFetch],
        touched: Collection[TopicIdPartition],
        limits: FetchLimits,
        arrived: Arrived,
        begins: Begins = pass_over,
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        """Fetch all of these and nothing else, in their order. What is not `touched` is asked for, or not, as before. A
        partition without news may be absent from the answer (KIP-227).

        `arrived` may be called with answers beforehand, also where the fetch fails afterwards; `begins` comes
        before them, and before a response in one piece is read.
        """

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        """(-1, -1) where the leader does not know; KafkaError with its error code otherwise (35: not supported)."""

    async def end_offset_for_leader_epoch(
        self, partition: TopicIdPartition, leader_epoch: int, epoch: int
    ) -> EpochEnd: ...

    async def close(self) -> None: ...


class FollowerPartition(Protocol):
    """One local replica while it follows. Calls with effects are made one at a time, and may fail; what it says about
    itself comes from memory at any time.
    """

    @property
    def topic_id_partition(self) -> TopicIdPartition: ...

    @property
    def leader_epoch(self) -> int:
        """As the cluster's metadata has it now: it may be ahead of the epoch that a fetcher was started for."""

    @property
    def offsets(self) -> LogOffsets: ...

    @property
    def epochs(self) -> LeaderEpochCache: ...

    @property
    def is_tiered(self) -> bool: ...

    @property
    def is_compacted(self) -> bool: ...

    @property
    def has_failed(self) -> bool:
        """Whether the log accepts nothing until its owner has opened it again: it may end beyond what its disk
        has, so to fetch from there would acknowledge what is lost.
        """

    @property
    def has_room(self) -> bool:
        """Whether the disk takes what is fetched; it may change at any time."""

    @property
    def is_never_in_isr(self) -> bool:
        """Whether this replica has not been in the ISR since it last adopted state from the tier."""

    def append(self, records: memoryview) -> Awaitable[object]:
        """Append the whole batches as they are; returns once the disk has taken them."""

    async def truncate_to(self, offset: int) -> None:
        """Cut the end; `offset` is at or above the local log start. Also drops epochs that have no data left."""

    async def start_at(self, offset: int) -> None:
        """Drop everything, and begin empty at `offset`."""

    async def adopt(self, state: AdoptedState) -> None:
        """Replace the replica by the adopted state, durably and at once (bootstrap rule 4)."""

    def update_high_watermark(self, offset: int) -> None:
        """Raise it to `offset`, which is at most the log end; a lower one changes nothing."""

    async def follow_log_start_offset(self, offset: int) -> None:
        """Raise the log start, durably, to `offset`, which is at most the log end; a lower one changes nothing. A high
        watermark below it rises with it.
        """
