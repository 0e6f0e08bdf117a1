"""The tier of a log of one's own, without a broker: `tierfetch.log.open_log`'s log, tiered to any storage plugin.

    tier_log -> plugin and metadata opened -> the log is led -> [ append | copy_all | read ]* -> cancelled, closed

It is the remote log manager of a broker with one partition, its only replica. Closed segments are copied (a roll by
`segment.bytes` or `segment.ms` closes one, or `copy_all`), and deleted by the log's retention.

| what                          | durable when                                                                  |
|-------------------------------|-------------------------------------------------------------------------------|
| a record                      | as `EmbeddedLog.append` says; the tier changes nothing about that             |
| a remote segment              | its objects are stored, then FINISHED is in the metadata file, which is synced |
| the deletion of a local one   | only after its copy was found in the tier, with its size                      |

The remote log metadata are files below the log's directory (`remote-log-metadata`, the `file` plugin): with them the
log's directory knows its tier again. Without them, the tier's objects still say all (`tierfetch.remote.open_tier`).

A copy that the block's end interrupts is an orphan; the next `tier_log` deletes what it left, and copies again. A tier
that fails is tried again, with back-off; `errors` says why. Appending and local reading do not depend on it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

from ..log import EmbeddedLog, PartitionLog, partition_log_of
from ..log.disk import OsDisk
from ..protocol import CorruptRecordError, ErrorCode, KafkaError, OperatorError, TopicIdPartition, check_topic_name
from ..protocol.records import Record, check_batch, iter_batches, iter_records
from ..remote import (
    FileMetadataConfig,
    FileRemoteLogMetadataManager,
    RemoteIndexCache,
    RemoteLogMetadataManager,
    RemoteStorageManager,
    load_remote_storage,
    look_at_tier,
)
from .chunks import RemoteChunks
from .config import RemoteLogManagerConfig
from .core.view import TierMode, TierPolicy
from .manager import RemoteLogManager
from .pending_deletions import PendingDeletions
from .rate_limit import RateLimit
from .reader import RemoteLogReader, RemoteRead

NODE_ID: Final = 0
LEADER_EPOCH: Final = 0
READ_BYTES: Final = 1 << 20
INDEX_CACHE_BYTES: Final = 64 << 20
DELETED_LOOK_S: Final = 0.5
"""How often `copy_all` looks whether what it waits for was deleted from the log."""
METADATA_DIRECTORY: Final = "remote-log-metadata"
LIMITS: Final = RemoteLogManagerConfig(task_interval_ms=1_000, fetch_max_wait_ms=30_000)


class TieredLog:
    """A log with its tier; `tier_log` makes it. The log itself appends as before."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log: PartitionLog,
        manager: RemoteLogManager,
        metadata: RemoteLogMetadataManager,
        reader: RemoteLogReader,
    ) -> None:
        self._partition = partition
        self._log = log
        self._manager = manager
        self._metadata = metadata
        self._reader = reader

    @property
    def partition(self) -> TopicIdPartition:
        """The partition by which the tier knows the log: its `topic`, `partition` and `topic_id`."""
        return self._partition

    @property
    def local_start_offset(self) -> int:
        """The offset of the first record that is on the local disk; what is below is in the tier alone."""
        return self._log.state.offsets.local_log_start_offset

    @property
    def copied_offset(self) -> int:
        """The offset below which the tier has every record, from the log's start on."""
        ledger = self._manager.ledger(self._partition)
        start = self._log.state.log_start_offset
        position = start
        for segment in ledger.finished_from(start) if ledger is not None else ():
            if segment.start_offset > position:
                break
            position = max(position, segment.end_offset + 1)
        return position

    @property
    def errors(self) -> str | None:
        """Why work in the tier failed last, if it has not succeeded since; None if all is well."""
        return self._manager.errors().get(self._partition.topic_partition)

    async def copy_all(self) -> int:
        """Close the active segment and wait until the tier has every record that is in the log now, and stays in it;
        return the offset after the last one. This waits as long as the tier fails: put `asyncio.timeout` around it, and
        see `errors`.

            async with asyncio.timeout(60):
                await tiered.copy_all()
        """
        end_offset = self._log.state.high_watermark
        if self._log.state.segments.active.base_offset < end_offset:
            await self._log.roll()
        self._manager.wake(self._partition)
        version = -1
        while self.copied_offset < end_offset:
            with suppress(
                TimeoutError
            ):  # records that are deleted meanwhile are no longer copied, and no event says so
                async with asyncio.timeout(DELETED_LOOK_S):
                    version = (await self._metadata.wait_newer(self._partition, version)).version
        return end_offset

    async def read(self, offset: int | None = None) -> AsyncIterator[Record]:
        """Yield the records from `offset` on, or from the first, to what is the end when the reading begins, from the
        tier and the local disk.

        OFFSET_OUT_OF_RANGE (KafkaError) outside the log, also if retention overtakes the reader. KAFKA_STORAGE_ERROR
        (KafkaError) where the tier fails or lacks the offset: try again from there. CorruptRecordError for damage on
        the local disk, OSError from it.

            async for record in tiered.read():
                print(record.offset, record.value)
        """
        position = self._log.state.log_start_offset if offset is None else offset
        end_offset = self._log.state.high_watermark
        while True:
            data = await self._piece(position, end_offset)
            if not data:
                return
            begin = position
            for at, header in iter_batches(data):
                check_batch(data, at, header)
                for record in iter_records(data, at, header):
                    if record.offset >= position:
                        yield record
                position = header.next_offset
            if position == begin:
                raise CorruptRecordError(f"no complete batch at offset {position}")

    async def _piece(self, position: int, end_offset: int) -> bytes:
        """Return whole batches, the first with `position`; nothing at the end. KafkaError, OSError."""
        if position < self.local_start_offset:
            request = RemoteRead(
                partition=self._partition,
                log=self._log,
                offset=position,
                max_bytes=READ_BYTES,
                max_offset=end_offset,
            )
            found = await self._reader.read(request)
            if found is not None:
                if not found.records:
                    raise KafkaError(ErrorCode.kafka_storage_error, f"no answer of the tier in time: offset {position}")
                return bytes(found.records)
        with await self._log.read(position, max_bytes=READ_BYTES, max_offset=end_offset) as piece:
            return await piece.read() if piece.size else b""


@asynccontextmanager
async def tier_log(
    log: EmbeddedLog,
    storage: str | RemoteStorageManager,
    options: Mapping[str, str] | None = None,
    *,
    topic: str = "log",
    limits: RemoteLogManagerConfig = LIMITS,
) -> AsyncIterator[TieredLog]:
    """Tier an open log until the block ends. Leave it before the log's own block.

    `storage` is the name of a storage plugin with its `options`, or one that is built, which stays the caller's to
    close. The log's config must have `remote_storage_enable`; its `retention_ms`, `retention_bytes`, and
    `local_retention_ms`, `local_retention_bytes` hold from now on, Kafka's defaults included (7 days). In the tier it
    is partition 0 of `topic`, always with the same topic id.

    Raise OperatorError for a log without `remote_storage_enable`, an unknown plugin or option; RemoteStorageError where
    the tier refuses what was configured or does not answer; RemoteLogMetadataError or OSError from the local disk.

        async with tierfetch.rlm.tier_log(log, "local", {"dir": "tier"}) as tiered:
            await tiered.copy_all()
    """
    inner = partition_log_of(log)
    topic_id = inner.state.topic_id
    assert topic_id is not None, "open_log makes the log with one"
    try:
        check_topic_name(topic)
    except ValueError as error:
        raise OperatorError(str(error)) from None
    if TierPolicy.of(topic, inner.state.config).mode is TierMode.UNTIERED:
        raise OperatorError(
            f"{inner.state.directory} is not tiered: open it with config=LogConfig(remote_storage_enable=True, ...)"
        )
    async with AsyncExitStack() as stack:
        if isinstance(storage, str):
            storage = load_remote_storage(storage, options or {}, key_prefix="")
            stack.push_async_callback(storage.close)
        trouble = await look_at_tier(storage)
        if trouble is not None:
            raise trouble
        yield await _open(stack, inner, storage, TopicIdPartition(topic_id, topic, 0), limits)


async def _open(
    stack: AsyncExitStack,
    log: PartitionLog,
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    limits: RemoteLogManagerConfig,
) -> TieredLog:
    """Start the parts; users close before what they use."""
    directory = log.state.directory.parent
    disk = OsDisk()
    stack.push_async_callback(disk.close)
    metadata = FileRemoteLogMetadataManager(FileMetadataConfig(dir=directory / METADATA_DIRECTORY))
    stack.push_async_callback(metadata.close)
    await metadata.start()
    manager = RemoteLogManager(
        storage,
        metadata,
        broker_id=NODE_ID,
        config=limits,
        random=random.Random(uuid4().int),
        wall_clock_ms=lambda: time.time_ns() // 1_000_000,
        deletions=PendingDeletions(disk, directory),
    )
    indexes = await RemoteIndexCache.open(disk, directory, manager.storage, INDEX_CACHE_BYTES)
    stack.push_async_callback(indexes.close)
    chunks = RemoteChunks(
        manager.storage,
        manager.counters,
        RateLimit(limits.fetch_max_bytes_per_second),
        chunk_bytes=limits.reader_chunk_bytes,
        cache_bytes=limits.reader_cache_bytes,
        fetches_max=limits.reader_threads,
        ahead_chunks=limits.reader_ahead_chunks,
    )
    stack.push_async_callback(chunks.close)
    stack.push_async_callback(manager.close)
    await manager.start()
    await metadata.assign([partition])
    manager.lead(partition, log, LEADER_EPOCH, lambda: log.state.log_start_offset)
    reader = RemoteLogReader(metadata, chunks, indexes, max_wait_ms=limits.fetch_max_wait_ms)
    await metadata.wait_newer(partition, -1)
    return TieredLog(partition, log, manager, metadata, reader)
