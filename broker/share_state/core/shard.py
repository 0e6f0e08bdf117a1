"""The share-partitions of one partition of `__share_group_state`.

    decide on `latest` -> decided -> committed, in the order of the log
                                  -> lost: with all that was decided on it

A decision is made on the newest state, whether that is committed or not: a leader's writes follow each other without
waiting for the log. What is read is answered once it is committed.

Of a share-partition the records from its last snapshot on are needed, so the lowest of these offsets is where the log
may begin (`needed_offset`). One that is no longer written would hold all the others' records: it is snapshotted again
once `HELD_RECORDS` records for each share-partition come after its snapshot (`cold`), so that this costs a part of
what was written.

Whatever goes through all share-partitions does so in steps (`protocol.wire.Steps`) of `STEP_ITEMS`, each of what is
there when it begins; what is found is looked at again by who acts on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import field
from heapq import nsmallest
from typing import Final, TypeVar
from uuid import UUID

from ....light_dataclass import dataclass
from ....protocol.wire import Steps
from .records import ShareKey, ShareRecord, Snapshot
from .state import ShareState, applied

HELD_RECORDS: Final = 4
HELD_RECORDS_MIN: Final = 1_000
STEP_ITEMS: Final = 500
"""The share-partitions that are looked at in one step."""

T = TypeVar("T")


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

    def has(self, count: int) -> bool:
        """Return whether there are so many share-partitions at least; they are counted only where it is close."""
        return len(self.held) + len(self.pending) >= count and len(self) >= count

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

    def needed_offset(self, end_offset: int) -> Steps[int]:
        """Return the offset below which no committed record is needed, at most `end_offset`, the high watermark: what
        is committed between the steps comes after it. A record below it that is committed, but not noted here yet,
        comes after all that is held; if nothing is, it may be the first one that is needed.
        """
        lowest = end_offset if self.held or not self.pending else 0
        for some in _in_steps(list(self.held.values())):
            lowest = min(lowest, min([held.offset for held in some]))
            yield
        return lowest

    def cold(self, end_offset: int, written_before_ms: int, count_max: int) -> Steps[list[ShareKey]]:
        """Return so many share-partitions to be snapshotted again, those that hold most first."""
        lowest = end_offset - HELD_RECORDS * max(len(self.held), HELD_RECORDS_MIN // HELD_RECORDS)
        coldest: list[tuple[int, ShareKey]] = []
        for some in _in_steps(list(self.held.items())):
            cold = [
                (held.offset, key)
                for key, held in some
                if held.offset < lowest
                and held.state.snapshot.write_timestamp_ms <= written_before_ms
                and key not in self.pending
            ]
            coldest = nsmallest(count_max, [*coldest, *cold])
            yield
        return [key for _, key in coldest]

    # Topics.

    def of_topics(self, topic_ids: Iterable[UUID]) -> Steps[list[ShareKey]]:
        """Return the share-partitions of topics, in the order in which they began."""
        wanted, found = frozenset(topic_ids), dict[ShareKey, None]()
        for some in _in_steps([*self.held, *self.pending] if wanted else []):
            found |= dict.fromkeys([key for key in some if key.topic_id in wanted])
            yield
        return list(found)

    def look_for(self, are_there: Callable[[], Container[UUID]]) -> Steps[list[ShareKey]]:
        """Return the share-partitions whose topics are absent now and were at the last look: they were deleted while
        no broker led this partition. A new topic may be known here later than elsewhere.
        """
        absent = set[UUID]()
        for some in _in_steps(list(self.held)):
            absent |= {key.topic_id for key in some}
            yield
        there = are_there()
        absent = {topic_id for topic_id in absent if topic_id not in there}
        gone, self._absent = absent & self._absent, absent
        return (yield from self.of_topics(gone))


def _in_steps(items: list[T]) -> Iterator[list[T]]:
    """Yield as many items at once as are handled between two turns of other work."""
    for start in range(0, len(items), STEP_ITEMS):
        yield items[start : start + STEP_ITEMS]
