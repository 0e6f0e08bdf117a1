"""aiokafka's own record code as a second opinion: it reads what is built here, and the reverse."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tierfetch.protocol.records import Compression, Record, build_batch, iter_batches, iter_records

RECORDS = [
    Record(50 + index, 1_700_000_000_000 + index, b"key-%d" % index if index % 3 else None, b"value " * index, headers)
    for index, headers in enumerate([(), (("h", b"1"),), (("h", None), ("h", b"")), (), (("ü", b"\x00"),)] * 100)
]


@pytest.mark.parametrize("compression", list(Compression))
def test_read_by_aiokafka(compression: Compression) -> None:
    data = build_batch(RECORDS, base_offset=50, compression=compression)
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == RECORDS


@pytest.mark.parametrize("compression", list(Compression))
def test_written_by_aiokafka(compression: Compression) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, 1, 9, 3, 12, 1 << 24)
    for record in RECORDS:
        added = builder.append(
            record.offset - 50, record.timestamp, record.key, record.value, headers=list(record.headers)
        )
        assert added is not None
    data = bytes(builder.build())
    ((_, header),) = iter_batches(data)
    assert header.compression is compression
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 12)
    assert header.is_transactional
    rebased = [record._replace(offset=record.offset - 50) for record in RECORDS]
    assert list(iter_records(data)) == rebased
