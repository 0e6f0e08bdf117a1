"""Any order of fetches, acknowledgements, ends of locks, writes that fail, new leaders: what must hold holds."""

from __future__ import annotations

from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tierfetch.broker.share.core.acknowledgements import Acknowledged, AcknowledgeType
from tierfetch.broker.share.core.partition import (
    AcquireLimits,
    FetchedBatch,
    SharePartition,
    ShareSettings,
    StoredBatch,
    Write,
)
from tierfetch.broker.share.core.runs import FINISHED, RecordState
from tierfetch.protocol.errors import KafkaError
from tierfetch.tests.broker.share.test_runs import check_sums

SETTINGS: Final = ShareSettings(delivery_count_max=3, locks_max=6, lock_ms=100)
MEMBERS: Final = ("a", "b", "c")
MEMBER = st.sampled_from(MEMBERS)
KIND = st.sampled_from([AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT])


class Shared(RuleBasedStateMachine):
    """A log of batches and holes, and what a coordinator of its own keeps by offset."""

    @initialize(
        parts=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["records", "marker", "hole"])), max_size=12)
    )
    def begin(self, parts: list[tuple[int, str]]) -> None:
        self.log: list[FetchedBatch] = []
        offset = 0
        for size, kind in parts:
            if kind != "hole":
                self.log.append(FetchedBatch(offset, offset + size - 1, kind == "records"))
            offset += size
        self.log.append(FetchedBatch(offset, offset, has_records=False))
        self.deliverable = {
            number for each in self.log if each.has_records for number in range(each.base_offset, each.last_offset + 1)
        }
        self.partition = SharePartition(0, SETTINGS)
        self.now_ms = 0
        self.log_start = 0
        self.held: dict[int, str] = {}
        """Whose lock an offset is under, whether its acknowledgement is being written or not."""
        self.deliveries: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        """What some member was told is acknowledged."""
        self.pending: list[tuple[Write, AcknowledgeType | None]] = []
        self.stored: dict[int, tuple[int, int]] = {}
        self.stored_start = 0
        self.lowest_start = 0

    @rule(member=MEMBER, records_max=st.integers(1, 8), batch_size=st.integers(1, 5), is_strict=st.booleans())
    def fetch(self, member: str, records_max: int, batch_size: int, is_strict: bool) -> None:
        offset = self.partition.next_fetch_offset()
        read = [each for each in self.log if each.last_offset >= offset]
        limits = AcquireLimits(records_max, batch_size, is_strict)
        acquired = self.partition.acquire(member, offset, read, limits, self.now_ms)
        numbers = [number for each in acquired for number in range(each.first, each.last + 1)]
        assert len(numbers) == len(set(numbers))
        assert numbers == sorted(numbers)
        if is_strict:
            assert len(numbers) <= records_max
        for each in acquired:
            for number in range(each.first, each.last + 1):
                assert number not in self.held, "two members have a record"
                assert number not in self.acknowledged, "what was acknowledged is delivered again"
                assert number in self.deliverable
                assert number >= self.log_start
                assert 1 <= each.delivery_count <= SETTINGS.delivery_count_max
                self.held[number] = member

    @rule(member=MEMBER, first=st.integers(0, 40), size=st.integers(1, 6), kind=KIND)
    def acknowledge(self, member: str, first: int, size: int, kind: AcknowledgeType) -> None:
        last = first + size - 1
        start, pending = self.partition.start_offset, self._pending_offsets()
        numbers = range(max(first, start), last + 1)
        is_allowed = all(self.held.get(number) == member and number not in pending for number in numbers)
        before = list(self.partition.runs)
        try:
            write = self.partition.acknowledge(member, [Acknowledged(first, last, kind)], self.now_ms)
        except KafkaError:
            assert not is_allowed
            assert list(self.partition.runs) == before
            return
        assert is_allowed
        if write is not None:
            self.pending.append((write, kind))
        else:
            assert not len(numbers)

    @rule(member=MEMBER, was_given=st.booleans())
    def leave(self, member: str, was_given: bool) -> None:
        write = self.partition.release(member, was_given=was_given)
        if write is not None:
            self.pending.append((write, None))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), is_written=st.booleans(), is_lost=st.booleans())
    def settle(self, data: st.DataObject, is_written: bool, is_lost: bool) -> None:
        """A write ends; one whose answer is lost has been made, and counts as failed."""
        write, kind = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        if is_written:
            self._store(write.batches)
        is_known = is_written and not is_lost
        self.partition.settle(write, is_written=is_known)
        if is_known:
            for first, last in write.ranges:
                for number in range(first, last + 1):
                    self.held.pop(number, None)
                    if kind is AcknowledgeType.ACCEPT:
                        self.acknowledged.add(number)

    @rule(ms=st.integers(1, 150), is_written=st.booleans())
    def wait(self, ms: int, is_written: bool) -> None:
        self.now_ms += ms
        write = self.partition.expire(self.now_ms)
        if write is not None:
            for batch in write.batches:
                for number in range(batch.first, batch.last + 1):
                    del self.held[number]
            if is_written:
                self._store(write.batches)

    @rule(offset=st.integers(0, 20))
    def delete_records(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        self.partition.log_start_moved(self.log_start)
        self.held = {number: member for number, member in self.held.items() if number >= self.log_start}

    @rule()
    def change_leader(self) -> None:
        batches = [StoredBatch(number, number, *held) for number, held in sorted(self.stored.items())]
        self.partition = SharePartition.load(self.stored_start, batches, SETTINGS)
        self.partition.log_start_moved(self.log_start)
        self.pending, self.held, self.lowest_start = [], {}, self.partition.start_offset
        states = {number: run.lot.state for run in self.partition.runs for number in range(run.first, run.last + 1)}
        for number, (state, _) in self.stored.items():
            if number >= self.partition.start_offset:
                assert (states[number] in FINISHED) == (state in FINISHED), "another state than was written"
        assert not any(state is RecordState.ACQUIRED for state in states.values())

    def teardown(self) -> None:
        """Whatever has happened, what is left can be delivered and acknowledged: nothing is stuck."""
        if not hasattr(self, "partition"):
            return
        for write, _ in self.pending:
            self.partition.settle(write, is_written=False)
        self.now_ms += SETTINGS.lock_ms
        self.partition.expire(self.now_ms)
        end = self.log[-1].last_offset + 1
        for _ in range(2 * end + 2):
            offset = self.partition.next_fetch_offset()
            read = [each for each in self.log if each.last_offset >= offset]
            acquired = self.partition.acquire("z", offset, read, AcquireLimits(1_000), self.now_ms)
            ranges = [Acknowledged(each.first, each.last, AcknowledgeType.ACCEPT) for each in acquired]
            write = self.partition.acknowledge("z", ranges, self.now_ms)
            if write is not None:
                self.partition.settle(write, is_written=True)
        assert self.partition.start_offset == self.partition.end_offset == max(end, self.log_start)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "partition"):
            return
        partition = self.partition
        assert partition.start_offset >= self.lowest_start, "the start has moved back"
        self.lowest_start = partition.start_offset
        runs = list(partition.runs)
        edges = [partition.start_offset, *(run.last + 1 for run in runs)]
        assert [run.first for run in runs] == edges[:-1]
        assert edges[-1] == partition.end_offset
        check_sums(partition._runs)
        assert not runs or not runs[0].lot.is_finished, "the start is finished"
        locked = {
            number: run.lot.member
            for run in runs
            if run.lot.state is RecordState.ACQUIRED
            for number in range(run.first, run.last + 1)
        }
        assert locked == self.held
        assert all(0 <= run.lot.delivery_count <= SETTINGS.delivery_count_max for run in runs)

    def _pending_offsets(self) -> set[int]:
        return {
            number for write, _ in self.pending for first, last in write.ranges for number in range(first, last + 1)
        }

    def _store(self, batches: tuple[StoredBatch, ...]) -> None:
        """As a share coordinator does: the newest state of each offset, from the start on."""
        self.stored_start = max(self.stored_start, self.partition.start_offset)
        for batch in batches:
            for number in range(batch.first, batch.last + 1):
                self.stored[number] = (batch.state, batch.delivery_count)
        self.stored = {number: held for number, held in self.stored.items() if number >= self.stored_start}


TestShared = Shared.TestCase
