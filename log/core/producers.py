"""All producers of one log: duplicates, open transactions, the last stable offset, snapshots (KIP-98).

    header -> check -> (the batch is appended) -> apply -> CompletedTransaction | None

States of a transaction:

    open --marker--> unreplicated --high watermark passes the marker--> forgotten

* `first_unstable_offset`, where readers of committed data stop, is the first offset of the first transaction that is
  open or unreplicated. An ABORT is listed in the transaction index with the last stable offset of its moment, computed
  from the open transactions alone.
* `check` decides and changes nothing; `apply` changes and never rejects: it is the same live, on a follower and on
  replay. Between a check and its apply no other batch of this log may be applied.
* At most `producers_max` producers write to a log: a client's new one is rejected above that, with a retriable error,
  until idle ones have expired. What is replicated, and markers, are taken in any case.
* A producer with an open transaction never expires. A snapshot that was adopted from the tier may hold transactions
  that began below the local log: they stay open until their marker is replicated.
* A guard keeps a batch out that was verified to be in an ongoing transaction (KIP-890) when that transaction has ended
  since: it is taken before the verification, and a marker of the producer makes it void. Otherwise the batch would open
  a transaction that nothing ends. Guards are not kept in snapshots: they are void with the leadership that gave them.
* The guard also knows the first sequence that was to be verified. A producer that the log does not know may begin at
  any sequence, so its second batch would be taken where the first was refused for a moment: only the first may begin.
* Snapshot at an offset + replay of the log from there = replay of the whole log, except that of each producer only the
  last batch is remembered, and of completed transactions none (they are below the high watermark by then).

The judgement of a single batch is in `producer_state`, an entry's form in memory in `packed_producer`, the file format
in `producer_snapshot`. Knows no file, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Self

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ...protocol.records import BatchHeader, ControlType, EndTransactionMarker
from ...protocol.wire import Steps, run_to_end
from .errors import CorruptFileError
from .index import AbortedTransaction
from .packed_producer import PackedEntry, is_idle, pack_entry, unpack_entry
from .producer_snapshot import ProducerSnapshot, decoded_slices
from .producer_state import (
    NO_EPOCH,
    NO_SEQUENCE,
    AppendOrigin,
    BatchMetadata,
    ProducerStateEntry,
    check_batch,
    check_marker,
    earlier_sequence,
)

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default for `producer.id.expiration.ms`."""

PRODUCERS_MAX: Final = 500_000
"""The number of producers of one log above which a client's new producer is rejected: at most 100 MB of memory."""

GUARDS_MAX: Final = 10_000
"""The number of producers that are being verified at a time; the oldest guard becomes void."""

RECENT_MAX: Final = 16
"""The number of producers whose entries are kept unpacked, some 1 kB each; a log with a few writers unpacks none."""

EXPIRE_SLICE: Final = 2_048
"""The number of producers whose age is looked at in one go: about a millisecond."""


class Guard:
    """The batches of a producer that are verified at a time; `first_sequence` is that of the newest epoch among them,
    -1 where batches have none. Two guards are the same only if they are one.
    """

    __slots__ = ("_epoch", "first_sequence")

    def __init__(self, epoch: int, sequence: int) -> None:
        self._epoch = epoch
        self.first_sequence = sequence

    def note(self, epoch: int, sequence: int) -> None:
        """Another batch is about to be verified."""
        if epoch > self._epoch:
            self._epoch, self.first_sequence = epoch, sequence
        elif epoch == self._epoch:
            self.first_sequence = earlier_sequence(self.first_sequence, sequence)


class OpenTransaction(NamedTuple):
    """A transaction that no marker has ended yet, as its log knows it."""

    producer_id: int
    producer_epoch: int
    first_offset: int


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


class _Entries(Mapping[int, ProducerStateEntry]):
    """The packed entries as values; each look-up unpacks one."""

    __slots__ = ("_packed",)

    def __init__(self, packed: Mapping[int, PackedEntry]) -> None:
        self._packed = packed

    def __getitem__(self, producer_id: int) -> ProducerStateEntry:
        return unpack_entry(producer_id, self._packed[producer_id])

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class ProducerStateManager:
    """The producers of one log up to `map_end_offset` (exclusive)."""

    __slots__ = (
        "_entries",
        "_expiration_ms",
        "_guards",
        "_map_end_offset",
        "_open",
        "_producers_max",
        "_recent",
        "_unreplicated",
    )

    def __init__(
        self,
        end_offset: int = 0,
        *,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        producers_max: int = PRODUCERS_MAX,
    ) -> None:
        self._entries: dict[int, PackedEntry] = {}
        self._guards: dict[int, Guard] = {}
        self._recent: dict[int, ProducerStateEntry] = {}
        """The entries that were unpacked or stored last: a check is followed by its apply, a batch by the next one."""
        self._producers_max = producers_max
        self._open: list[tuple[int, int]] = []
        """(first offset, producer id) of the open transactions, sorted."""
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
        return run_to_end(cls.from_snapshot_stepwise(data, end_offset, expiration_ms=expiration_ms, name=name))

    @classmethod
    def from_snapshot_stepwise(
        cls,
        data: bytes,
        end_offset: int,
        *,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        name: str = "producer snapshot",
    ) -> Steps[Self]:
        """Return what `from_snapshot` does as the generator's value; each step decodes `DECODED_SLICE_ENTRIES`."""
        manager = cls(end_offset, expiration_ms=expiration_ms)
        for entries in decoded_slices(data, name=name):
            if manager._entries:
                yield
            for entry in entries:
                manager._load(entry, name)
        manager._open.sort()  # once: to insert each in its order would take time with the square of their number
        return manager

    def _load(self, entry: ProducerStateEntry, name: str) -> None:
        """Take an entry of a snapshot; `_open` is still to be sorted."""
        seen = max([batch.last_offset for batch in entry.batches], default=-1)
        if max(seen, entry.current_txn_first_offset or -1) >= self._map_end_offset:
            raise CorruptFileError(
                f"{name}: producer {entry.producer_id} has offsets at or above the snapshot offset "
                f"{self._map_end_offset}"
            )
        self._entries[entry.producer_id] = pack_entry(entry)
        if entry.current_txn_first_offset is not None:
            self._open.append((entry.current_txn_first_offset, entry.producer_id))

    @property
    def map_end_offset(self) -> int:
        return self._map_end_offset

    @property
    def entries(self) -> Mapping[int, ProducerStateEntry]:
        """The state of each producer, by producer id."""
        return _Entries(self._entries)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None without one."""
        return self._open[0][0] if self._open else None

    @property
    def oldest_open(self) -> OpenTransaction | None:
        """The open transaction with the lowest first offset; None without one."""
        if not self._open:
            return None
        first_offset, producer_id = self._open[0]
        return OpenTransaction(producer_id, self._entry(producer_id).producer_epoch, first_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The offset at which a transaction holds the last stable offset; None without one (KIP-98)."""
        if not self._unreplicated:
            return self._open[0][0] if self._open else None
        first_unreplicated = self._unreplicated[0][0]
        return min(self._open[0][0], first_unreplicated) if self._open else first_unreplicated

    def is_ongoing(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a transaction of the producer's epoch is open in this log, so that it was verified already."""
        entry = self._entry(producer_id)
        return entry.current_txn_first_offset is not None and entry.producer_epoch == producer_epoch

    def guard(self, producer_id: int, producer_epoch: int, sequence: int) -> Guard:
        """Return what `check` needs of a batch that opens a transaction, to be taken before it is verified. `sequence`
        is the first of the batch, -1 if it has none.
        """
        guard = self._guards.get(producer_id)
        if guard is None:
            if len(self._guards) >= GUARDS_MAX:
                del self._guards[next(iter(self._guards))]
            guard = self._guards[producer_id] = Guard(producer_epoch, sequence)
        guard.note(producer_epoch, sequence)
        return guard

    def admits(self, producer_id: int, producer_epoch: int, guard: object | None) -> bool:
        """Return whether a verified batch may be appended: no marker came since its guard was taken, or its transaction
        is open.
        """
        return self._guards.get(producer_id) is guard or self.is_ongoing(producer_id, producer_epoch)

    def check(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        *,
        marker: EndTransactionMarker | None = None,
        transaction_version: int = 0,
        guard: object | None = None,
    ) -> BatchMetadata | None:
        """Judge a batch that is about to be appended: None to append it, or the batch of which it is a duplicate.

        KafkaError otherwise; the rules are in `producer_state`. Only sequences, epochs and flags of `header` count, not
        its offsets. `marker` and `transaction_version` (of WriteTxnMarkers) belong to a control batch, a `guard` to a
        transactional batch that was verified; None where the origin's word is enough.
        """
        if header.producer_id < 0:
            return None
        entry = self._entry(header.producer_id)
        if not header.is_control:
            if entry.producer_epoch == NO_EPOCH and origin is AppendOrigin.CLIENT:
                self._check_room(header)
            duplicate = entry.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
            if duplicate is None:
                check_batch(entry, header, origin)
                if guard is not None:
                    self._check_guard(entry, header, guard)
            return duplicate
        if marker is not None and origin is not AppendOrigin.REPLICATION:
            check_marker(entry, header, marker, transaction_version)
        return None

    def _check_guard(self, entry: ProducerStateEntry, header: BatchHeader, guard: object) -> None:
        if not self.admits(header.producer_id, header.producer_epoch, guard):
            raise _ended_since(header)
        if entry.producer_epoch != NO_EPOCH or not isinstance(guard, Guard):
            return  # of a producer that the log knows, its sequences say which batch is next
        first, sequence = guard.first_sequence, header.base_sequence
        if NO_SEQUENCE != first != sequence and earlier_sequence(first, sequence) == first:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {header.producer_id} epoch {header.producer_epoch}: sequence {sequence} cannot "
                f"open a transaction whose batch with sequence {first} came before it and is not in the log",
            )

    def apply(self, header: BatchHeader, *, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Apply a batch of the log; return the transaction that it completed, or None.

        `marker` is what a control batch with a producer id holds; None if it is no COMMIT or ABORT or was cleaned away.
        """
        assert header.next_offset > self._map_end_offset, (header, self._map_end_offset)
        self._map_end_offset = header.next_offset
        if header.producer_id < 0:
            return None
        entry = self._entry(header.producer_id)
        if header.is_control:
            return None if marker is None else self._apply_marker(entry, header, marker)
        after = entry.after_batch(header)
        self._store(after)
        if header.is_transactional:
            self._guards.pop(header.producer_id, None)
        if entry.current_txn_first_offset is None and after.current_txn_first_offset is not None:
            insort(self._open, (after.current_txn_first_offset, header.producer_id))
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

    def expire(self, now_ms: int, expiration_ms: int | None = None) -> int:
        """Forget the producers without an open transaction that wrote nothing for the expiration time; return how many.

        `now_ms` is a wall clock, because batches carry one; the caller lets it run on with the monotonic clock, so that
        a jump of the system's clock expires no producer.
        """
        return sum(self.expire_stepwise(now_ms, expiration_ms))

    def expire_stepwise(self, now_ms: int, expiration_ms: int | None = None) -> Iterator[int]:
        """Expire as `expire` does, in steps of `EXPIRE_SLICE`, between which producers may write; yield how many."""
        until_ms = now_ms - (self._expiration_ms if expiration_ms is None else expiration_ms)
        known = list(self._entries)
        for start in range(0, len(known), EXPIRE_SLICE):
            count = 0
            for producer_id in known[start : start + EXPIRE_SLICE]:
                packed = self._entries.get(producer_id)
                # Expiring an open transaction would release the last stable offset before its marker.
                if packed is not None and is_idle(packed, until_ms):
                    del self._entries[producer_id]
                    count += 1
            self._recent.clear()
            yield count

    def freeze(self) -> ProducerSnapshot:
        """Return the snapshot at `map_end_offset`, to be encoded later: a copy of two references to each producer."""
        return ProducerSnapshot(list(self._entries), list(self._entries.values()))

    def snapshot(self) -> bytes:
        """Return the content of the file `<map_end_offset>.snapshot`. Encodes all producers in one go."""
        return self.freeze().encode()

    def _entry(self, producer_id: int) -> ProducerStateEntry:
        entry = self._recent.get(producer_id)
        if entry is None:
            packed = self._entries.get(producer_id)
            entry = ProducerStateEntry(producer_id) if packed is None else unpack_entry(producer_id, packed)
            self._keep(entry)
        return entry

    def _store(self, entry: ProducerStateEntry) -> None:
        self._keep(entry)
        self._entries[entry.producer_id] = pack_entry(entry)

    def _keep(self, entry: ProducerStateEntry) -> None:
        recent = self._recent
        if len(recent) >= RECENT_MAX and entry.producer_id not in recent:
            del recent[next(iter(recent))]
        recent[entry.producer_id] = entry

    def _check_room(self, header: BatchHeader) -> None:
        """Raise THROTTLING_QUOTA_EXCEEDED, which clients retry, if the log has no room for a new producer."""
        if len(self._entries) >= self._producers_max:
            raise KafkaError(
                ErrorCode.throttling_quota_exceeded,
                f"producer {header.producer_id} epoch {header.producer_epoch}: the partition has "
                f"{len(self._entries)} producers, at most {self._producers_max} are allowed; idle ones expire after "
                "producer.id.expiration.ms. Reuse producers, or lower that setting",
            )

    def _apply_marker(
        self, entry: ProducerStateEntry, header: BatchHeader, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        self._store(entry.after_marker(header, marker))
        self._guards.pop(header.producer_id, None)
        first_offset = entry.current_txn_first_offset
        if first_offset is None:
            return None
        opened = (first_offset, header.producer_id)
        slot = bisect_left(self._open, opened)
        assert self._open[slot] == opened, (self._open, entry)
        del self._open[slot]
        # Until the marker is committed a new leader may not have it, so the transaction still holds the LSO.
        last_offset = header.base_offset
        insort(self._unreplicated, (first_offset, last_offset))
        return CompletedTransaction(
            producer_id=header.producer_id,
            first_offset=first_offset,
            last_offset=last_offset,
            last_stable_offset=self._open[0][0] if self._open else last_offset + 1,
            is_aborted=marker.type is ControlType.ABORT,
        )


def _ended_since(header: BatchHeader) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_txn_state,
        f"producer {header.producer_id} epoch {header.producer_epoch}: its transaction has ended since the batch was "
        "verified to be in it",
    )
