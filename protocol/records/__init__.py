"""Record batches, format v2: this module turns a whole batch into records and back.

batch_header    parses the header, walks a buffer of batches, checks the CRC, and stamps a batch in place.
record_body     encodes and decodes the records inside a batch.
skim            decodes records without their headers.
budget          bounds what one batch may take: decompressed bytes, records, headers.
compression     is the codecs.
control         encodes and decodes transaction markers and other control records.
quorum_records  encodes and decodes the control records of the KRaft quorum.
compacted       rebuilds a batch after compaction has removed some of its records.

Other folders import what is exported here; control records and compaction are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import lt
from typing import TYPE_CHECKING

from ...doors import lazy_door
from ..errors import CorruptRecordError
from .batch_header import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    BatchChecksum,
    BatchHeader,
    Buffer,
    TimestampType,
    check_batch,
    check_complete,
    has_transactional_bit,
    iter_batches,
    parse_header,
    sealed,
    stamp_batch,
)
from .budget import (
    BATCH_ELEMENTS_MAX,
    CONTROL_BYTES_MAX,
    DECOMPRESSED_BYTES_MAX,
    DECOMPRESSED_BYTES_MIN,
    check_record_count,
    decompressed_bytes_max,
)
from .compression import Compression, compress, decompress
from .record_body import Record, decode_records, encode_records, encode_skimmed
from .skim import SkimmedRecord, skim

if TYPE_CHECKING:
    from .compacted import compacted_batch, delete_horizon_of, empty_batch, with_codec
    from .control import (
        ControlType,
        EndTransactionMarker,
        build_end_transaction_batch,
        control_type,
        parse_end_transaction_marker,
        usual_marker,
    )
    from .quorum_records import (
        WRITTEN_VERSION,
        KRaftVersion,
        LeaderChange,
        QuorumRecord,
        SnapshotFooter,
        SnapshotHeader,
        Voter,
        VoterEndpoint,
        Voters,
        build_quorum_batch,
        parse_quorum_record,
    )

__all__ = [
    "BATCH_ELEMENTS_MAX",
    "BATCH_HEADER_SIZE",
    "CONTROL_BIT",
    "CONTROL_BYTES_MAX",
    "CRC_START",
    "DECOMPRESSED_BYTES_MAX",
    "DECOMPRESSED_BYTES_MIN",
    "LOG_APPEND_TIME_BIT",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAGIC_AT",
    "SEQUENCE_MAX",
    "TRANSACTIONAL_BIT",
    "WRITTEN_VERSION",
    "BatchChecksum",
    "BatchHeader",
    "Buffer",
    "Compression",
    "ControlType",
    "CorruptRecordError",
    "EndTransactionMarker",
    "KRaftVersion",
    "LeaderChange",
    "QuorumRecord",
    "Record",
    "SkimmedRecord",
    "SnapshotFooter",
    "SnapshotHeader",
    "TimestampType",
    "Voter",
    "VoterEndpoint",
    "Voters",
    "build_batch",
    "build_end_transaction_batch",
    "build_quorum_batch",
    "check_batch",
    "check_record_count",
    "compacted_batch",
    "control_type",
    "decompress",
    "decompressed",
    "decompressed_bytes_max",
    "delete_horizon_of",
    "empty_batch",
    "encode_skimmed",
    "has_transactional_bit",
    "iter_batches",
    "iter_records",
    "parse_end_transaction_marker",
    "parse_header",
    "parse_quorum_record",
    "skim_records",
    "stamp_batch",
    "usual_marker",
    "with_codec",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "ControlType": "control",
            "EndTransactionMarker": "control",
            "KRaftVersion": "quorum_records",
            "LeaderChange": "quorum_records",
            "QuorumRecord": "quorum_records",
            "SnapshotFooter": "quorum_records",
            "SnapshotHeader": "quorum_records",
            "Voter": "quorum_records",
            "VoterEndpoint": "quorum_records",
            "Voters": "quorum_records",
            "WRITTEN_VERSION": "quorum_records",
            "build_end_transaction_batch": "control",
            "build_quorum_batch": "quorum_records",
            "compacted_batch": "compacted",
            "control_type": "control",
            "delete_horizon_of": "compacted",
            "empty_batch": "compacted",
            "parse_end_transaction_marker": "control",
            "usual_marker": "control",
            "parse_quorum_record": "quorum_records",
            "with_codec": "compacted",
        },
    )


def iter_records(
    buf: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """The records of the batch at `position`, control records included; the CRC is not looked at.

    CorruptRecordError if the batch ends early, is malformed, or holds more than `decompressed_bytes_max`; records
    before the fault have been given out by then.
    """
    header = header or parse_header(buf, position)
    return decode_records(decompressed(buf, position, header, decompressed_bytes_max), header, position)


def skim_records(
    buf: Buffer, position: int, header: BatchHeader, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[SkimmedRecord]:
    """Return the records of the batch at `position` as `iter_records` does, without their headers."""
    return skim(decompressed(buf, position, header, decompressed_bytes_max), header, position)


def decompressed(buf: Buffer, position: int, header: BatchHeader, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the encoded records of a batch. CorruptRecordError if they are incomplete or malformed, or take more than
    `bytes_max` when decompressed; the error's cause is a DecompressedTooLargeError then.
    """
    check_complete(buf, position, header)
    end = position + header.size_bytes
    with memoryview(buf) as view, view[position + BATCH_HEADER_SIZE : end] as payload:
        try:
            data = decompress(header.compression, payload, limit=bytes_max)
        except ValueError as error:
            raise CorruptRecordError(f"batch at offset {header.base_offset}: {error}", position) from error
    return data


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    partition_leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch of at least one record, offsets rising from `base_offset` or above."""
    assert records, f"a batch at offset {base_offset} needs at least one record"
    offsets = [record.offset for record in records]
    assert offsets[0] >= base_offset, f"offset {offsets[0]} is below the base offset {base_offset}"
    assert all(map(lt, offsets, offsets[1:])), f"offsets do not rise: {offsets}"
    base_timestamp = records[0].timestamp
    payload = compress(compression, encode_records(records, base_offset, base_timestamp))
    attributes = (
        compression
        | LOG_APPEND_TIME_BIT * timestamp_type
        | TRANSACTIONAL_BIT * is_transactional
        | CONTROL_BIT * is_control
    )
    header = HEADER.pack(
        base_offset,
        BATCH_HEADER_SIZE - LOG_OVERHEAD + len(payload),
        partition_leader_epoch,
        MAGIC,
        0,  # the CRC, not known yet
        attributes,
        offsets[-1] - base_offset,
        base_timestamp,
        max([record.timestamp for record in records]),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return sealed(header, payload)
