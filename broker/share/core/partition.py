"""What one share group has under way in one partition, under one leader epoch: who may get which records (KIP-932).

    fetched batches --acquire--> ACQUIRED --acknowledge, release--> a transition --written--> its new state
                                     |                                  \\--not written--> ACQUIRED, as it was
                                     +--expire: its lock has ended--> AVAILABLE or ARCHIVED at once, written later

The start is the first offset that is not finished, the end is the next one that was never acquired. Offsets below the
start are finished; offsets from the end on are untouched.

| before | after |
|---|---|
| a transition is written | its acknowledgement is answered; the record counts as finished, or may be delivered again |
| an acquisition | nothing: what is acquired when leadership ends is delivered again by the next leader |

Invariants:

1. A record is acquired by one member at most, and acquired again only after it was released or its lock has ended.
2. What was acknowledged, and answered so, is never delivered again: by this leader, or by one that loads what it wrote.
3. No record is delivered more often than `delivery_count_max`; a member that closes its session in order gives back
   what it was not given yet, and that delivery counts for nothing.
4. The start never moves back.
5. Loading what was written gives the finished offsets, and the delivery counts as of the last write.

Failure points. A transition whose write has failed is undone: the lock is as it was, also if it should have ended
meanwhile. A write whose outcome is not known counts as failed: what is delivered again then was not answered. The state
of an expired lock is kept if its write fails: the next leader delivers the record again, with the count before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, KafkaError
from .acknowledgements import Acknowledged, AcknowledgeType
from .runs import Change, Lot, RecordState, Run, Runs

RUNS_PER_LOCK: Final = 4
"""Nothing new is acquired while there are more runs than this, times the locks that are allowed: finished runs of two
kinds may take turns after a record that is not finished.
"""
RUNS_MAX: Final = 5_000
"""The same whatever the locks: half of the ranges that a share coordinator keeps, for what is locked may still be split
by its acknowledgements.
"""

_ARCHIVED: Final = Lot(RecordState.ARCHIVED)
_Outcome = Callable[[Lot], tuple[RecordState, int]]
"""What a transition makes of a record: its state and delivery count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The bounds of a group; Kafka's keys and defaults."""

    delivery_count_max: int = 5
    """group.share.delivery.count.limit"""
    locks_max: int = 2_000
    """group.share.partition.max.record.locks"""
    lock_ms: int = 30_000
    """group.share.record.lock.duration.ms"""
    may_renew: bool = True
    """share.renew.acknowledge.enable"""


class FetchedBatch(NamedTuple):
    """A batch of the log. `has_records` is false where there is nothing for a consumer: a marker, an aborted batch."""

    base_offset: int
    last_offset: int
    has_records: bool = True


class AcquireLimits(NamedTuple):
    """What a member asks for. With `is_strict` (KIP-1206) batches of the log are cut to have exactly that many."""

    records_max: int
    batch_size: int = 1
    is_strict: bool = False


class AcquiredRecords(NamedTuple):
    """Offsets that a member was given, with how often they were delivered by that."""

    first: int
    last: int
    delivery_count: int


class StoredBatch(NamedTuple):
    """Offsets as they are written."""

    first: int
    last: int
    state: int
    delivery_count: int


class Write(NamedTuple):
    """What has to be written. `number` is that of the transition, None where nothing depends on the outcome."""

    number: int | None
    ranges: tuple[tuple[int, int], ...]
    batches: tuple[StoredBatch, ...]


class SharePartition:
    """See the module's docstring."""

    def __init__(self, start_offset: int, settings: ShareSettings) -> None:
        self.settings = settings
        self._runs = Runs(start_offset)
        self._transitions = 0

    @classmethod
    def load(cls, start_offset: int, batches: Sequence[StoredBatch], settings: ShareSettings) -> SharePartition:
        """Return the state that was written. Offsets between the batches were never finished. Raise KafkaError for what
        no leader has written.
        """
        partition = cls(start_offset, settings)
        runs = partition._runs
        for batch in sorted(batches):
            if batch.last < batch.first or batch.state not in RecordState.__members__.values():
                raise _unreadable(batch)
            if batch.last < runs.start:
                continue
            if runs.start < runs.end > batch.first:
                raise _unreadable(batch)
            state = RecordState(batch.state)
            if batch.first > runs.end:
                runs.append(batch.first - 1, Lot(RecordState.AVAILABLE))
            # A lock is of the leader that gave it.
            kept = RecordState.AVAILABLE if state is RecordState.ACQUIRED else state
            runs.append(batch.last, Lot(kept, max(batch.delivery_count, 0)))
        partition._move_start()
        return partition

    # What there is.

    @property
    def start_offset(self) -> int:
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """The next offset that was never acquired."""
        return self._runs.end

    @property
    def runs(self) -> Iterator[Run]:
        """The states from the start to the end."""
        return iter(self._runs)

    @property
    def in_flight(self) -> int:
        """The number of offsets between start and end that are not finished."""
        return self._runs.sums.unfinished

    @property
    def in_flight_runs(self) -> int:
        """The number of runs that have these."""
        return self._runs.sums.unfinished_runs

    @property
    def is_idle(self) -> bool:
        """Whether nothing is locked, and no transition is under way."""
        return not self._runs.sums.busy_runs

    @property
    def completed(self) -> int:
        """The number of offsets between start and end that are finished, or will be once that is written."""
        return self._runs.sums.completed

    def next_fetch_offset(self) -> int:
        """Return where the log has to be read next."""
        if not self._runs.sums.available_runs:
            return self._runs.end
        return next(run.first for run in self._runs if run.lot.is_available)

    def can_acquire(self) -> bool:
        """Return whether a member could be given something if the log has it."""
        return self.next_fetch_offset() < self._runs.end or self._room() > 0

    def next_deadline_ms(self) -> int | None:
        """Return when the next lock ends; None without one."""
        return self._runs.sums.next_deadline_ms()

    def _room(self) -> int:
        """How many offsets may be acquired for the first time."""
        locks_max = self.settings.locks_max
        runs_max = min(RUNS_PER_LOCK * locks_max, RUNS_MAX)
        return 0 if len(self._runs) > runs_max else max(0, locks_max - self.in_flight)

    # Acquisition.

    def acquire(
        self, member: str, fetch_offset: int, batches: Iterable[FetchedBatch], limits: AcquireLimits, now_ms: int
    ) -> tuple[AcquiredRecords, ...]:
        """Give a member what may be delivered of the batches that were read from `fetch_offset` on, in their order.

        Offsets without a record (compacted, aborted, a marker) are archived.
        """
        acquired: list[AcquiredRecords] = []
        left, room, offset = limits.records_max, self._room(), fetch_offset
        for batch in batches:
            first = max(batch.base_offset, fetch_offset, self._runs.start)
            self._archive(offset, first - 1)
            offset = max(batch.last_offset + 1, offset)
            if not batch.has_records:
                self._archive(first, batch.last_offset)
                continue
            is_new = batch.last_offset >= self._runs.end
            if left <= 0 or (is_new and room <= 0 and not self._has_available(first, batch.last_offset)):
                break
            before = self._runs.end
            for piece in self._take(member, first, batch.last_offset, left if limits.is_strict else None, room, now_ms):
                left -= piece.last - piece.first + 1
                _add(acquired, piece, limits.batch_size)
            room -= self._runs.end - before
            if self._runs.end <= batch.last_offset:
                break
        self._move_start()
        return tuple(acquired)

    def give_back(self, acquired: Iterable[AcquiredRecords]) -> None:
        """Undo an acquisition of this instant, which its member will not be sent."""
        self._runs.update(
            [
                (each.first, each.last, _becomes(Lot(RecordState.AVAILABLE, each.delivery_count - 1)))
                for each in acquired
            ]
        )

    def _has_available(self, first: int, last: int) -> bool:
        return any(run.lot.is_available for run in self._runs.within(first, last))

    def _take(
        self, member: str, first: int, last: int, records_max: int | None, room: int, now_ms: int
    ) -> list[AcquiredRecords]:
        """Acquire what is available of one batch of the log; whole, unless `records_max` says how much of it."""
        deadline_ms = now_ms + self.settings.lock_ms
        taken: list[AcquiredRecords] = []
        left = last - first + 1 if records_max is None else records_max
        for run in self._runs.within(first, last):
            if run.lot.is_available and left > 0:
                end = min(run.last, run.first + left - 1)
                taken.append(AcquiredRecords(run.first, end, run.lot.delivery_count + 1))
                left -= end - run.first + 1
        self._runs.update(
            [
                (each.first, each.last, _becomes(Lot(RecordState.ACQUIRED, each.delivery_count, member, deadline_ms)))
                for each in taken
            ]
        )
        new = max(self._runs.end, first)
        if new <= last and left > 0 and room > 0:
            end = last if records_max is None else min(last, new + min(left, room) - 1)
            self._archive(self._runs.end, new - 1)
            self._runs.append(end, Lot(RecordState.ACQUIRED, 1, member, deadline_ms))
            taken.append(AcquiredRecords(new, end, 1))
        return taken

    def _archive(self, first: int, last: int) -> None:
        """Archive offsets that have nothing to deliver, unless they were given to a member before."""
        if first > last:
            return
        self._runs.replace(first, last, lambda lot: _ARCHIVED if lot.is_available else lot)
        if first <= self._runs.end:
            self._runs.append(last, _ARCHIVED)

    # What becomes of it.

    def acknowledge(self, member: str, ranges: Sequence[Acknowledged], now_ms: int) -> Write | None:
        """Begin what a member says of its records, in the order of their offsets: all of it, or nothing. Return what
        has to be written before it holds; None if nothing has to.

        What is below the start is finished already. Raise INVALID_RECORD_STATE for a record that the member does not
        hold, and for a renewed lock where the group has none; INVALID_REQUEST for one that was never acquired.
        """
        if not self.settings.may_renew and any(item.type is AcknowledgeType.RENEW for item in ranges):
            raise KafkaError(
                ErrorCode.invalid_record_state, "locks are not renewed: share.renew.acknowledge.enable=false"
            )
        for item in ranges:
            self._check_held(member, item)
        deadline_ms = now_ms + self.settings.lock_ms
        self._runs.update(
            [
                (first, last, lambda lot: lot._replace(deadline_ms=deadline_ms))
                for first, last, kind in ranges
                if kind is AcknowledgeType.RENEW
            ]
        )
        return self._begin(
            [(first, last, self._outcome_of(kind)) for first, last, kind in ranges if kind is not AcknowledgeType.RENEW]
        )

    def release(self, member: str, *, was_given: bool) -> Write | None:
        """Begin to give up all that a member has locked, as `acknowledge` does. Unless `was_given`, the last delivery
        counts for nothing: the member closes its session in order, and says that it did not use the rest.
        """
        held = [(run.first, run.last) for run in self._runs if run.lot.is_held_by(member)]

        def outcome(lot: Lot) -> tuple[RecordState, int]:
            if not was_given:
                return RecordState.AVAILABLE, max(lot.delivery_count - 1, 0)
            return self._released(lot), lot.delivery_count

        return self._begin([(first, last, outcome) for first, last in held])

    def expire(self, now_ms: int) -> Write | None:
        """Take back what is locked for too long; return what has to be written of it."""
        ended = [run for run in self._runs if run.lot.is_locked and run.lot.deadline_ms <= now_ms]
        self._runs.update(
            [(run.first, run.last, _becomes(Lot(self._released(run.lot), run.lot.delivery_count))) for run in ended]
        )
        if not ended:
            return None
        batches = [StoredBatch(run.first, run.last, self._released(run.lot), run.lot.delivery_count) for run in ended]
        self._move_start()
        return Write(None, (), joined(batches))

    def settle(self, write: Write, *, is_written: bool) -> None:
        """End a transition: what it says holds now, or never did."""
        if write.number is None:
            return

        def settled(lot: Lot) -> Lot:
            change = lot.change
            assert change is not None, (lot, write)
            assert change.number == write.number, "another transition has begun on what is being written"
            return Lot(change.state, change.delivery_count) if is_written else lot._replace(change=None)

        self._runs.update([(first, last, settled) for first, last in write.ranges])
        self._move_start()

    def log_start_moved(self, log_start_offset: int) -> None:
        """Let go of what the log no longer has, also where a member has it: what it says of that is ignored."""
        self._runs.drop_below(log_start_offset)
        self._move_start()

    def _begin(self, changes: Sequence[tuple[int, int, _Outcome]]) -> Write | None:
        number = self._transitions + 1
        ranges: list[tuple[int, int]] = []
        batches: list[StoredBatch] = []
        for first, last, outcome in changes:
            for run in self._runs.within(first, last):
                state, count = outcome(run.lot)
                batches.append(StoredBatch(run.first, run.last, state, count))
                ranges.append((run.first, run.last))
        if not batches:
            return None
        self._runs.update(
            [
                (each.first, each.last, _begins(Change(number, RecordState(each.state), each.delivery_count)))
                for each in batches
            ]
        )
        self._transitions = number
        return Write(number, tuple(ranges), joined(batches))

    def _check_held(self, member: str, item: Acknowledged) -> None:
        runs = self._runs
        first, last = max(item.first, runs.start), item.last
        if last < first:
            return
        if last >= runs.end:
            code = ErrorCode.invalid_record_state if not len(runs) else ErrorCode.invalid_request
            raise KafkaError(code, f"offsets {item.first} to {last}: nothing from {runs.end} on was acquired")
        for run in runs.within(first, last):
            if not run.lot.is_held_by(member):
                raise KafkaError(
                    ErrorCode.invalid_record_state,
                    f"offsets {run.first} to {run.last} are not locked by this member, or are being acknowledged",
                )

    def _outcome_of(self, kind: AcknowledgeType) -> _Outcome:
        def outcome(lot: Lot) -> tuple[RecordState, int]:
            if kind is AcknowledgeType.ACCEPT:
                return RecordState.ACKNOWLEDGED, lot.delivery_count
            if kind is AcknowledgeType.RELEASE:
                return self._released(lot), lot.delivery_count
            return RecordState.ARCHIVED, lot.delivery_count

        return outcome

    def _released(self, lot: Lot) -> RecordState:
        """What a record becomes that was delivered, and was not processed."""
        is_over = lot.delivery_count >= self.settings.delivery_count_max
        return RecordState.ARCHIVED if is_over else RecordState.AVAILABLE

    def _move_start(self) -> None:
        offset = self._runs.start
        for run in self._runs:
            if not run.lot.is_finished:
                break
            offset = run.last + 1
        self._runs.drop_below(offset)


def _becomes(lot: Lot) -> Callable[[Lot], Lot]:
    return lambda _: lot


def _begins(change: Change) -> Callable[[Lot], Lot]:
    return lambda lot: lot._replace(change=change)


def joined(batches: Iterable[StoredBatch]) -> tuple[StoredBatch, ...]:
    """Return batches with neighbours that are alike as one."""
    result: list[StoredBatch] = []
    for batch in batches:
        last = result[-1] if result else None
        if last is not None and last.last + 1 == batch.first and last[2:] == batch[2:]:
            result[-1] = last._replace(last=batch.last)
        else:
            result.append(batch)
    return tuple(result)


def _add(acquired: list[AcquiredRecords], piece: AcquiredRecords, batch_size: int) -> None:
    """Add a piece of one batch of the log, to the one before it while that has fewer than `batch_size` records."""
    last = acquired[-1] if acquired else None
    is_neighbour = last is not None and last.last + 1 == piece.first and last.delivery_count == piece.delivery_count
    if last is not None and is_neighbour and piece.first - last.first < batch_size:
        acquired[-1] = last._replace(last=piece.last)
    else:
        acquired.append(piece)


def _unreadable(batch: StoredBatch) -> KafkaError:
    return KafkaError(
        ErrorCode.unknown_server_error,
        f"the share coordinator has {batch}: the batches of a partition have known states and do not overlap",
    )
