"""A led partition of a topic that is compacted: what it knows are the last records of all keys.

    read to the end -> the last record of each key, as bytes -> decoded, replayed
          ^                                                        | one cannot be decoded
          +--------- again, now each record is decoded ------------+

The second reading finds what such a record has replaced: that holds, as if the record were not there.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from ...protocol import CorruptRecordError
from ...protocol.net import Slices
from .core.last_records import LastRecords
from .log_reader import read_log
from .shard import ActiveShard, RecordT

TAKE_WEIGHT: Final = 0.25
"""What it costs to keep a record's bytes, in elements."""
REPLAY_WEIGHT: Final = 2
"""What it costs to decode a record and to take it in."""


class CompactedShard(ActiveShard[RecordT]):
    """See the module's docstring."""

    @abstractmethod
    def _decode(self, key: bytes, value: bytes | None) -> RecordT | None:
        """Return the record, None for one of another kind. Raise CorruptRecordError if no coordinator wrote it."""

    @abstractmethod
    def _replay(self, record: RecordT) -> None:
        """Take in the last record of a key."""

    def _may_wait(self, key: bytes) -> bool:
        """Return whether a record may be of a transaction, and wait for its marker."""
        return False

    def _replay_undecided(self, producer_id: int, record: RecordT) -> None:
        """Take in a record of a transaction that is open."""

    async def _read(self) -> int:
        last = LastRecords(self._may_wait)
        records = await read_log(self.partition, last.take, TAKE_WEIGHT)
        try:
            await self._replay_all(last)
        except CorruptRecordError:
            self._clear()
            last = LastRecords(self._may_wait, self._decode)
            await read_log(self.partition, last.take, REPLAY_WEIGHT)
            await self._replay_all(last)
        return records

    async def _replay_all(self, last: LastRecords) -> None:
        async for some in Slices(last.last.items(), weight=REPLAY_WEIGHT):
            for key, value in some:
                decoded = self._decode(key, value)
                if decoded is not None:
                    self._replay(decoded)
        async for undecided in Slices(last.undecided, weight=REPLAY_WEIGHT):
            for producer_id, key, value in undecided:
                decoded = self._decode(key, value)
                if decoded is not None:
                    self._replay_undecided(producer_id, decoded)
