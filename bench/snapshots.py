"""What a broker reads to know its tier again after a restart: all of the metadata topic, or a ledger snapshot.

One metadata partition in memory with a million events, of which so many segments are live as are named; the rest was
copied and deleted since. No process is started; the snapshot is a file. Seconds of wall clock from the start of the
metadata manager until the ledger of the partition is ready, and of the cut of the snapshot, which runs beside a
broker's other work. The longest pause is that of the event loop during the load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from tierfetch.log.disk import OsDisk
from tierfetch.remote import (
    NO_EPOCH,
    MetadataBatch,
    MetadataTopicSettings,
    RemoteLogMetadataContext,
    SnapshotFiles,
)
from tierfetch.remote.snapshot_cutter import SnapshotCutter
from tierfetch.remote.topic_manager import TopicBasedRemoteLogMetadataManager, TopicManagerConfig

from .ledger import PARTITION, copied, deleted
from .measure import Results
from .systems import TIERFETCH, System

EVENTS: Final = 1_000_000
LIVE: Final = 10_000
TAIL: Final = 10_000
READ_RECORDS_MAX: Final = 30_000


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Load with a snapshot that is as old as one may be, and without one."""
    del total_mb
    if system is not TIERFETCH:
        return
    topic = _Topic(list(_events()))
    case = f"{EVENTS:,} events, {LIVE:,} live"
    for _ in range(runs):
        for quantity, value, unit in asyncio.run(_measure(topic, base)):
            results.add("snapshots", case, system.name, quantity, value, unit)


def _events() -> Iterator[bytes]:
    """Copies, each followed by the deletion of the oldest segment once `LIVE` are there."""
    count = (EVENTS - 2 * LIVE) // 4
    for number in range(count + LIVE):
        yield from copied(number)
        if number >= LIVE:
            yield from deleted(number - LIVE)


async def _measure(topic: _Topic, base: Path) -> list[tuple[str, float, str]]:
    files = SnapshotFiles(OsDisk(), base)
    base.mkdir(parents=True, exist_ok=True)
    await files.remove(0)
    without_s, _ = await _load(topic, None)
    began = time.perf_counter()
    topic.end = len(topic.values) - TAIL
    await SnapshotCutter(topic, 0, files, 60.0).cut(topic.end)
    cut_s = time.perf_counter() - began
    topic.end = len(topic.values)
    with_s, pause_ms = await _load(topic, files)
    return [
        ("load without a snapshot", without_s, "s"),
        ("first cut", cut_s, "s"),
        ("load with a snapshot and its tail", with_s, "s"),
        ("longest pause of that load", pause_ms, "ms"),
        ("size of the snapshot", files.path(0).stat().st_size / 1e6, "MB"),
    ]


async def _load(topic: _Topic, files: SnapshotFiles | None) -> tuple[float, float]:
    manager = TopicBasedRemoteLogMetadataManager(
        TopicManagerConfig(), RemoteLogMetadataContext(topic, Random(1), files=files)
    )
    pauses = asyncio.create_task(_longest_pause_ms())
    began = time.perf_counter()
    await manager.start()
    await manager.assign([PARTITION])
    ledger = await manager.wait_newer(PARTITION, -1)
    took_s = time.perf_counter() - began
    assert ledger.finished_count == LIVE, ledger
    pauses.cancel()
    await manager.close()
    return took_s, await pauses


async def _longest_pause_ms() -> float:
    longest_s, last = 0.0, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest_s, last = max(longest_s, now - last), now
    except asyncio.CancelledError:
        return longest_s * 1000


class _Topic:
    """A `MetadataTopic` of one partition that answers at once, as far as `end`."""

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        self.end = len(values)

    def topic_id(self) -> UUID | None:
        return UUID(int=1)

    def leader(self, _partition: int) -> Hashable:
        return 0

    async def another_leader(self, _partition: int, _than: Hashable) -> None:
        await asyncio.Event().wait()

    async def ensure(self, _settings: MetadataTopicSettings) -> int:
        return 1

    async def bounds(self, _partition: int) -> tuple[int, int]:
        return 0, self.end

    async def append(self, _partition: int, _value: bytes) -> int:
        raise NotImplementedError

    async def read(self, _partition: int, offset: int, last_epoch: int = NO_EPOCH) -> MetadataBatch:
        del last_epoch
        if offset >= self.end:
            await asyncio.sleep(1)
        last = min(self.end, offset + READ_RECORDS_MAX)
        return MetadataBatch([(number, self.values[number]) for number in range(offset, last)], last, 0)
