"""`kafka-dump-log` reads what `log` and `protocol` write, and says of it what `tierfetch dump-log` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tierfetch.log.core import OffsetIndex, ProducerStateManager, TimeIndex, TransactionIndex
from tierfetch.protocol.records import Compression, Record, TimestampType, build_batch, parse_header
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.tests.interop.java import kafka_dump, our_dump

BASE_OFFSET = 4711
BASE_TIMESTAMP_MS = 1_700_000_000_000
ABORT = EndTransactionMarker(ControlType.ABORT, 3)
COMMIT = EndTransactionMarker(ControlType.COMMIT, 4)


def records(offset: int, count: int, size: int = 100) -> list[Record]:
    """Null and empty keys and values among them, headers, timestamps that fall."""
    return [
        Record(
            offset=offset + number,
            timestamp=BASE_TIMESTAMP_MS + offset - 3 * number,
            key=(None, b"", b"key")[number % 3],
            value=(b"v%d " % number * size, None, b"")[number % 5 % 3],
            headers=(("name", b"x"), ("name", None)) if number % 4 == 1 else (),
        )
        for number in range(count)
    ]


class SegmentWriter:
    """Files of one segment, made from the pure parts alone; an index entry for every batch but the first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = b""
        self.index = OffsetIndex(BASE_OFFSET)
        self.time_index = TimeIndex(BASE_OFFSET)
        self.transactions = TransactionIndex()
        self.producers = ProducerStateManager(BASE_OFFSET)

    @property
    def next_offset(self) -> int:
        return self.producers.map_end_offset

    def add(self, batch: bytes, marker: EndTransactionMarker | None = None) -> None:
        header = parse_header(batch)
        if self.log:
            self.index.append(header.last_offset, len(self.log))
        self.time_index.maybe_append(header.max_timestamp, header.last_offset)
        completed = self.producers.apply(header, marker=marker)
        if completed is not None and completed.is_aborted:
            self.transactions.append(completed.aborted)
        self.log += batch

    def files(self) -> list[Path]:
        stem = f"{BASE_OFFSET:020d}"
        contents = {
            f"{stem}.log": self.log,
            f"{stem}.index": self.index.encode(),
            f"{stem}.timeindex": self.time_index.encode(),
            f"{stem}.txnindex": self.transactions.encode(),
            f"{self.next_offset:020d}.snapshot": self.producers.snapshot(),
        }
        for name, content in contents.items():
            (self.directory / name).write_bytes(content)
        return [self.directory / name for name in contents]


@pytest.fixture
def segment(tmp_path: Path) -> SegmentWriter:
    """Every codec under both timestamp types, idempotent, aborted, committed and open transactions."""
    writer = SegmentWriter(tmp_path)
    for codec in Compression:
        for timestamp_type in TimestampType:
            count = 37 * (1 + codec)
            producer: dict[str, Any] = {
                "producer_id": 900 + codec,
                "producer_epoch": 2,
                "base_sequence": 37 * codec * timestamp_type,
            }
            writer.add(
                build_batch(
                    records(writer.next_offset, count),
                    base_offset=writer.next_offset,
                    partition_leader_epoch=codec,
                    compression=codec,
                    timestamp_type=timestamp_type,
                    **(producer if codec is not Compression.GZIP else {}),
                )
            )
    for number, marker in enumerate((ABORT, COMMIT, ABORT, None)):
        producer = {"producer_id": 70 + number, "producer_epoch": number}
        data = records(writer.next_offset, 3)
        writer.add(
            build_batch(
                data,
                base_offset=writer.next_offset,
                partition_leader_epoch=5,
                base_sequence=0,
                is_transactional=True,
                **producer,
            )
        )
        if marker is not None:
            stamp = {"base_offset": writer.next_offset, "timestamp_ms": BASE_TIMESTAMP_MS + 99_000 + number}
            writer.add(build_end_transaction_batch(marker, **stamp, **producer, partition_leader_epoch=5), marker)
    return writer


def test_kafka_reads_every_batch_record_and_entry(segment: SegmentWriter) -> None:
    files = segment.files()
    ours = our_dump(files, with_records=True)
    assert kafka_dump(files, "--deep-iteration", "--print-data-log") == ours
    assert len(ours[files[3]]) == 2


def test_kafka_finds_the_indexes_right(segment: SegmentWriter) -> None:
    _, index, time_index, *_ = segment.files()
    assert kafka_dump([index, time_index], "--verify-index-only") == {index: [], time_index: []}
    checked = kafka_dump([index, time_index], "--index-sanity-check")
    assert checked == {path: [f"{path} passed sanity check."] for path in (index, time_index)}


def test_a_wrong_index_is_found(segment: SegmentWriter) -> None:
    """The judge judges: Kafka complains about an entry whose offset is one too high."""
    position = len(segment.log)
    segment.add(build_batch(records(segment.next_offset, 1), base_offset=segment.next_offset))
    segment.index.truncate_to(segment.next_offset - 1)
    segment.index.append(segment.next_offset, position)
    _, index, *_ = segment.files()
    assert kafka_dump([index], "--verify-index-only")[index] != []
