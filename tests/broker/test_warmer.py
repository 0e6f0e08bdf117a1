"""The warmer's rounds: one segment of each thin replica in turn, and what becomes of failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.broker.replicas import warmer as warmer_module
from tierfetch.broker.replicas.thin_replicas import WarmingLimits
from tierfetch.broker.replicas.warmer import Warmer, WarmerSettings
from tierfetch.log.core import CorruptFileError, LogConfig
from tierfetch.log.core.free_space import FreeSpace
from tierfetch.log.replica.state import LogOffsets
from tierfetch.log.replica.warming import SegmentToWarm
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType, RemoteResourceNotFoundError, RemoteStorageCorruptError, RemoteStorageError
from tierfetch.remote.core import RemoteLogLedger
from tierfetch.tests.remote.builders import PARTITION, epochs_of, ledger_of, segment

SEGMENTS = (segment(1, 0, 59, (0, 0)), segment(2, 60, 99, (0, 60)), segment(3, 100, 149, (0, 100)))


class Log:
    """A thin log of offsets [150, 200)."""

    def __init__(self) -> None:
        self.config = LogConfig(remote_storage_enable=True)
        self.epochs = epochs_of((0, 0))
        self.log_start_offset, self.local_log_start_offset, self.log_end_offset = 0, 150, 200
        self.size_bytes = 10
        self.failures: list[Exception] = []
        self.taken: list[SegmentToWarm] = []
        self.state = self.segments = self
        self.keeper = FreeSpaceKeeper()

    @property
    def offsets(self) -> LogOffsets:
        start, local_start, end = self.log_start_offset, self.local_log_start_offset, self.log_end_offset
        return LogOffsets(start, local_start, None, end, end, end, end, end)

    async def prepend(self, source: SegmentToWarm) -> int:
        if self.failures:
            raise self.failures.pop(0)
        assert len(await source.read(0, source.size_bytes)) == source.size_bytes
        self.taken.append(source)
        self.local_log_start_offset = source.base_offset
        self.size_bytes += source.size_bytes
        return source.size_bytes


class FreeSpaceKeeper:
    """A log directory with a disk of `usable_bytes`."""

    def __init__(self) -> None:
        self.space = FreeSpace(100, 1 << 40)

    def has_room_for(self, size_bytes: int) -> bool:
        return self.space.has_room_for(size_bytes)

    @contextmanager
    def writing(self, size_bytes: int) -> Iterator[None]:
        self.space.begin_write(size_bytes)
        yield
        self.space.end_write(size_bytes)


class Thin:
    """The registry of thin replicas."""

    def __init__(self, *logs: Log, bytes_min: int = 1 << 30) -> None:
        self.limits = WarmingLimits(bytes_min, 1 << 30)
        self.hosted = [
            SimpleNamespace(partition=TopicIdPartition(PARTITION.topic_id, PARTITION.topic, number), log=log)
            for number, log in enumerate(logs)
        ]

    def partitions(self) -> list[Any]:
        return [each for each in self.hosted if each.log.size_bytes < self.limits.bytes_min]

    def warmed(self, partition: Any, *, is_full: bool) -> None:
        if is_full:
            self.hosted.remove(partition)


class Storage:
    """Has every object but the transaction indexes."""

    def __init__(self) -> None:
        self.snapshots: list[int] = []

    async def fetch_log_segment(self, metadata: Any, start: int, end: int) -> bytes:
        return bytes(end - start)

    async def fetch_index(self, metadata: Any, index_type: IndexType) -> bytes:
        if index_type is IndexType.TRANSACTION:
            raise RemoteResourceNotFoundError("none")
        self.snapshots.append(metadata.end_offset + 1)
        return b"snapshot"


class Tier:
    def __init__(self, ledger: RemoteLogLedger | None) -> None:
        self.storage = Storage()
        self._ledger = ledger

    def ledger(self, _: TopicIdPartition) -> RemoteLogLedger | None:
        return self._ledger


def made(thin: Thin, tier: Tier | None = None, **settings: Any) -> Warmer:
    in_force = {"is_enabled": True, "bytes_per_second": 1 << 40} | settings
    return Warmer(
        thin,  # type: ignore[arg-type]
        tier or Tier(ledger_of(*SEGMENTS)),  # type: ignore[arg-type]
        lambda: WarmerSettings(**in_force),
        random.Random(1),
        lambda: 0,
    )


def bases(log: Log) -> list[int]:
    return [source.base_offset for source in log.taken]


async def test_D5_what_the_disk_has_no_room_for_stays_in_the_tier(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmer_module, "RETRY_MIN_MS", 1)
    monkeypatch.setattr(warmer_module, "RETRY_MAX_MS", 1)
    log = Log()
    warmer, sizes = made(Thin(log)), [each.segment_size_in_bytes for each in SEGMENTS]
    log.keeper.space.usable_bytes = 100 + sizes[2] + sizes[1] - 1
    assert await warmer.run_round() == 1
    assert await warmer.run_round() == 0
    assert log.keeper.space.usable_bytes == 100 + sizes[1] - 1, "what was taken counts at once"
    assert bases(log) == [100]
    (said,) = caplog.messages
    assert f"no room for the {sizes[1]} bytes" in said
    log.keeper.space.usable_bytes = 1 << 40
    while bases(log) == [100]:
        await asyncio.sleep(0)
        await warmer.run_round()


async def test_F11_each_replica_gets_its_next_segment_in_turn_until_nothing_is_missing() -> None:
    first, second = Log(), Log()
    second.local_log_start_offset = 100
    thin, tier = Thin(first, second), Tier(ledger_of(*SEGMENTS))
    warmer = made(thin, tier)
    assert await warmer.run_round() == 2
    assert (bases(first), bases(second)) == ([100], [60])
    assert {name.partition: each.bytes_left for name, each in warmer.progress.items()} == {0: 1000, 1: 600}
    assert await warmer.run_round() == 2
    assert await warmer.run_round() == 1
    assert (bases(first), bases(second)) == ([100, 60, 0], [60, 0])
    assert thin.hosted == []
    assert await warmer.run_round() == 0
    assert warmer.progress == {}
    assert sorted(tier.storage.snapshots) == [60, 60, 100], "the state at the base of each but the first"
    assert [source.producers is None for source in first.taken] == [False, False, True]


async def test_F11_it_ends_when_the_replica_has_warmed() -> None:
    log = Log()
    warmer = made(Thin(log, bytes_min=log.size_bytes + SEGMENTS[2].segment_size_in_bytes))
    assert await warmer.run_round() == 1
    assert await warmer.run_round() == 0
    assert bases(log) == [100]


async def test_nothing_happens_while_it_is_switched_off_or_the_metadata_were_not_read() -> None:
    log = Log()
    assert await made(Thin(log), is_enabled=False).run_round() == 0
    assert await made(Thin(log), Tier(None)).run_round() == 0
    assert bases(log) == []


async def test_F11_a_transaction_index_that_was_lost_is_never_taken_for_none(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    warmer = made(Thin(log), Tier(ledger_of(segment(3, 100, 149, (0, 100), txn_index_empty=False), *SEGMENTS[:2])))
    assert await warmer.run_round() == 0
    assert bases(log) == []
    assert "could not be warmed" in caplog.text


async def test_F11_where_uploads_of_two_leaders_overlap_a_segment_is_taken_in_part() -> None:
    log = Log()
    thin, tier = Thin(log), Tier(ledger_of(SEGMENTS[0], segment(6, 40, 149, (0, 40))))
    warmer = made(thin, tier)
    assert await warmer.run_round() == 1
    assert await warmer.run_round() == 1
    assert [(source.base_offset, source.begins_below) for source in log.taken] == [(60, True), (0, False)]
    assert tier.storage.snapshots == [60]
    assert thin.hosted == []


async def test_F11_a_replica_stays_thin_where_what_it_lacks_cannot_be_fetched_safely() -> None:
    log = Log()
    thin = Thin(log)
    warmer = made(thin, Tier(ledger_of(*SEGMENTS[1:])))
    assert await warmer.run_round() == 1
    assert await warmer.run_round() == 0
    assert (bases(log), len(thin.hosted)) == ([100], 1)


DAMAGE = (CorruptRecordError("no batch", 0), CorruptFileError("no snapshot"), RemoteStorageCorruptError("short"))


@pytest.mark.parametrize("damage", DAMAGE)
async def test_F11_a_damaged_segment_is_fetched_again_less_and_less_often(
    damage: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(warmer_module.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(warmer_module, "JITTER", 0.0)
    log, tried = Log(), []
    log.failures = [damage] * 10
    warmer = made(Thin(log))
    for minute in range(5 * 60):
        now[0] = minute * 60.0
        left = len(log.failures)
        await warmer.run_round()
        if len(log.failures) < left:
            tried.append(minute)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


async def test_F11_after_damage_that_went_away_all_goes_on_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(warmer_module.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now[0]))
    log = Log()
    log.failures = [CorruptRecordError("no batch", 0), OSError("full")]
    warmer = made(Thin(log))
    for when, count in ((0.0, 0), (100.0, 0), (102.0, 1), (102.1, 1), (102.2, 1)):
        now[0] = when
        assert await warmer.run_round() == count, when


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (OSError("full"), 1),
        (RemoteStorageError("no answer"), 1),
        (AssertionError("ours"), 2),
    ],
)
async def test_what_fails_waits_longer_each_time_and_holds_up_no_other(
    failure: Exception, said: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(warmer_module.asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now[0]))
    bad, good = Log(), Log()
    bad.failures = [failure, failure]
    warmer = made(Thin(bad, good))
    for when, count in ((0.0, 1), (0.1, 1), (2.0, 1), (2.1, 0), (3.0, 0), (5.0, 1)):
        now[0] = when
        assert await warmer.run_round() == count, when
    assert (bases(bad), bases(good)) == ([100], [100, 60, 0])
    assert caplog.text.count("could not be warmed") == said, (
        "the same failure is said once, an internal error each time"
    )
