"""What one batch may take: bytes when decompressed, and elements, which are its records and their headers.

A few hundred compressed bytes can hold millions of either, and each becomes a Python object. The limits:

| what | limit |
|---|---|
| bytes, decompressed, where the topic is known | 32 times `max.message.bytes`, from 16 to 128 MiB; never less than it |
| bytes, decompressed, where it is not (`dump-log`, Spark, the simulator) | 128 MiB |
| records that a header may claim | as many as fit into the decompressed bytes, at most 1,000,000 |
| headers that are built | 1,000,000 a batch; readers that need none skip them by the record's length |

Producers bound a batch by its compressed size (`batch.size` is multiplied by the estimated ratio), so the factor leaves
room for text that compresses well.
"""

from __future__ import annotations

from typing import Final

from ..errors import CorruptRecordError
from .batch_header import BATCH_HEADER_SIZE, BatchHeader
from .compression import Compression

DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""What the records of one batch may take when decompressed, where the topic's limit is not known."""
DECOMPRESSED_BYTES_MIN: Final = 16 * 1024 * 1024
DECOMPRESSED_PER_BYTE: Final = 32
BATCH_ELEMENTS_MAX: Final = 1_000_000
"""Records of one batch, and headers of its records, together."""
RECORD_SIZE_MIN: Final = 7
"""Length, attributes, two deltas, key, value and header count take one byte each at least."""

CONTROL_BYTES_MAX: Final = 1024 * 1024
"""What a control batch may take when decompressed; Kafka's have one record of some bytes and are not compressed."""

_RATIO_MAX: Final = {Compression.NONE: 1, Compression.GZIP: 1032, Compression.SNAPPY: 22, Compression.LZ4: 255}
"""The bytes that one compressed byte can become; zstd has no bound worth a name."""


def decompressed_bytes_max(max_message_bytes: int) -> int:
    """Return the limit for the batches of a topic with that `max.message.bytes`."""
    in_proportion = min(max_message_bytes * DECOMPRESSED_PER_BYTE, DECOMPRESSED_BYTES_MAX)
    return max(DECOMPRESSED_BYTES_MIN, in_proportion, max_message_bytes)


def check_record_count(header: BatchHeader, bytes_max: int) -> None:
    """CorruptRecordError if a batch claims more records than its bytes can hold."""
    most = records_max(header, bytes_max)
    if header.record_count > most:
        raise CorruptRecordError(
            f"{header.record_count} records in a batch of {header.size_bytes} bytes, which can hold {most}"
        )


def records_max(header: BatchHeader, bytes_max: int) -> int:
    """Return how many records a batch of this size and codec can hold, within `bytes_max` decompressed bytes."""
    ratio = _RATIO_MAX.get(header.compression)
    payload = header.size_bytes - BATCH_HEADER_SIZE
    size = bytes_max if ratio is None else min(payload * ratio, bytes_max)
    return min(size // RECORD_SIZE_MIN, BATCH_ELEMENTS_MAX)
