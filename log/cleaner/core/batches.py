"""The records that a cleaning keeps of each batch. Pure: records in, decisions out, in the order of the log.

    BatchCleaner.begin(header) -> take(some records), again and again -> end(): as it is, nothing, or a `Rewrite`

A record survives if any of these holds:

* its offset is at or above the map's end: newer records were not read;
* no later record with its key is in the map's range, and it has a value;
* likewise for a tombstone, as long as the delete horizon of its batch has not passed.

A record without a key is removed. Transactions (KIP-98, KIP-447):

| batch | its records |
|---|---|
| data of an aborted transaction | are removed at once |
| a marker, if this pass has met data of its transaction | is kept |
| a marker of a transaction without any data left | gets a delete horizon, and is removed once that has passed |
| the last batch of a producer that the log remembers | may be removed; the header, with epoch and sequence, is kept |

An aborted transaction stays in the transaction index as long as the pass meets data of it; consumers do not need it
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ....light_dataclass import dataclass
from ....protocol.records import BatchHeader, ControlType, SkimmedRecord, control_type, delete_horizon_of, empty_batch
from ...core.index import AbortedTransaction
from ...core.producer_state import ProducerStateEntry
from .offset_map import OffsetMap

Buffer = bytes | bytearray | memoryview


class Transactions:
    """The transactions that a pass over the log meets, given the aborted ones from the transaction indexes."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._met_aborted: set[int] = set()
        self._met_committed: set[int] = set()

    def pass_data(self, header: BatchHeader) -> bool:
        """Pass a data batch; return whether it belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborted:
            self._met_aborted.add(header.producer_id)
            return True
        self._met_committed.add(header.producer_id)
        return False

    def pass_marker(self, header: BatchHeader, marker: SkimmedRecord | None) -> tuple[bool, AbortedTransaction | None]:
        """Pass a marker; return whether its transaction has no data left, and the entry to keep in the index."""
        self._open_up_to(header.last_offset)
        kind = ControlType.UNKNOWN if marker is None else control_type(marker)
        if kind is ControlType.ABORT:
            aborted = self._open_aborted.pop(header.producer_id, None)
            was_met = header.producer_id in self._met_aborted
            self._met_aborted.discard(header.producer_id)
            return not was_met, aborted if was_met else None
        if kind is ControlType.COMMIT:
            was_met = header.producer_id in self._met_committed
            self._met_committed.discard(header.producer_id)
            return not was_met, None
        return marker is None, None

    def _open_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            aborted = self._upcoming.pop()
            self._open_aborted.setdefault(aborted.producer_id, aborted)


def note_keys(offset_map: OffsetMap, records: Iterable[SkimmedRecord]) -> bool:
    """Add the keys of records to the map, from the map's end on; return False once it is full."""
    for record in records:
        key = record.key if record.offset >= offset_map.end_offset else None
        if key is not None and not offset_map.put(key, record.offset):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is left of a batch that loses records, or gets the delete horizon: at least one record."""

    records: Sequence[SkimmedRecord]
    delete_horizon_ms: int | None


@dataclass(slots=True)
class BatchCleaner:
    """The cleaning of one log in one pass, from its first batch to the last one in the range."""

    offset_map: OffsetMap
    transactions: Transactions
    producers: Mapping[int, ProducerStateEntry]
    now_ms: int
    delete_retention_ms: int
    keeps_deletes: bool = False
    """Whether no tombstone or marker is removed, whatever its delete horizon."""
    kept_aborted: list[AbortedTransaction] = field(default_factory=list)
    """The entries for the transaction index of the new segment; the writer of the segment takes them."""

    def begin(self, header: BatchHeader) -> CleanedBatch:
        """Begin the next batch of the log."""
        return CleanedBatch(self, header)

    def survives(self, header: BatchHeader, record: SkimmedRecord) -> bool:
        # Above the map's end a newer record may or may not exist: keep everything.
        if record.offset >= self.offset_map.end_offset:
            return True
        key = record.key
        if key is None or record.offset < self.offset_map.last_offset_of(key):
            return False
        return record.has_value or not self.is_past_horizon(header)

    def is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = delete_horizon_of(header)
        return horizon_ms is not None and horizon_ms <= self.now_ms and not self.keeps_deletes

    def remains(self, header: BatchHeader, original: Buffer, *, had_records: bool) -> Buffer | None:
        """Return the header of a batch without records if it is its producer's last one, else None."""
        entry = self.producers.get(header.producer_id) if header.has_producer_id else None
        if entry is None:
            return None
        # Without it, a recovery from the log would forget the sequence and append a retried batch twice.
        if entry.batches:
            is_last = entry.batches[-1].last_offset == header.last_offset
        else:
            is_last = header.is_control and header.producer_epoch == entry.producer_epoch
        if not is_last:
            return None
        return empty_batch(header) if had_records else original


class CleanedBatch:
    """The cleaning of one batch."""

    def __init__(self, cleaner: BatchCleaner, header: BatchHeader) -> None:
        self._cleaner = cleaner
        self._header = header
        self._is_aborted = not header.is_control and cleaner.transactions.pass_data(header)
        self._kept: list[SkimmedRecord] = []
        self._count = 0

    def take(self, records: Sequence[SkimmedRecord]) -> None:
        """Take the next records of the batch."""
        self._count += len(records)
        if self._header.is_control:
            self._kept += records
        elif not self._is_aborted:  # a read-committed consumer would skip those of an aborted transaction anyway
            self._kept += [record for record in records if self._cleaner.survives(self._header, record)]

    def end(self, original: Buffer) -> Buffer | Rewrite | None:
        """Return what is left once all records are taken: `original` itself if nothing changes, None if nothing."""
        cleaner, header, kept = self._cleaner, self._header, self._kept
        if header.is_control:
            is_done, aborted = cleaner.transactions.pass_marker(header, kept[0] if kept else None)
            if aborted is not None:
                cleaner.kept_aborted.append(aborted)
            if is_done and cleaner.is_past_horizon(header):
                kept = []
            wants_horizon = is_done
        else:
            wants_horizon = not all(record.has_value for record in kept)
        if not kept:
            return cleaner.remains(header, original, had_records=self._count > 0)
        horizon_ms = delete_horizon_of(header)
        needs_horizon = wants_horizon and horizon_ms is None
        if len(kept) == self._count and not needs_horizon:
            return original
        if needs_horizon:
            horizon_ms = cleaner.now_ms + cleaner.delete_retention_ms
        return Rewrite(kept, horizon_ms)
