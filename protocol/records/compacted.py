"""Batches as log compaction leaves them: some of their records gone, their offsets and their producer kept.

| what is left of a batch | how it is written |
|---|---|
| some records | offsets, producer, sequence and codec as they were; the max timestamp is that of what is left |
| none, but it is its producer's last | the header alone, uncompressed: the producer's state is in it |

A batch that holds tombstones, or the marker of a transaction of which nothing is left, gets a delete horizon: the time
from which they may go. It takes the place of the base timestamp, and bit 6 of the attributes says so (KIP-534).
"""

from __future__ import annotations

from collections.abc import Sequence

from .batch_header import (
    BATCH_HEADER_SIZE,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_OVERHEAD,
    BatchHeader,
    TimestampType,
    sealed,
)
from .compression import Compression, compress
from .record_body import Record, encode_records

NO_TIMESTAMP = -1
_CODEC_MASK = 0x07


def compacted_batch(header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None) -> bytes:
    """The batch with these of its records, at least one; `delete_horizon_ms` is the one it has from now on."""
    assert records, f"{header}: use empty_batch"
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = max(record.timestamp for record in records)
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    payload = compress(header.compression, encode_records(records, header.base_offset, base_timestamp))
    kept = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(records)
    )
    return _packed(kept, payload)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without any of its records."""
    attributes = header.attributes & ~(DELETE_HORIZON_BIT | _CODEC_MASK) | Compression.NONE
    return _packed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def delete_horizon_of(header: BatchHeader) -> int | None:
    """In ms; None if it has none."""
    return header.base_timestamp if header.has_delete_horizon else None


def _packed(header: BatchHeader, payload: bytes) -> bytes:
    length = BATCH_HEADER_SIZE - LOG_OVERHEAD + len(payload)
    return sealed(HEADER.pack(*header._replace(batch_length=length)), payload)
