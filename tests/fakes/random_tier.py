"""A topic's history made of random steps, written out as tiers and log directories, and what a consumer sees of it.

    steps -> batches, in offset order -> segments (cut anywhere between two batches) -> files in a layout

The consumer here goes batch by batch, with nothing but markers in mind: it knows no index, snapshot or manifest.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from tierfetch.log.core import (
    EpochEntry,
    OffsetIndex,
    ProducerStateManager,
    TimeIndex,
    TransactionIndex,
    encode_offsets,
    encode_partition_metadata,
    encode_snapshot,
)
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.log.core.producers import CompletedTransaction
from tierfetch.protocol.records import Compression, Record, TimestampType, build_batch, parse_header
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.topics import TopicIdPartition, uuid_to_text
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata

PARTITION = TopicIdPartition(uuid.UUID(int=0xA17E), "random", 0)
START_MS = 1_700_000_000_000
PRODUCERS = 3
HUGE_RECORDS = 3000

Step = tuple[str, int, int]
"""What, by which producer (or by none, if negative), how many records or how large."""

steps = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "transactional", "commit", "abort", "epoch", "huge", "appended"]),
        st.integers(-1, PRODUCERS - 1),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=40,
)


@dataclass(frozen=True)
class Batch:
    """`records` is empty for a marker, and has gaps where compaction went over it."""

    data: bytes
    base_offset: int
    next_offset: int
    epoch: int
    producer_id: int
    is_transactional: bool
    records: tuple[Record, ...]
    marker: ControlType | None = None


@dataclass
class History:
    """Batches of one replica, from offset 0 or `start_offset` on."""

    batches: list[Batch] = field(default_factory=list)
    epochs: list[EpochEntry] = field(default_factory=lambda: [EpochEntry(0, 0)])

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def diverged_at(self, index: int) -> History:
        """The replica that took over with the first `index` batches."""
        batches = self.batches[:index]
        end = batches[-1].next_offset if batches else 0
        return History(list(batches), [entry for entry in self.epochs if entry.start_offset < end or not entry.epoch])

    def lead(self, epoch: int) -> None:
        self.epochs = [entry for entry in self.epochs if entry.start_offset < self.end_offset]
        self.epochs.append(EpochEntry(epoch, self.end_offset))

    def run(self, some: Iterable[Step], rng: random.Random) -> History:
        open_: set[int] = {batch.producer_id for batch in self.batches if batch.is_transactional and not batch.marker}
        open_ = {producer for producer in open_ if not self._is_ended(producer)}
        for kind, producer, size in some:
            self._step(kind, producer, size, open_, rng)
        return self

    def _is_ended(self, producer: int) -> bool:
        last = next(
            batch for batch in reversed(self.batches) if batch.producer_id == producer and batch.is_transactional
        )
        return last.marker is not None

    def _step(self, kind: str, producer: int, size: int, open_: set[int], rng: random.Random) -> None:
        match kind:
            case "epoch":
                self.lead(self.epochs[-1].epoch + size)
            case "commit" | "abort":
                if producer in open_:
                    open_.discard(producer)
                    self._add_marker(ControlType.COMMIT if kind == "commit" else ControlType.ABORT, producer)
            case "transactional":
                if producer >= 0:
                    open_.add(producer)
                    self._add(producer, size, rng, is_transactional=True)
            case "huge":
                self._add(-1, HUGE_RECORDS, rng)
            case _:
                self._add(-1 if producer in open_ else producer, size, rng, appended=kind == "appended")

    def _add(
        self, producer: int, size: int, rng: random.Random, *, is_transactional: bool = False, appended: bool = False
    ) -> None:
        base, epoch = self.end_offset, self.epochs[-1].epoch
        records = [_record(base + delta, rng) for delta in range(size)]
        kept = records if size > 50 or rng.random() < 0.8 else [one for one in records[:-1] if rng.random() < 0.6]
        kept = [*kept, records[-1]] if kept is not records else kept  # what compaction leaves
        compression = rng.choice(list(Compression))
        data = build_batch(
            kept,
            base_offset=base,
            partition_leader_epoch=epoch,
            compression=compression,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=base if producer >= 0 else -1,
            is_transactional=is_transactional,
            timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        )
        latest = max(one.timestamp for one in kept)
        seen = tuple(one._replace(timestamp=latest) if appended else one for one in kept)
        self.batches.append(Batch(data, base, base + size, epoch, producer, is_transactional, seen))

    def _add_marker(self, kind: ControlType, producer: int) -> None:
        base, epoch = self.end_offset, self.epochs[-1].epoch
        data = build_end_transaction_batch(
            EndTransactionMarker(kind, 1),
            base_offset=base,
            partition_leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=START_MS + base,
        )
        self.batches.append(Batch(data, base, base + 1, epoch, producer, True, (), kind))


def _record(offset: int, rng: random.Random) -> Record:
    key = None if rng.random() < 0.2 else b"key %d" % (offset % 17)
    value = None if rng.random() < 0.1 else b"%d " % offset * rng.choice((0, 1, 1, 3, 40))
    headers = tuple((name, rng.choice((None, b"", b"x"))) for name in rng.choice(((), (), ("a",), ("a", "b", "a"))))
    return Record(offset, START_MS + rng.randrange(1000), key, value, headers)


def consumed(history: History, isolation: str, end_offset: int | None = None) -> list[Record]:
    """What a consumer sees of the log that ends at `end_offset` (exclusive)."""
    batches = [one for one in history.batches if end_offset is None or one.next_offset <= end_offset]
    if isolation == "read_uncommitted":
        return [record for batch in batches for record in batch.records]
    pending: dict[int, list[Batch]] = {}
    aborted: set[int] = set()
    for batch in batches:
        if batch.marker is not None:
            ended = pending.pop(batch.producer_id, [])
            if batch.marker is ControlType.ABORT:
                aborted.update(one.base_offset for one in ended)
        elif batch.is_transactional:
            pending.setdefault(batch.producer_id, []).append(batch)
    stable = min((some[0].base_offset for some in pending.values()), default=2**63)
    visible = [batch for batch in batches if batch.base_offset < stable and batch.base_offset not in aborted]
    return [record for batch in visible for record in batch.records]


@dataclass(frozen=True)
class Segment:
    """What one replica copies, or has on its disk."""

    metadata: RemoteLogSegmentMetadata
    log: bytes
    indexes: dict[IndexType, bytes]


def segments(history: History, cuts: Sequence[int], rng: random.Random) -> Iterator[Segment]:
    """The batches between two `cuts` (numbers of batches, rising) make one segment."""
    producers = ProducerStateManager()
    borders = sorted({min(cut, len(history.batches)) for cut in cuts} | {0})
    for begin, end in zip(borders, [*borders[1:], len(history.batches)], strict=True):
        if begin < end:
            yield _segment(history, history.batches[begin:end], producers, rng)


def _segment(
    history: History, batches: Sequence[Batch], producers: ProducerStateManager, rng: random.Random
) -> Segment:
    start, end = batches[0].base_offset, batches[-1].next_offset
    offsets, times, transactions = OffsetIndex(start), TimeIndex(start), TransactionIndex()
    log, latest = b"", -1
    for batch in batches:
        header = parse_header(batch.data)
        if log and rng.random() < 0.5:
            offsets.append(header.last_offset, len(log))
        if header.max_timestamp > latest:
            latest = header.max_timestamp
            times.maybe_append(latest, header.last_offset)
        completed = _apply(producers, batch)
        if completed is not None and completed.is_aborted:
            transactions.append(completed.aborted)
        log += batch.data
    checkpoint = [entry for entry in history.epochs if entry.start_offset < end]
    indexes = {
        IndexType.OFFSET: offsets.encode(),
        IndexType.TIMESTAMP: times.encode(),
        IndexType.PRODUCER_SNAPSHOT: encode_snapshot(producers.entries.values()),
        IndexType.LEADER_EPOCH: encode_leader_epochs(checkpoint),
    }
    if len(transactions):
        indexes[IndexType.TRANSACTION] = transactions.encode()
    inside = [entry for entry in checkpoint if entry.start_offset > start]
    before = max((entry for entry in checkpoint if entry.start_offset <= start), key=lambda entry: entry.epoch)
    metadata = RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, uuid.UUID(int=rng.getrandbits(128))),
        start_offset=start,
        end_offset=end - 1,
        max_timestamp_ms=latest,
        broker_id=1,
        event_timestamp_ms=START_MS,
        segment_size_in_bytes=len(log),
        segment_leader_epochs=(EpochEntry(before.epoch, start), *inside),
        txn_index_empty=not len(transactions),
    )
    return Segment(metadata, log, indexes)


def write_kafka_tier(root: Path, some: Iterable[Segment]) -> None:
    """In the layout of LocalTieredStorage."""
    for segment in some:
        tip = segment.metadata.segment_id.topic_id_partition
        directory = root / "kafka-tiered-storage" / str(tip)
        directory.mkdir(parents=True, exist_ok=True)
        stem = f"{segment.metadata.start_offset:020d}-{uuid_to_text(segment.metadata.segment_id.id)}"
        (directory / f"{stem}.log").write_bytes(segment.log)
        for kind, data in segment.indexes.items():
            (directory / f"{stem}.{kind.value}").write_bytes(data)


def write_log_directory(root: Path, history: History, some: Sequence[Segment], high_watermark: int | None) -> None:
    """A broker's, with the snapshots at the start of each segment: also of the first one that it has kept."""
    name = PARTITION.topic_partition
    directory = root / str(name)
    directory.mkdir(parents=True)
    (directory / "partition.metadata").write_bytes(encode_partition_metadata(PARTITION.topic_id))
    (directory / "leader-epoch-checkpoint").write_bytes(encode_leader_epochs(history.epochs))
    (root / "meta.properties").write_text("version=1\n")
    if high_watermark is not None:
        (root / "replication-offset-checkpoint").write_bytes(encode_offsets({name: high_watermark}))
    suffixes = {IndexType.OFFSET: "index", IndexType.TIMESTAMP: "timeindex", IndexType.TRANSACTION: "txnindex"}
    for segment in some:
        stem = directory / f"{segment.metadata.start_offset:020d}"
        stem.with_suffix(".log").write_bytes(segment.log)
        for kind, suffix in suffixes.items():
            if kind in segment.indexes:
                stem.with_suffix(f".{suffix}").write_bytes(segment.indexes[kind])
        if segment.metadata.start_offset:
            stem.with_suffix(".snapshot").write_bytes(_producers_at(history, segment.metadata.start_offset))


def _producers_at(history: History, offset: int) -> bytes:
    producers = ProducerStateManager()
    for batch in history.batches:
        if batch.next_offset <= offset:
            _apply(producers, batch)
    return encode_snapshot(producers.entries.values())


def _apply(producers: ProducerStateManager, batch: Batch) -> CompletedTransaction | None:
    kind = None if batch.marker is None else EndTransactionMarker(batch.marker, 1)
    return producers.apply(parse_header(batch.data), marker=kind)
