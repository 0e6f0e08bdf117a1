"""What a tier tells of itself must be what its remote log metadata says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import (
    IndexType,
    ObjectRange,
    RemoteObject,
    RemoteStorageCorruptError,
    RemoteStorageError,
    index_bound,
)
from tierfetch.remote.audit import audit_survey
from tierfetch.remote.core import FindingKind, RemoteLogLedger, RemoteLogSegmentMetadata
from tierfetch.remote.survey import ENTRY_SIZES, NOT_REPORTED, TAIL_BYTES, part_name, sight_segments, survey_partition
from tierfetch.tests import samples
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import NOW_MS

from .test_reader import SAMPLES_IN_TIER, sample_ledger_events


def as_surveyed(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Without what nothing but the metadata knows."""
    return replace(metadata, broker_id=NOT_REPORTED, event_timestamp_ms=NOT_REPORTED, custom_metadata=None)


def ledger_of(topic: str) -> RemoteLogLedger:
    partition, shared = sample_ledger_events(topic)
    ledger = RemoteLogLedger(partition)
    for event in shared.events(partition):
        ledger.apply(event)
    return ledger


@pytest.mark.parametrize("topic", SAMPLES_IN_TIER)
async def test_a_tier_written_by_apache_kafka(topic: str) -> None:
    ledger = ledger_of(topic)
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    surveyed = await survey_partition(storage, ledger.partition)
    assert surveyed.ledger.segments() == [as_surveyed(metadata) for metadata in ledger.finished()]
    report = await audit_survey(surveyed, storage, now_ms=NOW_MS, deep=True)
    assert report.findings == ()
    assert report.segments == len(ledger.finished())


class NamedStorage(MemoryRemoteStorage):
    """Whose object names tell the start offset."""

    def __init__(self, start_offsets: dict[object, int]) -> None:
        super().__init__()
        self._start_offsets = start_offsets

    async def list_objects(self, partition: TopicIdPartition):
        async for listed in super().list_objects(partition):
            yield replace(listed, start_offset=self._start_offsets.get(listed.segment_id))


class KeyedStorage(NamedStorage):
    """Which gives its objects by key too, as the plugins here do; `ranges` is what was asked for so."""

    def __init__(self, start_offsets: dict[object, int]) -> None:
        super().__init__(start_offsets)
        self.ranges: list[ObjectRange] = []

    async def read_object(self, key: str, start: int, end: int) -> bytes:
        raise NotImplementedError

    async def read_whole(self, key: str, size_max: int) -> bytes:
        raise NotImplementedError

    async def read_objects(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        self.ranges += ranges
        if self.faults is not None and self.faults.hits("read_objects", is_read=False):
            raise RemoteStorageError("injected")
        named = {f"{segment}.{part_name(kind)}": data for (segment, kind), data in self.objects.items()}
        return [None if key not in named else named[key][start:end] for key, start, end in ranges]

    def list_keys(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        raise NotImplementedError

    def list_directories(self, key_prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError


@pytest.fixture(params=[NamedStorage, KeyedStorage])
def kind_of_storage(request: pytest.FixtureRequest) -> type[NamedStorage]:
    """One that is asked part by part, and one that is asked for many ranges at once."""
    return request.param


async def sample_in_memory(
    kind_of_storage: type[NamedStorage] = NamedStorage,
) -> tuple[NamedStorage, list[RemoteLogSegmentMetadata]]:
    """A few segments of Kafka's, where a test can damage them."""
    ledger = ledger_of(SAMPLES_IN_TIER[0])
    kafkas = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    storage = kind_of_storage({metadata.segment_id: metadata.start_offset for metadata in ledger.finished()})
    for metadata in ledger.finished():
        indexes = {
            kind: await kafkas.fetch_index(metadata, kind)
            for kind in IndexType
            if kind is not IndexType.TRANSACTION or not metadata.txn_index_empty
        }
        size = metadata.segment_size_in_bytes
        storage.put(metadata, await kafkas.fetch_log_segment(metadata, 0, size), indexes)
    return storage, ledger.finished()


async def test_a_copy_without_its_log_is_an_orphan() -> None:
    storage, segments = await sample_in_memory()
    del storage.objects[segments[-1].segment_id, None]
    surveyed = await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    assert surveyed.ledger.segments() == [as_surveyed(metadata) for metadata in segments[:-1]]
    report = await audit_survey(surveyed, storage, now_ms=NOW_MS)
    assert [finding.kind for finding in report.findings] == [FindingKind.ORPHAN]
    assert "without a log" in report.findings[0].message


@pytest.mark.parametrize(
    ("part", "damage", "kind", "message"),
    [
        (None, lambda data: data[:-1], FindingKind.CORRUPT, "ends within a batch"),
        (None, lambda data: data + b"\0" * 30, FindingKind.CORRUPT, "ends within a batch"),
        (None, lambda data: b"", FindingKind.CORRUPT, "ends within a batch"),
        (None, lambda data: data * 2, FindingKind.CORRUPT, "base offset"),
        (None, lambda data: b"\xff" * len(data), FindingKind.CORRUPT, "magic"),
        (IndexType.LEADER_EPOCH, lambda data: b"0\n0\n", FindingKind.CORRUPT, "no epoch for offset"),
        (IndexType.LEADER_EPOCH, lambda data: b"nonsense", FindingKind.CORRUPT, "expected version 0"),
        (IndexType.TIMESTAMP, lambda data: data + b"\1", FindingKind.CORRUPT, "time index"),
        (IndexType.OFFSET, lambda data: data + b"\1", FindingKind.CORRUPT, "offset index"),
        (IndexType.OFFSET, lambda data: data[:-8] + b"\x80" + data[-7:], FindingKind.CORRUPT, "below the base offset"),
        (IndexType.OFFSET, lambda data: data[:-4] + b"\xff" * 4, FindingKind.CORRUPT, "last entry names byte -1"),
        (IndexType.OFFSET, None, FindingKind.MISSING, "no index"),
        (IndexType.LEADER_EPOCH, None, FindingKind.MISSING, "no leader_epoch_checkpoint"),
    ],
)
async def test_damage_is_told_with_its_segment(
    kind_of_storage: type[NamedStorage],
    part: IndexType | None,
    damage: Callable[[bytes], bytes] | None,
    kind: FindingKind,
    message: str,
) -> None:
    storage, segments = await sample_in_memory(kind_of_storage)
    key = segments[0].segment_id, part
    if damage is None:
        del storage.objects[key]
    else:
        storage.objects[key] = damage(storage.objects[key])
    surveyed = await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    assert surveyed.ledger.segments() == [as_surveyed(metadata) for metadata in segments[1:]]
    assert [(finding.kind, finding.subject) for finding in surveyed.findings] == [(kind, str(segments[0].segment_id))]
    assert message in surveyed.findings[0].message


async def test_a_checkpoint_beyond_all_measure_is_not_read(
    kind_of_storage: type[NamedStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is in the listing."""
    storage, segments = await sample_in_memory(kind_of_storage)
    monkeypatch.setattr(index_bound, "LEADER_EPOCH_BYTES_MAX", 100)
    storage.objects[segments[0].segment_id, IndexType.LEADER_EPOCH] = bytes(101)
    surveyed = await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    assert [finding.kind for finding in surveyed.findings] == [FindingKind.CORRUPT]
    assert "101 bytes" in surveyed.findings[0].message
    assert len(surveyed.ledger.segments()) == len(segments) - 1


class ShorterStorage(NamedStorage):
    """Whose logs are not as long as they were listed."""

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        raise RemoteStorageCorruptError("it came back shorter")


async def test_a_log_that_is_shorter_than_it_was_listed_is_damage() -> None:
    storage, segments = await sample_in_memory(ShorterStorage)
    surveyed = await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    assert [finding.kind for finding in surveyed.findings] == [FindingKind.CORRUPT] * len(segments)


async def test_an_index_that_kafka_preallocated(kind_of_storage: type[NamedStorage]) -> None:
    storage, segments = await sample_in_memory(kind_of_storage)
    for (_, part), data in list(storage.objects.items()):
        if part in ENTRY_SIZES:
            storage.objects[_, part] = data + bytes(7 * ENTRY_SIZES[part])
    surveyed = await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    assert surveyed.findings == ()
    assert surveyed.ledger.segments() == [as_surveyed(metadata) for metadata in segments]


async def test_of_a_segment_of_any_size_little_is_read() -> None:
    storage, segments = await sample_in_memory(KeyedStorage)
    assert isinstance(storage, KeyedStorage)
    await survey_partition(storage, segments[0].segment_id.topic_id_partition)
    entries = [one for one in storage.ranges if one.key.endswith((".index", ".timeindex"))]
    assert len(entries) == 2 * len(segments)
    assert all(one.end - one.start <= max(ENTRY_SIZES.values()) for one in entries)
    logs = [one for one in storage.ranges if one.key.endswith(".log")]
    assert all(one.end - one.start <= TAIL_BYTES for one in logs)


async def test_a_segment_in_which_the_log_start_lay_begins_its_epochs_there() -> None:
    storage, (segment, *_) = await sample_in_memory()
    (epoch,) = segment.segment_leader_epochs
    begin = segment.start_offset + 1
    storage.objects[segment.segment_id, IndexType.LEADER_EPOCH] = f"0\n1\n{epoch.epoch} {begin}\n".encode()
    surveyed = await survey_partition(storage, segment.segment_id.topic_id_partition)
    assert surveyed.findings == ()
    found = surveyed.ledger.get(segment.segment_id)
    assert found is not None
    assert found.segment_leader_epochs == (EpochEntry(epoch.epoch, begin),)


async def test_names_that_do_not_tell_are_refused() -> None:
    storage, segments = await sample_in_memory()
    storage._start_offsets.clear()
    with pytest.raises(RemoteStorageError, match="does not contain the start offset"):
        await survey_partition(storage, segments[0].segment_id.topic_id_partition)


async def test_a_store_that_fails_ends_the_survey(kind_of_storage: type[NamedStorage]) -> None:
    storage, segments = await sample_in_memory(kind_of_storage)
    storage.faults = FailNth(2)
    with pytest.raises(RemoteStorageError, match="injected"):
        await survey_partition(storage, segments[0].segment_id.topic_id_partition)


async def test_foreign_objects_are_told_once() -> None:
    storage, segments = await sample_in_memory()

    class WithGuest(NamedStorage):
        async def list_objects(self, partition: TopicIdPartition):
            async for listed in super().list_objects(partition):
                yield listed
            yield RemoteObject("README", 7, None, None, is_log=False)

    guest = WithGuest(storage._start_offsets)
    guest.objects = storage.objects
    surveyed = await survey_partition(guest, segments[0].segment_id.topic_id_partition)
    report = await audit_survey(surveyed, guest, now_ms=NOW_MS)
    assert [finding.kind for finding in report.findings] == [FindingKind.FOREIGN]


async def test_what_is_known_is_not_looked_at_again() -> None:
    storage, segments = await sample_in_memory()
    partition = segments[0].segment_id.topic_id_partition
    known = {metadata.segment_id.id for metadata in segments[:-1]}
    for metadata in segments[:-1]:
        for kind in IndexType:
            storage.objects.pop((metadata.segment_id, kind), None)
    sighting = await sight_segments(storage, partition, known)
    assert [metadata.segment_id for metadata in sighting.described] == [segments[-1].segment_id]
    assert sighting.listed == known | {segments[-1].segment_id.id}
    del storage.objects[segments[0].segment_id, None]
    assert segments[0].segment_id.id not in (await sight_segments(storage, partition, known)).listed
