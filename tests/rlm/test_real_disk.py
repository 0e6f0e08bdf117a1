"""The way into the tier and back over real files: the production `Disk` and the `local` plugin."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tierfetch.log.core import LogConfig
from tierfetch.log.disk import OsDisk
from tierfetch.plugins.layout import partition_directory
from tierfetch.plugins.local import STORAGE_DIRECTORY, LocalTieredStorage
from tierfetch.remote.audit import audit_ledger
from tierfetch.remote.index_cache import RemoteIndexCache
from tierfetch.rlm.chunks import RemoteChunks
from tierfetch.rlm.manager import RemoteLogManager
from tierfetch.rlm.metrics import RemoteLogCounters
from tierfetch.rlm.pending_deletions import PendingDeletions
from tierfetch.rlm.rate_limit import RateLimit
from tierfetch.rlm.reader import RemoteLogReader, RemoteRead
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.log.logs import NOW_MS, Clock, append, open_log, read_bytes

from .brokers import PARTITION, QUICK, until


async def test_R1_R4_through_the_tier_and_back(tmp_path: Path) -> None:
    disk = OsDisk()
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=tmp_path / "tier"))
    metadata = InMemoryRemoteLogMetadataManager(SharedMetadata())
    await metadata.start()
    manager = RemoteLogManager(
        storage,
        metadata,
        broker_id=1,
        config=QUICK,
        random=Random(1),
        wall_clock_ms=Clock(),
        deletions=PendingDeletions(disk, tmp_path),
    )
    config = LogConfig(remote_storage_enable=True, retention_ms=-1, segment_bytes=20_000, local_retention_bytes=1)
    log = await open_log(disk, tmp_path / "data" / "t-0", config=config, log_start_offset=0)
    await log.assign_epoch(0)
    for _ in range(40):
        await append(log, 3, value=bytes(1000))
    produced = await read_bytes(log, 0)
    log.update_high_watermark(log.state.log_end_offset)
    manager.lead(PARTITION, log, 0, lambda: log.state.log_start_offset)
    await until(lambda: log.state.offsets.local_log_start_offset == log.state.segments.active.base_offset > 0)

    objects = {
        path.suffix for path in (tmp_path / "tier" / STORAGE_DIRECTORY / partition_directory(PARTITION)).iterdir()
    }
    assert objects == {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"}
    ledger = manager.ledger(PARTITION)
    assert ledger is not None
    assert (await audit_ledger(ledger, storage, now_ms=NOW_MS, deep=True)).findings == ()

    chunks = RemoteChunks(
        manager.storage,
        RemoteLogCounters(),
        RateLimit(2**63 - 1),
        chunk_bytes=8192,
        cache_bytes=65536,
        fetches_max=4,
        ahead_chunks=2,
    )
    indexes = await RemoteIndexCache.open(disk, tmp_path / "data", manager.storage)
    reader = RemoteLogReader(metadata, chunks, indexes, max_wait_ms=5000)
    consumed, offset = b"", 0
    while True:
        request = RemoteRead(
            partition=PARTITION, log=log, offset=offset, max_bytes=7000, max_offset=log.state.high_watermark
        )
        records = await reader.read(request)
        if records is None:
            break
        consumed += records.records
        offset = records.next_offset
    assert consumed + await read_bytes(log, offset) == produced

    await manager.close()
    await chunks.close()
    await indexes.close()
    await log.close()
    await disk.close()
