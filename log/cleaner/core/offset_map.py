"""The last offset of each key in a range of the log; it decides whether a record survives a cleaning.

Keys are stored as digests of 16 bytes, so memory is bounded by their number, not by their size. The map is built
upwards from the clean end, and is complete up to `end_offset`: records from there on survive whatever their key.
"""

from __future__ import annotations

import hashlib
from typing import Final

DIGEST_BYTES: Final = 16
ENTRY_BYTES: Final = 200
"""The memory cost of one key in bytes: digest, offset, slot. Kafka's table takes 24; so a buffer of
`log.cleaner.dedupe.buffer.size` holds fewer keys here, and a cleaning takes several passes sooner."""


class OffsetMap:
    """The offset map of one cleaning: room for at least one key, at most `bytes_max` of memory."""

    __slots__ = ("_keys_max", "_offsets", "end_offset")

    def __init__(self, bytes_max: int, start_offset: int) -> None:
        self._keys_max = max(1, bytes_max // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.end_offset = start_offset
        """The offset below which every record was read (exclusive)."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Add a record, offsets rising; return False, and add nothing, if there is no room for another key."""
        digest = _digest(key)
        if len(self._offsets) >= self._keys_max and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        self.end_offset = offset + 1
        return True

    def advance_to(self, end_offset: int) -> None:
        """Raise the end: there are no further records below `end_offset`."""
        self.end_offset = max(self.end_offset, end_offset)

    def last_offset_of(self, key: bytes) -> int:
        """Return the last offset of a key, or -1 if it is not in the range."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=DIGEST_BYTES).digest()
