"""Batches that are written again: in another codec, or as log compaction leaves them, with some records removed.

| what is left of a batch | how it is written |
|---|---|
| some records | offsets, producer, sequence and codec as they were; the max timestamp is that of what is left |
| none, but it is its producer's last | the header alone, uncompressed: the producer's state is in it |

A batch that holds tombstones, or the marker of a transaction of which nothing is left, gets a delete horizon: the time
from which they may go. It takes the place of the base timestamp, and bit 6 of the attributes says so (KIP-534).
"""

from __future__ import annotations

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

NO_TIMESTAMP = -1
_CODEC_MASK = 0x07


def compacted_batch(
    header: BatchHeader,
    payload: bytes,
    *,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    delete_horizon_ms: int | None,
) -> bytes:
    """Return the batch with some of its records, at least one: `payload` is `encode_skimmed` of them, with deltas to
    `base_timestamp`, which is the delete horizon where the batch has one from now on.
    """
    assert record_count > 0, f"{header}: use empty_batch"
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    kept = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=record_count,
    )
    return _packed(kept, compress(header.compression, payload))


def with_codec(header: BatchHeader, payload: bytes, codec: Compression) -> bytes:
    """Return the batch of these encoded records in another codec."""
    return _packed(header._replace(attributes=header.attributes & ~_CODEC_MASK | codec), compress(codec, payload))


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
