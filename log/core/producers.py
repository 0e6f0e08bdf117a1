"""All producers of one log: duplicates, open transactions, the last stable offset, snapshots (KIP-98).

    header -> check -> (the batch is appended) -> apply -> CompletedTransaction | None

States of a transaction:

    open --marker--> unreplicated --high watermark passes the marker--> forgotten

* `first_unstable_offset`, where readers of committed data stop, is the first offset of the first transaction that is
  open or unreplicated. An ABORT is listed in the transaction index with the last stable offset of its moment, computed
  from the open transactions alone.
* `check` decides and changes nothing; `apply` changes and never rejects: it is the same live, on a follower and on
  replay. Between a check and its apply no other batch of this log may be applied.
* A producer with an open transaction never expires. A snapshot that was adopted from the tier may hold transactions
  that began below the local log: they stay open until their marker is replicated.
* Snapshot at an offset + replay of the log from there = replay of the whole log, except that of each producer only the
  last batch is remembered, and of completed transactions none (they are below the high watermark by then).

The judgement of a single batch is in `producer_state`, the file format in `producer_snapshot`. Knows no file, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ...protocol.records import BatchHeader
from ...protocol.records.control import ControlType, EndTransactionMarker
from .errors import CorruptFileError
from .index import AbortedTransaction
from .producer_snapshot import decode_snapshot, encode_snapshot
from .producer_state import AppendOrigin, BatchMetadata, ProducerStateEntry, check_batch, check_marker

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default for `producer.id.expiration.ms`."""


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction that a marker has just ended; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool

    @property
    def aborted(self) -> AbortedTransaction:
        """Its entry in the transaction index."""
        assert self.is_aborted, self
        return AbortedTransaction(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


class ProducerStateManager:
    """The producers of one log up to `map_end_offset` (exclusive)."""

    __slots__ = ("_entries", "_expiration_ms", "_map_end_offset", "_open", "_unreplicated")

    def __init__(self, end_offset: int = 0, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self._entries: dict[int, ProducerStateEntry] = {}
        self._open: list[int] = []
        """First offsets of the open transactions, sorted."""
        self._unreplicated: list[tuple[int, int]] = []
        """(first offset, marker's offset) of completed transactions, sorted."""
        self._map_end_offset = end_offset
        self._expiration_ms = expiration_ms

    @classmethod
    def from_snapshot(
        cls,
        data: bytes,
        end_offset: int,
        *,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        name: str = "producer snapshot",
    ) -> ProducerStateManager:
        """The state that `snapshot` gave at `end_offset`. CorruptFileError if it can be none; nothing expires here."""
        manager = cls(end_offset, expiration_ms=expiration_ms)
        for entry in decode_snapshot(data, name=name):
            seen = max([batch.last_offset for batch in entry.batches], default=-1)
            if max(seen, entry.current_txn_first_offset or -1) >= end_offset:
                raise CorruptFileError(
                    f"{name}: producer {entry.producer_id} has offsets at or above the snapshot offset {end_offset}"
                )
            manager._entries[entry.producer_id] = entry
            if entry.current_txn_first_offset is not None:
                insort(manager._open, entry.current_txn_first_offset)
        return manager

    @property
    def map_end_offset(self) -> int:
        return self._map_end_offset

    @property
    def entries(self) -> Mapping[int, ProducerStateEntry]:
        """The state of each producer, by producer id."""
        return MappingProxyType(self._entries)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None without one."""
        return self._open[0] if self._open else None

    @property
    def has_unstable(self) -> bool:
        """Whether a transaction is open, or not replicated yet."""
        return bool(self._open or self._unreplicated)

    @property
    def first_unstable_offset(self) -> int | None:
        """The offset at which a transaction holds the last stable offset; None without one (KIP-98)."""
        if not self._unreplicated:
            return self.first_undecided_offset
        first_unreplicated = self._unreplicated[0][0]
        return min(self._open[0], first_unreplicated) if self._open else first_unreplicated

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        *,
        marker: EndTransactionMarker | None = None,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Judge a batch that is about to be appended: None to append it, or the batch of which it is a duplicate.

        KafkaError otherwise; the rules are in `producer_state`. Only sequences, epochs and flags of `header` count, not
        its offsets. `marker` and `transaction_version` (of WriteTxnMarkers) belong to a control batch.
        """
        if header.producer_id < 0:
            return None
        entry = self._entries.get(header.producer_id) or ProducerStateEntry(header.producer_id)
        if not header.is_control:
            duplicate = entry.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
            if duplicate is None:
                check_batch(entry, header, origin)
            return duplicate
        if marker is not None and origin is not AppendOrigin.REPLICATION:
            check_marker(entry, header, marker, transaction_version)
        return None

    def apply(self, header: BatchHeader, *, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Apply a batch of the log; return the transaction that it completed, or None.

        `marker` is what a control batch with a producer id holds; None if it is no COMMIT or ABORT or was cleaned away.
        """
        assert header.next_offset > self._map_end_offset, (header, self._map_end_offset)
        self._map_end_offset = header.next_offset
        if header.producer_id < 0:
            return None
        entry = self._entries.get(header.producer_id) or ProducerStateEntry(header.producer_id)
        if header.is_control:
            return None if marker is None else self._apply_marker(entry, header, marker)
        after = self._entries[header.producer_id] = entry.after_batch(header)
        if entry.current_txn_first_offset is None and after.current_txn_first_offset is not None:
            insort(self._open, after.current_txn_first_offset)
        return None

    def advance_to(self, end_offset: int) -> None:
        """The log ends at `end_offset` without more batches (compaction may leave the last offsets empty)."""
        assert end_offset >= self._map_end_offset, (end_offset, self._map_end_offset)
        self._map_end_offset = end_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the completed transactions whose marker is committed."""
        if self._unreplicated:
            self._unreplicated = [offsets for offsets in self._unreplicated if offsets[1] >= high_watermark]

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Note that all below the log start is committed. Producers stay, even if their last batch is deleted."""
        self.on_high_watermark(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)

    def expire(self, now_ms: int) -> int:
        """Forget the producers without an open transaction that wrote nothing for the expiration time; return how many.

        `now_ms` is a wall clock, because batches carry one; the caller lets it run on with the monotonic clock, so that
        a jump of the system's clock expires no producer.
        """
        # Expiring an open transaction would release the last stable offset before its marker.
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.current_txn_first_offset is None and now_ms - entry.last_timestamp_ms >= self._expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def snapshot(self) -> bytes:
        """The content of the file `<map_end_offset>.snapshot`."""
        return encode_snapshot(self._entries.values())

    def _apply_marker(
        self, entry: ProducerStateEntry, header: BatchHeader, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        self._entries[header.producer_id] = entry.after_marker(header, marker)
        first_offset = entry.current_txn_first_offset
        if first_offset is None:
            return None
        slot = bisect_left(self._open, first_offset)
        assert self._open[slot] == first_offset, (self._open, entry)
        del self._open[slot]
        # Until the marker is committed a new leader may not have it, so the transaction still holds the LSO.
        last_offset = header.base_offset
        insort(self._unreplicated, (first_offset, last_offset))
        return CompletedTransaction(
            producer_id=header.producer_id,
            first_offset=first_offset,
            last_offset=last_offset,
            last_stable_offset=self._open[0] if self._open else last_offset + 1,
            is_aborted=marker.type is ControlType.ABORT,
        )
