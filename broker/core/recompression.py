"""`compression.type` other than `producer`: a batch is recompressed with the topic's codec before it is appended. Pure.

Only the codec and the CRC change: the encoded records and the rest of the header stay, so nothing is decoded. What
decompresses to more than the topic allows is rejected. A batch that has the codec already is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.records import Compression, check_batch, decompressed, parse_header, with_codec

KEEP: Final = "producer"
CODECS: Final[Mapping[str, Compression]] = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def recompressed(data: memoryview, compression_type: str, bytes_max: int) -> memoryview:
    """Return the batch in `data` in the codec of `compression_type`. CorruptRecordError if it is malformed, or takes
    more than `bytes_max` when decompressed. More, or less, than one batch is returned as it is: the log rejects it.
    """
    header = parse_header(data)
    codec = CODECS[compression_type]
    if header.compression == codec or header.size_bytes != len(data):
        return data
    check_batch(data, 0, header)
    return memoryview(bytearray(with_codec(header, decompressed(data, 0, header, bytes_max), codec)))
