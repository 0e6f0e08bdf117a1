"""The share-partitions of one partition of `__share_group_state`.

    decide on `latest` -> decided -> committed, in the order of the log
                                  -> lost: with all that was decided on it

A decision is made on the newest state, whether that is committed or not: a leader's writes follow each other without
waiting for the log. What is read is answered once it is committed.

Of a share-partition the records from its last snapshot on are needed, so the lowest of these offsets is where the log
may begin (`needed_offset`). One that is no longer written would hold all the others' records: it is snapshotted again
once `HELD_RECORDS` records for each share-partition come after its snapshot (`cold`), so that this costs a part of
what was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from typing import Final
from uuid import UUID

from ....light_dataclass import dataclass
from .records import ShareKey, ShareRecord, Snapshot
from .state import ShareState, applied

HELD_RECORDS: Final = 4
HELD_RECORDS_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Held:
    """A share-partition as it is in the log, with the offset of its last snapshot."""

    state: ShareState
    offset: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A record that is on its way into the log; the state after it is None for a tombstone."""

    record: ShareRecord
    state: ShareState | None
    token: object


@dataclass(slots=True)
class Shard:
    """See the module's docstring."""

    held: dict[ShareKey, Held] = field(default_factory=dict)
    pending: dict[ShareKey, deque[Pending]] = field(default_factory=dict)
    _absent: set[UUID] = field(default_factory=set)
    """The topics that were not there at the last look."""

    def clear(self) -> None:
        """Begin again, empty."""
        self.held.clear()
        self.pending.clear()
        self._absent.clear()

    def __len__(self) -> int:
        return len(self.held) + sum(key not in self.held for key in self.pending)

    # Decisions.

    def latest(self, key: ShareKey) -> ShareState | None:
        """Return the newest state, committed or not; None if there is none."""
        pending = self.pending.get(key)
        if pending:
            return pending[-1].state
        held = self.held.get(key)
        return None if held is None else held.state

    def decided(self, record: ShareRecord, token: object) -> None:
        """Note a record that is about to be written; `token` is given back if it is lost."""
        state = None if record.value is None else applied(self.latest(record.key), record.value)
        self.pending.setdefault(record.key, deque()).append(Pending(record, state, token))

    def last_pending(self, key: ShareKey) -> object | None:
        """Return the token of the newest record on its way; None if all are committed."""
        pending = self.pending.get(key)
        return pending[-1].token if pending else None

    def committed(self, record: ShareRecord, offset: int) -> None:
        """A record that was decided is in the log, committed."""
        pending = self.pending.get(record.key)
        if not pending or pending[0].record is not record:
            self.replay(record, offset)
            return
        # What came before it is committed too: the state is the one that was decided.
        state = pending.popleft().state
        if not pending:
            del self.pending[record.key]
        self._hold(record, state, offset)

    def lost(self, key: ShareKey) -> list[object]:
        """Forget what is not committed of a share-partition; return the tokens, newest first."""
        return [each.token for each in reversed(self.pending.pop(key, ()))]

    # The log.

    def replay(self, record: ShareRecord, offset: int) -> None:
        """Take in a record of the log, in the order of the log."""
        before, value = self.held.get(record.key), record.value
        state = None if value is None else applied(None if before is None else before.state, value)
        self._hold(record, state, offset)

    def _hold(self, record: ShareRecord, state: ShareState | None, offset: int) -> None:
        if state is None:
            self.held.pop(record.key, None)
            return
        before = self.held.get(record.key)
        if before is not None and not isinstance(record.value, Snapshot):
            offset = before.offset
        self.held[record.key] = Held(state, offset)

    def needed_offset(self, end_offset: int) -> int:
        """Return the offset below which no committed record is needed; `end_offset` if nothing is held."""
        return min((held.offset for held in self.held.values()), default=end_offset)

    def cold(self, end_offset: int, written_before_ms: int) -> list[ShareKey]:
        """Return the share-partitions to be snapshotted again, those that hold most first."""
        lowest = end_offset - HELD_RECORDS * max(len(self.held), HELD_RECORDS_MIN // HELD_RECORDS)
        cold = [
            (held.offset, key)
            for key, held in self.held.items()
            if held.offset < lowest
            and held.state.snapshot.write_timestamp_ms <= written_before_ms
            and key not in self.pending
        ]
        return [key for _, key in sorted(cold)]

    # Topics.

    def of_topics(self, topic_ids: Iterable[UUID]) -> list[ShareKey]:
        """Return the share-partitions of topics, in their order."""
        wanted = frozenset(topic_ids)
        return sorted(key for key in {*self.held, *self.pending} if key.topic_id in wanted)

    def look_for(self, topic_ids: Iterable[UUID]) -> list[ShareKey]:
        """Return the share-partitions whose topics are absent now and were at the last look: they were deleted while
        no broker led this partition. A new topic may be known here later than elsewhere.
        """
        absent = {key.topic_id for key in self.held} - set(topic_ids)
        gone, self._absent = absent & self._absent, absent
        return self.of_topics(gone)
