"""The checks of bytes before a leader appends them as a batch. Pure.

The header and the CRC are checked; records only in a compacted topic, where one without a key would be lost: the
appender reads them in slices (`check_key`). A wrong body harms its readers, not the log. So these of Kafka's checks are
absent: that record offsets in a batch are consecutive, that each record's timestamp is near the clock.

| found | answer |
|---|---|
| an impossible header, a wrong CRC | CORRUPT_MESSAGE: the producer sends it again |
| a batch cut off, a second batch, a format before v2 | INVALID_RECORD |
| a base offset that is not 0, from a client | INVALID_RECORD |
| more bytes than `max.message.bytes`, `segment.bytes` | MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE |
| no records, or a count that is not the offset range | INVALID_RECORD |
| more records than its bytes can hold (`protocol.records.budget`) | CORRUPT_MESSAGE |
| a record without a key for a compacted topic, from a client | INVALID_RECORD |
| a control batch from a client; a transaction without a producer id | INVALID_RECORD |
| a timestamp outside `message.timestamp.{before,after}.max.ms`, or of the log-append type | INVALID_TIMESTAMP |
"""

from __future__ import annotations

from typing import Final

from ...protocol import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    SkimmedRecord,
    TimestampType,
    check_batch,
    check_record_count,
    decompressed_bytes_max,
    iter_batches,
    parse_header,
)
from .config import LogConfig
from .producer_state import AppendOrigin

OFFSET_MAX: Final = 2**63 - 1
"""The largest end offset of a log."""


def check_leader_batch(data: Buffer, config: LogConfig, origin: AppendOrigin, now_ms: int) -> BatchHeader:
    """Return the header of the one batch in `data`; raise KafkaError as in the table."""
    header, size_bytes = _only_header(data), len(data)
    check_size(size_bytes, config)
    # A batch with a wrong CRC, once acknowledged, could never be read again.
    check_batch(data, 0, header)
    _check_contents(header, origin)
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        _check_timestamps(header, config, now_ms)
    check_record_count(header, decompressed_bytes_max(config.max_message_bytes))
    return header


def check_size(size_bytes: int, config: LogConfig) -> None:
    """Raise KafkaError if a batch of that size may not be appended."""
    if size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a batch of {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.record_list_too_large,
            f"a batch of {size_bytes} bytes, segment.bytes is {config.segment_bytes}",
        )


def check_key(record: SkimmedRecord) -> None:
    """Raise INVALID_RECORD unless a record for a compacted topic has a key."""
    if not record.has_key:
        raise KafkaError(ErrorCode.invalid_record, "a record without a key: a compacted topic requires keys")


def _only_header(data: Buffer) -> BatchHeader:
    if len(data) < BATCH_HEADER_SIZE:
        raise KafkaError(ErrorCode.invalid_record, f"{len(data)} bytes, expected a batch header of {BATCH_HEADER_SIZE}")
    if data[MAGIC_AT] < MAGIC:
        raise KafkaError(ErrorCode.invalid_record, f"record batches of magic {data[MAGIC_AT]} are no longer supported")
    header = parse_header(data)
    if header.size_bytes != len(data):
        raise KafkaError(
            ErrorCode.invalid_record,
            f"expected exactly one record batch, found {len(data)} bytes where the first batch has {header.size_bytes}",
        )
    return header


def _check_contents(header: BatchHeader, origin: AppendOrigin) -> None:
    if header.record_count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"{header.record_count} records in a batch whose last offset delta is {header.last_offset_delta}",
        )
    if header.base_offset != 0 and origin is AppendOrigin.CLIENT:
        raise KafkaError(ErrorCode.invalid_record, f"base offset {header.base_offset}, expected 0")
    if header.attributes & CONTROL_BIT and origin is AppendOrigin.CLIENT:
        raise KafkaError(ErrorCode.invalid_record, "clients must not write control batches")
    if header.attributes & TRANSACTIONAL_BIT and not header.has_producer_id:
        raise KafkaError(ErrorCode.invalid_record, "a transactional batch needs a producer id")


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.attributes & LOG_APPEND_TIME_BIT:
        raise KafkaError(
            ErrorCode.invalid_timestamp, "message.timestamp.type is CreateTime, the batch has log append time"
        )
    latest = now_ms + config.message_timestamp_after_max_ms
    earliest = now_ms - config.message_timestamp_before_max_ms
    if header.max_timestamp > latest or 0 <= header.base_timestamp < earliest:
        raise KafkaError(
            ErrorCode.invalid_timestamp,
            f"timestamps {header.base_timestamp}..{header.max_timestamp} must be in {earliest}..{latest}",
        )


def check_follower_batches(data: Buffer) -> list[BatchHeader]:
    """Return the headers of the whole batches that fill `data`, CRCs checked; else raise CorruptRecordError."""
    headers, end = [], 0
    for position, header in iter_batches(data):
        headers.append(header)
        end = position + LOG_OVERHEAD + header.batch_length
    if end != len(data):
        left = len(data) - end
        needed = parse_header(data, end).size_bytes if left >= BATCH_HEADER_SIZE else BATCH_HEADER_SIZE
        raise CorruptRecordError(f"a batch ends early: {left} bytes left, expected {needed}", end)
    return headers


def check_follower_order(headers: list[BatchHeader], next_offset: int, latest_epoch: int) -> None:
    """Raise INVALID_RECORD unless offsets rise from `next_offset`, to `OFFSET_MAX` at most, and epochs do not fall
    below `latest_epoch`.
    """
    for header in headers:
        epoch = header.partition_leader_epoch
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"the leader sent a batch at offset {header.base_offset}, expected {next_offset} or more",
            )
        if epoch < latest_epoch or epoch < 0:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"the leader sent a batch of epoch {epoch} at offset {header.base_offset}, after epoch {latest_epoch}",
            )
        next_offset, latest_epoch = header.base_offset + header.last_offset_delta + 1, epoch
        if next_offset > OFFSET_MAX:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"the leader sent a batch at offset {header.base_offset} that ends above offset {OFFSET_MAX}",
            )
