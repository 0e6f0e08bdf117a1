"""A core's disk and state machine in memory: what it wrote, what it flushed, what would be found after a crash.

Shared by the random cluster, the model checker and the transcripts. A log is a tuple of `Entry`; entry i has offset
`start + i`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.quorum.core.effects import (
    AppendFetched,
    AppendRecords,
    Flush,
    KRaftVersionRecord,
    LogEffect,
    Truncate,
    VotersRecord,
)
from tierfetch.quorum.core.events import RecoveredState
from tierfetch.quorum.core.messages import FetchedBatch, FetchedRecords, ReadRange
from tierfetch.quorum.core.state import EMPTY_LOG, INITIAL_ELECTION, ElectionState, OffsetAndEpoch
from tierfetch.quorum.core.voters import VotersAt


@dataclass(frozen=True, slots=True)
class Entry:
    """One record; `value` is bytes or a control record."""

    epoch: int
    value: object


@dataclass(frozen=True, slots=True)
class Snapshot:
    snapshot_id: OffsetAndEpoch
    voters: VotersAt
    committed: tuple[Entry, ...]
    """Everything below it: stands for the state machine's contents."""


@dataclass(frozen=True, slots=True)
class MemoryDisk:
    """Immutable, so that a crash, a clone or a comparison is cheap. `entries[: flushed - start]` survive a crash of the
    machine, all of them a crash of the process."""

    bootstrap: VotersAt
    election: ElectionState = INITIAL_ELECTION
    entries: tuple[Entry, ...] = ()
    start: OffsetAndEpoch = EMPTY_LOG
    flushed_end_offset: int = 0
    snapshots: tuple[Snapshot, ...] = ()
    is_unproven: bool = False

    @property
    def end_offset(self) -> int:
        return self.start.offset + len(self.entries)

    def perform(self, effect: LogEffect) -> MemoryDisk:
        if isinstance(effect, AppendRecords):
            assert effect.base_offset == self.end_offset, (effect, self.end_offset)
            values = [record for batch in effect.batches for record in batch.records]
            added = tuple(Entry(effect.epoch, value) for value in values)
            return replace(self, entries=self.entries + added)
        if isinstance(effect, AppendFetched):
            assert effect.base_offset == self.end_offset, (effect, self.end_offset)
            fetched = effect.records.payload
            assert isinstance(fetched, tuple), fetched
            return replace(self, entries=self.entries + fetched)
        if isinstance(effect, Truncate):
            kept = self.entries[: effect.end_offset - self.start.offset]
            return replace(self, entries=kept, flushed_end_offset=min(self.flushed_end_offset, effect.end_offset))
        assert isinstance(effect, Flush), effect
        assert effect.end_offset == self.end_offset, (effect, self.end_offset)
        return replace(self, flushed_end_offset=self.end_offset)

    def read(self, wanted: ReadRange, count_max: int = 1_000_000) -> FetchedRecords:
        """As the shell would: one batch for each entry."""
        low = wanted.start_offset - self.start.offset
        assert low >= 0, (wanted, self.start)
        entries = self.entries[low : min(wanted.end_offset - self.start.offset, low + count_max)]
        assert entries, (wanted, self.end_offset)
        base = wanted.start_offset
        batches = tuple(FetchedBatch(base + i, base + i, entry.epoch) for i, entry in enumerate(entries))
        return FetchedRecords(entries, batches, self.voters_within(base, base + len(entries)))

    def voters_within(self, start_offset: int, end_offset: int) -> tuple[VotersAt, ...]:
        """The voter sets that records of [start_offset, end_offset) put into effect."""
        latest = self.snapshots[-1].voters if self.snapshots else self.bootstrap
        found = []
        for offset, entry in enumerate(self.entries, self.start.offset):
            if isinstance(entry.value, VotersRecord):
                latest = VotersAt(offset, entry.value.voters, latest.kraft_version)
            elif isinstance(entry.value, KRaftVersionRecord):
                latest = VotersAt(offset, latest.voters, entry.value.kraft_version)
            else:
                continue
            if start_offset <= offset < end_offset:
                found.append(latest)
        return tuple(found)

    def after_crash(self, kept_end_offset: int) -> MemoryDisk:
        """Only entries below `kept_end_offset` (at least the flushed ones) are found again; recovery flushes them."""
        assert self.flushed_end_offset <= kept_end_offset <= self.end_offset
        kept = self.entries[: kept_end_offset - self.start.offset]
        return replace(self, entries=kept, flushed_end_offset=kept_end_offset)

    def recovered(self) -> RecoveredState:
        cache = LeaderEpochCache()
        for offset, entry in enumerate(self.entries, self.start.offset):
            cache.assign(entry.epoch, offset)
        base = self.snapshots[-1].voters if self.snapshots else self.bootstrap
        return RecoveredState(
            voters=(base, *self.voters_within(self.start.offset, self.end_offset)),
            election=self.election,
            epochs=tuple(EpochEntry(entry.epoch, entry.start_offset) for entry in cache.entries),
            log_start=self.start,
            log_end_offset=self.end_offset,
            latest_snapshot=self.snapshots[-1].snapshot_id if self.snapshots else None,
            high_watermark=self.start.offset,
            is_unproven=self.is_unproven,
        )

    def history(self, end_offset: int) -> tuple[Entry, ...]:
        """All entries below `end_offset`, those in the snapshot included."""
        below = self.snapshots[-1].committed[: self.start.offset] if self.start.offset else ()
        return below + self.entries[: end_offset - self.start.offset]

    def take_snapshot(self, offset: int, *, keep_from: int) -> MemoryDisk:
        """Freeze [0, offset), and drop the log below `keep_from`, which is `offset` or an older snapshot's end."""
        history = self.history(offset)
        voters = [self.snapshots[-1].voters if self.snapshots else self.bootstrap]
        voters += self.voters_within(self.start.offset, offset)
        snapshot = Snapshot(OffsetAndEpoch(offset, history[-1].epoch), replace(voters[-1], offset=offset - 1), history)
        start = self.start
        entries = self.entries
        if keep_from == offset:
            entries = self.entries[offset - self.start.offset :]
            start = snapshot.snapshot_id
        return replace(self, entries=entries, start=start, snapshots=(*self.snapshots, snapshot))

    def install(self, snapshot: Snapshot) -> MemoryDisk:
        end = snapshot.snapshot_id.offset
        return replace(
            self, entries=(), start=snapshot.snapshot_id, flushed_end_offset=end, snapshots=(*self.snapshots, snapshot)
        )
