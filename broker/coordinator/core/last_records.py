"""What a compacted topic says: the last record of each key, as its cleaner would leave it, still as bytes.

    take(header, records) -> last        a value replaces the one before it, a tombstone takes it away
                          -> undecided   of a transaction, until its marker: to `last`, or dropped (`undecided`)

A coordinator's topic holds each key many times until it is compacted: every commit of an offset is a record. To keep
the last bytes costs a tenth of decoding them, so only what counts is decoded, when all is read.

Invariants:
* Decoding `last` in its order gives what decoding every record in the order of the log gives: a coordinator's state
  does not depend on whether its log was compacted. The order is that of the last values.
* What is held is a part of what the log holds: no key without a value.

A value that cannot be decoded has replaced one that could. With a `check`, which decodes every record, such a one is
rejected when it comes, as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ....protocol import CorruptRecordError
from ....protocol.records import BatchHeader, ControlType, SkimmedRecord, control_type
from .undecided import Undecided

Rejected = tuple[int, CorruptRecordError]
"""The offset of a record that no coordinator wrote, and why."""
Check = Callable[[bytes, bytes | None], object]
"""Raises CorruptRecordError for a key and value that cannot be decoded."""


def _nothing_waits(_: bytes) -> bool:
    return False


class LastRecords:
    """See the module's docstring. `may_wait` returns whether a record with this key may be of a transaction; others
    are passed over there.
    """

    def __init__(self, may_wait: Callable[[bytes], bool] = _nothing_waits, check: Check | None = None) -> None:
        self.last: dict[bytes, bytes] = {}
        self.undecided: Undecided[bytes, bytes] = Undecided()
        self._may_wait = may_wait
        self._check = check

    def take(self, header: BatchHeader, records: Iterable[SkimmedRecord]) -> list[Rejected]:
        """Take in records of one batch, in the order of the log; return those that are rejected."""
        if header.is_control:
            return list(self._rejected(records, lambda record: self._end(header.producer_id, record)))
        if header.is_transactional:
            return list(self._rejected(records, lambda record: self._hold(header.producer_id, record)))
        if self._check is not None:
            return list(self._rejected(records, self._put))
        # `_put`, without calls: nearly all records of a long log come here (`python -m bench load`).
        last, undecided = self.last, self.undecided
        settles = bool(undecided)
        for _, _, data, key_at, key_size, value_at, value_size, _ in records:
            if key_size >= 0:
                key = data[key_at : key_at + key_size]
                last.pop(key, None)  # A dict keeps the place of a key's first value.
                if settles:
                    undecided.settle(key)
                if value_size >= 0:
                    last[key] = data[value_at : value_at + value_size]
        return []

    @staticmethod
    def _rejected(records: Iterable[SkimmedRecord], take: Callable[[SkimmedRecord], None]) -> Iterator[Rejected]:
        for record in records:
            try:
                take(record)
            except CorruptRecordError as error:
                yield record.offset, error

    def _put(self, record: SkimmedRecord) -> None:
        key, value = record.key, record.value
        if key is None:
            return
        self._judge(key, value)
        self.undecided.settle(key)
        self._replace(key, value)

    def _replace(self, key: bytes, value: bytes | None) -> None:
        self.last.pop(key, None)
        if value is not None:
            self.last[key] = value

    def _hold(self, producer_id: int, record: SkimmedRecord) -> None:
        key, value = record.key, record.value
        if key is None:
            return
        self._judge(key, value)
        # No coordinator deletes in a transaction.
        if value is not None and self._may_wait(key):
            self.undecided.hold(producer_id, key, value)

    def _end(self, producer_id: int, record: SkimmedRecord) -> None:
        kind = control_type(record)
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return
        for key, value in self.undecided.end(producer_id, is_committed=kind is ControlType.COMMIT).items():
            self._replace(key, value)

    def _judge(self, key: bytes, value: bytes | None) -> None:
        if self._check is not None:
            self._check(key, value)
