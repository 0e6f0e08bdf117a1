"""A broker's reads from the tier, for tests: the parts, what asks them, and what it has got."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tierfetch.log.core import AbortedTransaction
from tierfetch.protocol.records import iter_batches
from tierfetch.remote import RemoteLogMetadataManager, RemoteStorageManager
from tierfetch.remote.index_cache import RemoteIndexCache
from tierfetch.rlm.chunks import RemoteChunks
from tierfetch.rlm.config import INT64_MAX
from tierfetch.rlm.metrics import RemoteLogCounters
from tierfetch.rlm.rate_limit import RateLimit
from tierfetch.rlm.reader import RemoteLogReader, RemoteRead, RemoteRecords
from tierfetch.rlm.times import OffsetsByTime
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.logs import (
    read_bytes,
)

from .brokers import PARTITION, TIERED, Broker, until

SHRINKING = replace(TIERED, local_retention_bytes=1)


@dataclass
class Readers:
    """What a broker has for consumers."""

    chunks: RemoteChunks
    indexes: RemoteIndexCache
    reader: RemoteLogReader
    times: OffsetsByTime


async def make_readers(
    storage: RemoteStorageManager,
    metadata: RemoteLogMetadataManager,
    *,
    chunk_bytes: int = 300,
    cache_bytes: int = 3000,
    max_wait_ms: int = 500,
    bytes_per_second: int = INT64_MAX,
) -> Readers:
    chunks = RemoteChunks(
        storage,
        RemoteLogCounters(),
        RateLimit(bytes_per_second),
        chunk_bytes=chunk_bytes,
        cache_bytes=cache_bytes,
        fetches_max=4,
        ahead_chunks=2,
    )
    indexes = await RemoteIndexCache.open(MemoryDisk(), Path("/cache"), storage, 1 << 20)
    reader = RemoteLogReader(metadata, chunks, indexes, max_wait_ms=max_wait_ms)
    return Readers(chunks, indexes, reader, OffsetsByTime(metadata, chunks, indexes, timeout_ms=500))


async def close_readers(readers: Readers) -> None:
    await readers.chunks.close()
    await readers.indexes.close()


async def tier_all(broker: Broker) -> None:
    """Let everything but the active segment be in the tier alone."""
    broker.log.update_config(replace(broker.log.state.config, local_retention_bytes=1))
    broker.manager.config_changed(PARTITION)
    await until(lambda: broker.log.state.offsets.local_log_start_offset == broker.active_base_offset)


def at(broker: Broker, offset: int, **changes: object) -> RemoteRead:
    values: dict[str, object] = {
        "partition": PARTITION,
        "log": broker.log,
        "offset": offset,
        "max_bytes": 1 << 20,
        "max_offset": broker.log.state.high_watermark,
        **changes,
    }
    return RemoteRead(**values)  # type: ignore[arg-type]


async def read(readers: Readers, request: RemoteRead) -> RemoteRecords:
    records = await readers.reader.read(request)
    assert records is not None
    return records


async def consume(readers: Readers, request: RemoteRead, end: int) -> tuple[bytes, list[AbortedTransaction]]:
    """Everything from the request's offset on, fetch for fetch, from the tier and then from the local log."""
    parts: list[bytes] = []
    aborted: dict[AbortedTransaction, None] = {}
    offset = request.offset
    while offset < end:
        records = await readers.reader.read(replace(request, offset=offset))
        if records is None:
            parts.append(await read_bytes(request.log, offset, end))
            aborted |= dict.fromkeys(await request.log.aborted_transactions(offset, end))
            break
        assert len(records.records), offset
        headers = [header for _, header in iter_batches(records.records)]
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert records.next_offset == headers[-1].next_offset
        parts.append(bytes(records.records))
        aborted |= dict.fromkeys(records.aborted)
        offset = records.next_offset
    return b"".join(parts), list(aborted)


def flip_bit(data: bytes) -> bytes:
    return data[:65] + bytes([data[65] ^ 1]) + data[66:]
