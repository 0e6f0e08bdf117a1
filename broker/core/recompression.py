"""`compression.type` other than `producer`: a batch is rewritten in the topic's codec before it is appended. Pure.

Everything that producers and transactions go by stays: producer id, epoch, sequence, attributes, records with their
timestamps and headers. A batch that has the codec already is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.records import Compression, build_batch, check_batch, iter_records, parse_header

KEEP: Final = "producer"
CODECS: Final[Mapping[str, Compression]] = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def recompressed(data: memoryview, compression_type: str) -> memoryview:
    """The batch in `data` in the codec of `compression_type`. CorruptRecordError if it is none. What is more, or less,
    than one batch is left as it is: the log refuses it.
    """
    header = parse_header(data)
    codec = CODECS[compression_type]
    if header.compression == codec or header.size_bytes != len(data):
        return data
    check_batch(data, 0, header)
    batch = build_batch(
        list(iter_records(data, 0, header)),
        base_offset=header.base_offset,
        compression=codec,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    return memoryview(bytearray(batch))
