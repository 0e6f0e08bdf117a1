"""What `tier verify` finds: each damage is done once, and must come out as exactly one finding of its kind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.records.control import ControlType
from tierfetch.remote import IndexType, RemoteObject, RemoteStorageError
from tierfetch.remote.audit import AuditReport, audit_ledger, compare
from tierfetch.remote.core import (
    Finding,
    FindingKind,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.tests import samples
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import NOW_MS, append, end_transaction, marker_batch

from .brokers import PARTITION, Broker, until
from .test_reader import SAMPLES_IN_TIER, sample_ledger_events
from .views import DELETING, FINISHED, STARTED, remote

HOUR_MS = 3_600_000


@pytest.fixture
async def tiered() -> AsyncIterator[Broker]:
    """Three finished segments of epoch 0."""
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata())
    await broker.open()
    await broker.lead(0)
    await broker.fill(3)
    await until(broker.is_all_tiered)
    await broker.manager.stop(PARTITION)
    await broker.metadata.assign([PARTITION])
    yield broker
    await broker.close()


async def run(broker: Broker, *, deep: bool = True, now_ms: int = NOW_MS) -> AuditReport:
    return await audit_ledger(broker.ledger, broker.storage, now_ms=now_ms, deep=deep)


def kinds(report: AuditReport) -> list[FindingKind]:
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize("deep", [False, True])
async def test_sound_tier_has_no_findings(tiered: Broker, deep: bool) -> None:
    report = await run(tiered, deep=deep)
    assert report == AuditReport(3, sum(segment.size_bytes for segment in tiered.log.state.segments[:-1]), ())
    assert report.is_sound


def middle(broker: Broker) -> RemoteLogSegmentMetadata:
    return broker.ledger.finished()[1]


@pytest.mark.parametrize("part", [None, *(kind for kind in IndexType if kind is not IndexType.TRANSACTION)])
async def test_missing_object(tiered: Broker, part: IndexType | None) -> None:
    del tiered.storage.objects[middle(tiered).segment_id, part]
    report = await run(tiered)
    assert kinds(report) == [FindingKind.MISSING]
    assert not report.is_sound
    assert f"offsets [6, 11]: no {'log' if part is None else part.value} in the tier" in str(report.findings[0])


@pytest.fixture
async def undenied() -> AsyncIterator[Broker]:
    """Of its first segment the metadata do not deny a transaction index."""
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata())
    await broker.open()
    await broker.lead(0)
    transaction = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    await append(broker.log, 2, base_sequence=0, **transaction)
    await end_transaction(broker.log, ControlType.ABORT, 1)
    await broker.log.roll()
    await broker.fill(1)
    await until(broker.is_all_tiered)
    await broker.manager.stop(PARTITION)
    await broker.metadata.assign([PARTITION])
    yield broker
    await broker.close()


@pytest.mark.parametrize("deep", [False, True])
async def test_R4_a_transaction_index_that_was_lost_is_missing(undenied: Broker, deep: bool) -> None:
    del undenied.storage.objects[undenied.ledger.finished()[0].segment_id, IndexType.TRANSACTION]
    report = await run(undenied, deep=deep)
    assert kinds(report) == [FindingKind.MISSING]
    assert "was lost" in str(report.findings[0])


@pytest.mark.parametrize("deep", [False, True])
async def test_R4_a_transaction_index_that_never_was_is_not_missing(undenied: Broker, deep: bool) -> None:
    first = undenied.ledger.finished()[0].segment_id
    del undenied.storage.objects[first, IndexType.TRANSACTION]
    committed = marker_batch(ControlType.COMMIT, base_offset=2, epoch=0, producer_id=1)
    undenied.storage.objects[first, None] = undenied.storage.objects[first, None][: -len(committed)] + committed
    assert kinds(await run(undenied, deep=deep)) == []


async def test_wrong_size(tiered: Broker) -> None:
    tiered.storage.objects[middle(tiered).segment_id, None] += b"!"
    report = await run(tiered, deep=False)
    assert kinds(report) == [FindingKind.WRONG_SIZE]
    assert not report.is_sound


def flip(position: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        (None, flip(0)),
        (None, flip(100)),
        (None, flip(-1 % 237)),
        (None, lambda data: data[:-79] + bytes(79)),
        (IndexType.OFFSET, lambda data: b"\0\0\0\1\0\0\0\2" * 2),
        (IndexType.TIMESTAMP, lambda data: data + b"\1"),
        (IndexType.PRODUCER_SNAPSHOT, flip(3)),
        (IndexType.LEADER_EPOCH, lambda data: b"0\n2\n0 0\n"),
    ],
)
async def test_corrupt_object_is_found_by_a_deep_audit(
    tiered: Broker, part: IndexType | None, damage: Callable[[bytes], bytes]
) -> None:
    key = (middle(tiered).segment_id, part)
    tiered.storage.objects[key] = damage(tiered.storage.objects[key])
    assert (await run(tiered, deep=False)).is_sound
    report = await run(tiered)
    assert kinds(report) == [FindingKind.CORRUPT]
    assert report.findings[0].subject == str(middle(tiered).segment_id)


async def test_bytes_of_another_segment_are_corrupt(tiered: Broker) -> None:
    first, second, _ = tiered.ledger.finished()
    tiered.storage.objects[first.segment_id, None] = tiered.storage.objects[second.segment_id, None]
    assert kinds(await run(tiered)) == [FindingKind.CORRUPT]


async def test_log_that_ends_early_is_corrupt(tiered: Broker) -> None:
    """As large as stated, and whole, but without the last offsets."""
    first = tiered.ledger.finished()[0]
    ledger = RemoteLogLedger(PARTITION)
    ledger.apply(replace(first, end_offset=first.end_offset + 2, state=STARTED))
    ledger.apply(RemoteLogSegmentMetadataUpdate(first.segment_id, FINISHED, NOW_MS, 1))
    report = await audit_ledger(ledger, tiered.storage, now_ms=NOW_MS, deep=True)
    (corrupt,) = (finding for finding in report.findings if finding.kind is FindingKind.CORRUPT)
    assert "ends at offset 5 where 7 is expected" in corrupt.message


async def test_batch_larger_than_one_look(tiered: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.remote.segment_scan.SCAN_BYTES", 65)
    assert (await run(tiered)).findings == ()


async def test_gap_in_the_lineage(tiered: Broker) -> None:
    gone = middle(tiered).segment_id
    for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
        await tiered.metadata.update_segment(RemoteLogSegmentMetadataUpdate(gone, state, NOW_MS, 1))
    for key in [key for key in tiered.storage.objects if key[0] == gone]:
        del tiered.storage.objects[key]
    report = await run(tiered)
    assert report.findings == (Finding(FindingKind.GAP, "[6, 12)", "no finished segment holds these offsets"),)


async def test_segment_of_a_lost_history_is_no_damage(tiered: Broker) -> None:
    lost = remote(9, 12, 40, epochs=((0, 12),))
    lost_id = RemoteLogSegmentId(PARTITION, uuid.UUID(int=9))
    await tiered.metadata.add_segment(
        RemoteLogSegmentMetadata(
            lost_id,
            12,
            39,
            NOW_MS,
            2,
            NOW_MS,
            lost.segment_size_in_bytes,
            lost.segment_leader_epochs,
            txn_index_empty=True,
        )
    )
    await tiered.metadata.update_segment(RemoteLogSegmentMetadataUpdate(lost_id, FINISHED, NOW_MS, 2))
    for kind in (None, *IndexType):
        tiered.storage.objects[lost_id, kind] = bytes(lost.segment_size_in_bytes)
    # The youngest segment says what the lineage is: it is one of a later epoch that ends below.
    young_id = RemoteLogSegmentId(PARTITION, uuid.UUID(int=10))
    young = RemoteLogSegmentMetadata(
        young_id, 18, 19, NOW_MS, 2, NOW_MS, 3, remote(10, 18, 20, epochs=((1, 18),)).segment_leader_epochs
    )
    await tiered.metadata.add_segment(young)
    await tiered.metadata.update_segment(RemoteLogSegmentMetadataUpdate(young_id, FINISHED, NOW_MS, 2))
    for kind in (None, *IndexType):
        tiered.storage.objects[young_id, kind] = b"abc"
    tiered.storage.objects[young_id, IndexType.LEADER_EPOCH] = b"0\n2\n0 0\n1 18\n"
    report = await run(tiered, deep=False)
    assert [(finding.kind, finding.subject) for finding in report.findings] == [(FindingKind.OFF_LINEAGE, str(lost_id))]
    assert report.is_sound


def listed(segment: RemoteLogSegmentMetadata, kind: IndexType | None = None, size: int | None = None) -> RemoteObject:
    size = segment.segment_size_in_bytes if size is None else size
    return RemoteObject(f"{segment.segment_id}.{kind}", size, segment.segment_id, kind, kind is None)


def test_leftovers_and_foreign_objects_are_no_damage() -> None:
    started = remote(1, 0, 10, state=STARTED, at_ms=0)
    deleting = remote(2, 10, 20, state=DELETING, at_ms=0)
    fresh = remote(3, 20, 30, state=STARTED, at_ms=HOUR_MS)
    unknown = remote(4, 30, 40)
    foreign = RemoteObject("README", 7, None, None, False)
    findings = compare(
        [started, deleting, fresh],
        [listed(started), listed(fresh), listed(unknown), listed(unknown, IndexType.OFFSET), foreign],
        now_ms=HOUR_MS + 1,
        stale_after_ms=HOUR_MS,
    )
    assert [finding.kind for finding in findings] == [
        FindingKind.FOREIGN,
        FindingKind.ORPHAN,
        FindingKind.ORPHAN,
        FindingKind.STALE_COPY,
        FindingKind.STALE_DELETION,
    ]
    assert not any(finding.kind.is_damage for finding in findings)


async def test_store_that_cannot_be_asked_is_an_error_not_a_finding(tiered: Broker) -> None:
    tiered.storage.faults = FailNth(1)
    with pytest.raises(RemoteStorageError):
        await run(tiered)


@pytest.mark.parametrize("topic", SAMPLES_IN_TIER)
async def test_tier_written_by_apache_kafka_is_sound(topic: str) -> None:
    partition, shared = sample_ledger_events(topic)
    ledger = RemoteLogLedger(partition)
    for event in shared.events(partition):
        ledger.apply(event)
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    report = await audit_ledger(ledger, storage, now_ms=NOW_MS, deep=True)
    assert report.findings == ()
    assert report.segments > 3
    await storage.close()
