"""Copies one closed segment to the tier, under an id that no earlier attempt had.

    effect                                     if it fails, hangs, or the process dies here
    -----------------------------------------  ----------------------------------------------------------------------
    1 COPY_SEGMENT_STARTED is committed        nothing, or a started segment without objects
    2 log, indexes, snapshot, epochs uploaded  a started segment with some of its objects; a damaged batch in the log
                                               fails the copy
    3 the store states the size of the log     the same; a size that differs fails the copy
    4 COPY_SEGMENT_FINISHED is committed       started, or finished if only the answer was lost: the ledger shows

Rules:

* Only 4 makes the segment readable and lets the highest remote offset advance.
* `is_wanted` is asked between 1 and 2 and between 3 and 4, when everything that stands before the started event in the
  remote log metadata has been read: where another leader copies or has copied these offsets, this attempt ends.
* A failed attempt is not cleaned up here: the ledger shows a started segment that nobody works on, and the plan has it
  deleted, in the same way after an error, a cancellation or a crash.
* Unless another leader has given up on the attempt meanwhile: it may have deleted before our upload ended, and no
  ledger will name what we stored. Then we delete it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ..log import PartitionLog
from ..log.core import LeaderEpochCache
from ..log.segment import LogSegment
from ..protocol import OUTSIDE
from ..remote import (
    IndexType,
    LogSegmentData,
    RemoteLogMetadataError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
)
from ..remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState
from .checked_source import copy_checked
from .core.view import LocalSegment, PartitionView
from .deadlines import MetadataWriter
from .rate_limit import RateLimit


def describe_copy(
    view: PartitionView, segment: LocalSegment, segment_id: RemoteLogSegmentId, *, txn_index_empty: bool, now_ms: int
) -> RemoteLogSegmentMetadata:
    """The event that starts a copy of `segment`."""
    epochs = LeaderEpochCache(view.epochs).range(segment.base_offset, segment.end_offset)
    assert epochs, f"{segment_id}: no leader epoch is known for {segment}; the epochs are {view.epochs}"
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=segment.base_offset,
        end_offset=segment.end_offset - 1,
        max_timestamp_ms=segment.max_timestamp_ms,
        broker_id=view.broker_id,
        event_timestamp_ms=now_ms,
        segment_size_in_bytes=segment.size_bytes,
        segment_leader_epochs=epochs,
        txn_index_empty=txn_index_empty,
    )


LOG_KIND: Final = "log"
REQUIRED: Final = {kind.value for kind in IndexType if kind is not IndexType.TRANSACTION} | {LOG_KIND}


class CopySupersededError(RemoteLogMetadataError):
    """The copy is abandoned: another leader makes it, or was faster."""


class SegmentCopier:
    """See the module's docstring. One for all partitions of a broker."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        writer: MetadataWriter,
        rate_limit: RateLimit,
        *,
        custom_metadata_max_bytes: int,
    ) -> None:
        """`storage` keeps deadlines (`WatchedStorage`)."""
        self._storage = storage
        self._writer = writer
        self._rate_limit = rate_limit
        self._custom_metadata_max_bytes = custom_metadata_max_bytes

    async def admit(self, size_bytes: int) -> None:
        """Wait until a segment of this size may be copied; afterwards look whether it is still to be."""
        await self._rate_limit.acquire(size_bytes)

    async def copy(
        self, segment: RemoteLogSegmentMetadata, data: LogSegmentData, is_wanted: Callable[[], bool]
    ) -> None:
        """Returns once the segment is finished. RemoteStorageError, RemoteLogMetadataError, OSError of the local files:
        look again, and try under a new id; IllegalTransitionError: another leader was faster.
        """
        assert data.log.size == segment.segment_size_in_bytes, (segment, data.log.size)
        await self._writer.start_copy(segment)
        try:
            _check_wanted(segment, is_wanted)
            custom_metadata = await self._upload(segment, data)
            _check_wanted(segment, is_wanted)
            await self._writer.update(segment.segment_id, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, custom_metadata)
        except OUTSIDE:
            if self._writer.is_given_up(segment.segment_id):
                await self._storage.delete_log_segment_data(segment)
            raise

    async def _upload(self, segment: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        custom_metadata = await copy_checked(self._storage, segment, data)
        self._check_custom_metadata(segment, custom_metadata)
        await self._verify(segment)
        return custom_metadata

    async def _verify(self, segment: RemoteLogSegmentMetadata) -> None:
        stored = await self._storage.log_segment_size(segment)
        if stored != segment.segment_size_in_bytes:
            found = "nothing" if stored is None else f"{stored} bytes"
            raise RemoteStorageCorruptError(
                f"{segment.segment_id}: {segment.segment_size_in_bytes} bytes were uploaded, but the tier holds {found}"
            )

    def _check_custom_metadata(self, segment: RemoteLogSegmentMetadata, custom_metadata: bytes | None) -> None:
        if custom_metadata is not None and len(custom_metadata) > self._custom_metadata_max_bytes:
            raise RemoteStorageError(
                f"{segment.segment_id}: the storage plugin returned {len(custom_metadata)} bytes of custom metadata; "
                f"remote.log.metadata.custom.metadata.max.bytes is {self._custom_metadata_max_bytes}"
            )


def _check_wanted(segment: RemoteLogSegmentMetadata, is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise CopySupersededError(
            f"{segment.segment_id}: the offsets {segment.start_offset} to"
            f" {segment.end_offset} are being copied by another "
            f"leader, or no longer need to be copied; giving up this attempt"
        )


@asynccontextmanager
async def open_segment_data(log: PartitionLog, segment: LogSegment) -> AsyncIterator[LogSegmentData]:
    """Hold what one upload of the closed `segment` needs until the end. OSError if a part of it is missing.

    | object                 | from                                                                        |
    |------------------------|-----------------------------------------------------------------------------|
    | log, offset, timestamp | the segment as it is                                                        |
    | transaction            | the segment's aborted transactions; left out where there is none            |
    | producer snapshot      | the state at the *end* of the segment (locally named after the next one)    |
    | leader epoch           | the log's epoch history up to the end of the segment                        |
    """
    with await log.segment_files(segment) as held:
        missing = REQUIRED - held.files.keys()
        if missing:
            raise FileNotFoundError(
                f"{log.state.topic_partition}: segment {segment.base_offset} cannot be copied without its "
                + ", ".join(sorted(missing))
            )
        indexes = {kind: held.files[kind.value] for kind in IndexType if kind.value in held.files}
        yield LogSegmentData(held.files[LOG_KIND], indexes)
