"""What the files of a log hold, as lines of text or as JSON-ready rows.

The text is that of `kafka-dump-log`, word for word, so that `diff` can compare the two; text from records is escaped
where it is not printable. The keys of the rows are stable. A file of batches is read from front to back, one batch in
memory at a time; indexes and checkpoints are small and read whole.

Faults: CorruptRecordError with the batch's position in the file, CorruptFileError with the file's name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, Final

from ..light_dataclass import dataclass
from ..log.core import (
    LEADER_EPOCH_CHECKPOINT,
    CorruptFileError,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    check_bytes,
    decode_leader_epochs,
    decode_snapshot,
    file_bytes_max,
)
from ..protocol import CorruptRecordError
from ..protocol.records import (
    BATCH_HEADER_SIZE,
    BatchHeader,
    Record,
    TimestampType,
    check_batch,
    iter_records,
    parse_header,
)
from ..quorum.storage import parse_snapshot_name
from .control_text import control_text

Row = dict[str, object]
ValueText = Callable[[bytes], str]

BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""A larger batch is taken for a damaged length: no broker takes one, and it would have to be held in memory."""

_FILE_NAME = re.compile(
    r"(?:(?P<offset>\d{1,20})(?=[-_.]))?.*[.](?P<kind>log|checkpoint|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"
    r"(?:[.](?:deleted|swap|cleaned))?"
)
_TIMESTAMP_NAMES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class LogFile:
    """What a file's name says. `base_offset` is None where the name does not begin with one."""

    path: str
    kind: str
    base_offset: int | None

    @property
    def holds_batches(self) -> bool:
        return self.kind in {"log", "checkpoint"}


def parse_path(path: str) -> LogFile:
    """Parse the names that brokers, tiers and index caches give; ValueError for any other."""
    name = PurePath(path).name
    if name == LEADER_EPOCH_CHECKPOINT:
        return LogFile(path, "leader_epoch_checkpoint", None)
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"{path}: unknown kind of file: a name ends with .log, .index, .timeindex, .txnindex, .snapshot or"
            f" .checkpoint, or is {LEADER_EPOCH_CHECKPOINT}"
        )
    return LogFile(path, match["kind"], None if match["offset"] is None else int(match["offset"]))


def text_lines(
    log_file: LogFile, file: BinaryIO, *, with_records: bool, value_text: ValueText | None = None
) -> Iterator[str]:
    """As `kafka-dump-log` prints them, after a line that names the file. `value_text` shows the values of records."""
    yield f"Dumping {log_file.path}"
    if not log_file.holds_batches:
        for row in entry_rows(log_file, file):
            yield _entry_text(row)
        return
    if log_file.kind == "log" and log_file.base_offset is not None:
        yield f"Log starting offset: {log_file.base_offset}"
    snapshot = parse_snapshot_name(PurePath(log_file.path).name)
    if snapshot is not None:
        yield f"Snapshot end offset: {snapshot[0].end_offset}, epoch: {snapshot[0].epoch}"
    for position, header, batch in read_batches(file):
        yield _batch_text(position, header)
        if with_records:
            with _located(position):
                for record in iter_records(batch, 0, header):
                    yield _record_text(header, record, value_text or _text)


def batch_rows(file: BinaryIO) -> Iterator[Row]:
    for position, header, _ in read_batches(file):
        yield {
            "position": position,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "count": header.record_count,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "leader_epoch": header.partition_leader_epoch,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
            "timestamp_type": _TIMESTAMP_NAMES[header.timestamp_type],
            "max_timestamp": header.max_timestamp,
            "size_bytes": header.size_bytes,
            "codec": header.compression.name.lower(),
            "crc": header.crc,
        }


def record_rows(file: BinaryIO) -> Iterator[Row]:
    """The records of all batches, control records included; bytes in base64."""
    for position, header, batch in read_batches(file):
        with _located(position):
            for record in iter_records(batch, 0, header):
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _base64(record.key),
                    "value": _base64(record.value),
                    "headers": [[name, _base64(value)] for name, value in record.headers],
                    "producer_id": header.producer_id,
                    "leader_epoch": header.partition_leader_epoch,
                    "control": header.is_control,
                    "transactional": header.is_transactional,
                    "codec": header.compression.name.lower(),
                }


def entry_rows(log_file: LogFile, file: BinaryIO) -> Iterator[Row]:
    """The entries of an index or a checkpoint. CorruptFileError for one larger than any of its kind."""
    bytes_max = file_bytes_max(f".{log_file.kind}")
    data = file.read(bytes_max + 1)
    check_bytes(log_file.path, len(data), bytes_max)
    return _ENTRY_ROWS[log_file.kind](data, log_file)


def read_batches(file: BinaryIO) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """`(position, header, batch)`, each CRC checked. Bytes at the end that are no whole batch are a fault too."""
    position = 0
    while head := file.read(BATCH_HEADER_SIZE):
        with _located(position):
            header = parse_header(head)
            if header.size_bytes > BATCH_BYTES_MAX:
                raise CorruptRecordError(f"batch of {header.size_bytes} bytes: more than {BATCH_BYTES_MAX} is damage")
            batch = head + file.read(header.size_bytes - BATCH_HEADER_SIZE)
            check_batch(batch, 0, header)
        yield position, header, batch
        position += header.size_bytes


@contextmanager
def _located(position: int) -> Iterator[None]:
    """Faults of the batch that was read from `position` name that position."""
    try:
        yield
    except CorruptRecordError as error:
        raise error.at(position) from error


def _batch_text(position: int, header: BatchHeader) -> str:
    horizon = f"[{header.base_timestamp}]" if header.has_delete_horizon else ".empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)}"
        f" deleteHorizonMs: OptionalLong{horizon} position: {position}"
        f" {_TIMESTAMP_NAMES[header.timestamp_type]}: {header.max_timestamp} size: {header.size_bytes}"
        f" magic: {header.magic} compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: true"
    )


def _record_text(header: BatchHeader, record: Record, value_text: ValueText) -> str:
    sequence = header._replace(last_offset_delta=record.offset - header.base_offset).last_sequence
    names = ",".join(_printable(name) for name, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_TIMESTAMP_NAMES[header.timestamp_type]}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}]"
    )
    if header.is_control:
        return f"{line} {control_text(record)}"
    key = "" if record.key is None else f" key: {_text(record.key)}"
    payload = "" if record.value is None else f" payload: {value_text(record.value)}"
    return line + key + payload


def _entry_text(row: Row) -> str:
    parts = []
    for key, value in row.items():
        if key == "current_txn_first_offset":
            parts.append(f"{_camel(key)}: OptionalLong{'.empty' if value is None else f'[{value}]'}")
        elif value is not None:
            parts.append(f"{_camel(key)}: {value}")
    return " ".join(parts)


def _offset_index_rows(data: bytes, log_file: LogFile) -> Iterator[Row]:
    for entry in OffsetIndex.decode(data, _base_offset(log_file), name=log_file.path):
        yield {"offset": entry.offset, "position": entry.position}


def _time_index_rows(data: bytes, log_file: LogFile) -> Iterator[Row]:
    for entry in TimeIndex.decode(data, _base_offset(log_file), name=log_file.path):
        yield {"timestamp": entry.timestamp, "offset": entry.offset}


def _transaction_index_rows(data: bytes, log_file: LogFile) -> Iterator[Row]:
    for aborted in TransactionIndex.decode(data, name=log_file.path):
        yield {
            "version": 0,
            "producer_id": aborted.producer_id,
            "first_offset": aborted.first_offset,
            "last_offset": aborted.last_offset,
            "last_stable_offset": aborted.last_stable_offset,
        }


def _snapshot_rows(data: bytes, log_file: LogFile) -> Iterator[Row]:
    """The fields of the last batch are null for a producer that has none."""
    for entry in decode_snapshot(data, name=log_file.path):
        batch = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.current_txn_first_offset,
            "last_timestamp": entry.last_timestamp_ms,
            "first_sequence": batch and batch.first_sequence,
            "last_sequence": batch and batch.last_sequence,
            "last_offset": batch and batch.last_offset,
            "offset_delta": batch and batch.offset_delta,
            "timestamp": batch and batch.timestamp_ms,
        }


def _leader_epoch_rows(data: bytes, log_file: LogFile) -> Iterator[Row]:
    for entry in decode_leader_epochs(data, name=log_file.path):
        yield {"leader_epoch": entry.epoch, "start_offset": entry.start_offset}


_ENTRY_ROWS: dict[str, Callable[[bytes, LogFile], Iterator[Row]]] = {
    "index": _offset_index_rows,
    "timeindex": _time_index_rows,
    "txnindex": _transaction_index_rows,
    "snapshot": _snapshot_rows,
    "leader_epoch_checkpoint": _leader_epoch_rows,
}


def _base_offset(log_file: LogFile) -> int:
    if log_file.base_offset is None:
        raise CorruptFileError(
            f"{log_file.path}: its name must begin with the base offset, to which entries are relative"
        )
    return log_file.base_offset


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _text(value: bytes) -> str:
    return _printable(value.decode("utf-8", "backslashreplace"))


def _printable(text: str) -> str:
    """Nothing from a record may move the cursor of a terminal or break a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _java(value: bool) -> str:
    return "true" if value else "false"


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.capitalize, rest))
