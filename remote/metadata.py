"""The `RemoteLogMetadataManager` port (KIP-405): the shared, ordered record of what is in the tier."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ..protocol import OperatorError, RetriableError, TopicIdPartition
from .core.ledger import RemoteLogLedger
from .core.segment import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata


class RemoteLogMetadataError(RetriableError):
    """Metadata could not be written or read now; retriable with back-off."""


class MetadataMismatchError(OperatorError):
    """The cluster keeps its metadata in another way than this broker is configured for: an operator has to decide."""


class RemoteLogMetadataManager(Protocol):
    """Events of all partitions. A write returns once it is committed *and* applied to the local ledger, or at once if
    it repeats what the ledger says.

    A write that fails with RemoteLogMetadataError may still take effect later: the ledger shows it. The same event may
    be written again (it is idempotent); a copy that is given up is tried again under a new segment id, and the old one,
    if it shows up as COPY_SEGMENT_STARTED, is an orphan.
    """

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def assign(self, partitions: Collection[TopicIdPartition]) -> None:
        """Follow the events of these partitions too (leader or follower alike). Returns at once."""

    async def unassign(self, partitions: Collection[TopicIdPartition]) -> None:
        """Drop these partitions and their ledgers."""

    def ledger(self, partition: TopicIdPartition) -> RemoteLogLedger | None:
        """The partition's ledger once everything that was committed when it was assigned has been read, else None."""

    async def wait_newer(self, partition: TopicIdPartition, version: int) -> RemoteLogLedger:
        """Wait, without a limit of its own, until the ledger is ready and its `version` is above `version` (-1: until
        it is ready). RemoteLogMetadataError if the partition is not assigned, or unassigned meanwhile.
        """

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Write COPY_SEGMENT_STARTED. IllegalTransitionError if the id is known with another state or content."""

    async def confirm_started(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Write COPY_SEGMENT_STARTED once more, also where the ledger knows it: when it has been read back, so has all
        that was written of this segment before, by whomever. IllegalTransitionError if that took it to another state.
        """

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Write a later state. IllegalTransitionError if the ledger refuses it (nothing is written then)."""

    async def put_partition_delete(self, event: RemotePartitionDeleteMetadata) -> None: ...
