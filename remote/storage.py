"""The `RemoteStorageManager` port (KIP-405): one storage product behind five calls.

Rules of an implementation (`testing/remote_storage.py` checks them):

* Idempotent: a copy repeated under the same segment id replaces or confirms what is there; a delete of what is absent
  succeeds. A segment is visible to `fetch_*` only after its copy returned; after a failed copy it may be partly there,
  and a delete removes every part.
* Each call ends within the deadline of its configuration, by `RemoteStorageTimeoutError`. Cancellation is honoured:
  once the call has been cancelled nothing becomes visible under this segment id any longer, except what a delete will
  remove.
* Calls run concurrently. Blocking SDKs run in threads of the plugin's own, never on the event loop.
* Secrets never appear in errors or `repr`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from ..light_dataclass import dataclass
from ..protocol import RetriableError, TopicIdPartition
from .core.segment import RemoteLogSegmentId, RemoteLogSegmentMetadata


class IndexType(Enum):
    """What lies beside the `.log` of a remote segment."""

    OFFSET = "index"
    TIMESTAMP = "timeindex"
    TRANSACTION = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    LEADER_EPOCH = "leader_epoch_checkpoint"


class RemoteStorageError(RetriableError):
    """The tier failed; retriable with back-off."""


class RemoteStorageTimeoutError(RemoteStorageError):
    """A call did not end within its deadline."""


class RemoteStorageRefusedError(RemoteStorageError):
    """The tier refuses what it is asked as it is configured: no such bucket, no credentials, no rights."""


class RemoteResourceNotFoundError(RemoteStorageError):
    """The object is not there."""


class RemoteStorageCorruptError(RemoteStorageError):
    """The tier returned bytes other than those that were stored (short, long, or a checksum that differs)."""


class SegmentSource(Protocol):
    """Bytes to upload: a whole immutable file or a buffer."""

    @property
    def size(self) -> int: ...

    @property
    def path(self) -> Path | None:
        """The real file with exactly these bytes, if there is one that an SDK may read by itself."""

    async def read(self, offset: int, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """What one copy uploads. `indexes` lacks TRANSACTION where the segment has no aborted transaction."""

    log: SegmentSource
    indexes: Mapping[IndexType, SegmentSource]


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """One stored object, as listed. `segment_id` and `kind` are None for a foreign object; `start_offset` is that of
    the segment, None where the object's name does not tell.
    """

    key: str
    size: int
    segment_id: RemoteLogSegmentId | None
    kind: IndexType | None
    is_log: bool
    start_offset: int | None = None


class RemoteStorageManager(Protocol):
    """A tier. Built from its own pydantic `Config` (class attribute) by `registry.load_remote_storage`."""

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        """Store the segment; returns opaque custom metadata (at most 128 bytes) that every later call gets back."""

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        """Bytes [start, end) of the `.log`, cut at its end. RemoteResourceNotFoundError if it is absent."""

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """The whole index. RemoteResourceNotFoundError if absent; RemoteStorageCorruptError if it is larger than one of
        this segment can be (`index_bound`), best before it is in memory.
        """

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        """Size of the stored `.log` as the store states it (one cheap call), None if it is absent."""

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove every object of this segment id, also those of an attempt that was abandoned half-way."""

    def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        """Every object stored for the partition, in no particular order (for audits)."""

    async def close(self) -> None: ...


class ReadsSegments(Protocol):
    """The reading half of a `RemoteStorageManager`, and all that a check of a segment's contents asks."""

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        """As that of `RemoteStorageManager`."""

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """As that of `RemoteStorageManager`."""


@runtime_checkable
class StreamsSegments(Protocol):
    """What a storage may offer besides: many bytes of a log by one request, which can be used as they come (for
    consumers that read on). A storage without it is asked for a few MiB at a time.
    """

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int, piece_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        """Bytes [start, end) of the `.log`, cut at its end, in pieces of `piece_bytes`; the last may be smaller. Each
        has the deadline of a fetch, and is right whatever comes after it. RemoteResourceNotFoundError if the object is
        absent, RemoteStorageCorruptError where it has fewer bytes than its metadata states. At most these bytes are in
        memory. A caller that leaves closes the iterator, which ends the request.
        """


@runtime_checkable
class ListsPartitions(Protocol):
    """What a storage may offer besides: to say what it holds without the remote log metadata (for audits)."""

    def list_partitions(self) -> AsyncIterator[TopicIdPartition]:
        """Every partition of which there is at least one object, in no particular order."""


@runtime_checkable
class ListsFromOffset(Protocol):
    """What a storage may offer besides: a listing that leaves out what is known already (for streams)."""

    def list_objects_from(self, partition: TopicIdPartition, start_offset: int) -> AsyncIterator[RemoteObject]:
        """As `list_objects`, of the segments alone that begin at `start_offset` or above."""


@runtime_checkable
class CopiesInWorker(Protocol):
    """What a storage may offer besides: a broker that runs in a process of its own may let an equal of it, built from
    the same options in another process, copy and delete segments, so that its event loop does not wait for that.
    """

    @property
    def may_copy_in_worker(self) -> bool:
        """False where what is stored, or how it is reached, is only known in this process."""


class ObjectRange(NamedTuple):
    """Bytes [start, end) of the object of this key."""

    key: str
    start: int
    end: int


@runtime_checkable
class ReadsObjects(Protocol):
    """What a storage may offer besides: its objects by key, for who reads a layout that is not the storage's own."""

    async def read_object(self, key: str, start: int, end: int) -> bytes:
        """Bytes [start, end), cut at the object's end, and no more in memory. RemoteResourceNotFoundError."""

    async def read_whole(self, key: str, size_max: int) -> bytes:
        """All of the object. RemoteStorageCorruptError, before it is in memory, where it is larger."""

    async def read_objects(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """Small ranges, in their order, each cut at its object's end; None for an object that is absent."""

    def list_keys(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        """(key, size in bytes) of every object below the prefix that comes behind `start_after`."""

    def list_directories(self, key_prefix: str) -> AsyncIterator[str]:
        """What stands before the next `/` behind the prefix, which ends with one or is empty; each once."""
