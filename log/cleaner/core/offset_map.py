"""Which offset is the last one of each key, over a range of the log: what decides whether a record survives a cleaning.

Keys are remembered by a digest of 16 bytes, so that memory is bounded by their number, not by their size. The map is
built from the first offset that was not cleaned before, upwards, and says up to where it is complete (`end_offset`):
records from there on survive whatever their key.
"""

from __future__ import annotations

import hashlib
from typing import Final

DIGEST_BYTES: Final = 16
ENTRY_BYTES: Final = 200
"""What one key costs in memory: digest, offset, slot. Kafka's table takes 24; so `log.cleaner.dedupe.buffer.size` holds
fewer keys here, and a cleaning may take several passes sooner."""


class OffsetMap:
    """At least one key, at most `bytes_max` of memory."""

    __slots__ = ("_keys_max", "_offsets", "end_offset")

    def __init__(self, bytes_max: int, start_offset: int) -> None:
        self._keys_max = max(1, bytes_max // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.end_offset = start_offset
        """Below it every record was seen (exclusive)."""

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record, offsets rising; False, and nothing noted, if there is no room for another key."""
        digest = _digest(key)
        if len(self._offsets) >= self._keys_max and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        self.end_offset = offset + 1
        return True

    def advance_to(self, end_offset: int) -> None:
        """Nothing else lies below."""
        self.end_offset = max(self.end_offset, end_offset)

    def last_offset_of(self, key: bytes) -> int:
        """-1 for a key that is not in the range."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=DIGEST_BYTES).digest()
