"""The offset and the time index of one segment as they grow with it, entry for entry as Kafka writes them.

Before a batch that begins more than `interval_bytes` behind the start of the last batch with an entry, both indexes get
one: the batch's last offset with its position, and the largest timestamp so far with the last offset of its batch. When
the segment is closed, the largest timestamp is added to the time index, so that its last entry has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from ...protocol.records import LOG_OVERHEAD, BatchHeader, Buffer
from .errors import CorruptFileError
from .index import INDEX_BYTES_MAX, NO_TIMESTAMP, OffsetIndex, TimeIndex

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default for `index.interval.bytes`."""


class SegmentIndexes:
    """Both indexes, and what is needed to continue them."""

    __slots__ = (
        "_bytes_max",
        "bytes_since_entry",
        "interval_bytes",
        "is_full",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offset",
        "time",
    )

    def __init__(
        self, base_offset: int, *, interval_bytes: int = INDEX_INTERVAL_BYTES, bytes_max: int = INDEX_BYTES_MAX
    ) -> None:
        self.offset = OffsetIndex(base_offset, max_bytes=bytes_max)
        self.time = TimeIndex(base_offset, max_bytes=bytes_max)
        self._bytes_max = bytes_max
        self.interval_bytes = interval_bytes
        self.bytes_since_entry = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self._note_room()

    def load(self, offset_data: Buffer, time_data: Buffer, *, log_bytes: int, name: str) -> Self:
        """Take over the contents of both files; CorruptFileError if they cannot belong to a log of `log_bytes`."""
        base_offset, bytes_max = self.offset.base_offset, self._bytes_max
        self.offset = OffsetIndex.decode(offset_data, base_offset, max_bytes=bytes_max, name=f"{name}.index")
        self.time = TimeIndex.decode(time_data, base_offset, max_bytes=bytes_max, name=f"{name}.timeindex")
        last = self.offset.last_entry
        if last is not None and last.position >= log_bytes:
            raise CorruptFileError(
                f"{name}.index: its last entry points to byte {last.position}, the log has {log_bytes} bytes"
            )
        self.max_timestamp_ms = self.time.last_entry.timestamp
        self.max_timestamp_offset = self.time.last_entry.offset
        self._note_room()
        return self

    @property
    def tail_position(self) -> int:
        """Where the last batch with an entry begins: what lies from there on is not known from the indexes."""
        last = self.offset.last_entry
        return last.position if last is not None else 0

    def _note_room(self) -> None:
        """After every entry that comes or goes."""
        self.is_full = self.offset.is_full or self.time.is_full

    def account(self, headers: Iterable[BatchHeader], position: int) -> None:
        """Batches one behind another from byte `position` on, offsets rising."""
        since = self.bytes_since_entry
        for header in headers:
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms, self.max_timestamp_offset = header.max_timestamp, last_offset
            if since > self.interval_bytes:
                self.offset.append(last_offset, position)
                self.time.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
                self._note_room()
                since = 0
            size = header.batch_length + LOG_OVERHEAD
            since += size
            position += size
        self.bytes_since_entry = since

    def resume(self, headers: Iterable[BatchHeader]) -> None:
        """Go on from the last entries with the batches that lie from `tail_position` on: they get no new entries."""
        self.bytes_since_entry = 0
        for header in headers:
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.bytes_since_entry += header.size_bytes

    @property
    def has_largest_timestamp(self) -> bool:
        """Whether `close` would add nothing."""
        return self.time.last_entry.timestamp >= self.max_timestamp_ms

    def close(self) -> None:
        """Note the largest timestamp, which need not have an entry yet."""
        self.time.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        self._note_room()

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`; call `resume` with what is left from `tail_position` on."""
        self.offset.truncate_to(offset)
        self.time.truncate_to(offset)
        self.max_timestamp_ms = self.time.last_entry.timestamp
        self.max_timestamp_offset = self.time.last_entry.offset
        self._note_room()
