"""One share-partition, and those of one partition of the topic: decisions, fences, replay, what is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.share_state.core.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, Batch
from tierfetch.broker.share_state.core.records import ShareKey, ShareRecord, Snapshot, Update, decode_record
from tierfetch.broker.share_state.core.shard import HELD_RECORDS_MIN, STEP_ITEMS, Held, Shard
from tierfetch.broker.share_state.core.state import (
    FENCE_MS,
    ShareState,
    Write,
    applied,
    check_size,
    deleted,
    initialized,
    is_fence,
    is_over,
    read_by,
    rewritten,
    written,
)
from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.protocol.wire import Steps, run_to_end

NOW_MS = 1_000
A, B = ShareKey("g", UUID(int=1), 0), ShareKey("g", UUID(int=2), 0)


def new(state_epoch: int = 1, start_offset: int = 0) -> Snapshot:
    value = initialized(None, state_epoch, start_offset, NOW_MS)
    assert value is not None
    return value


def begun(state_epoch: int = 2, start_offset: int = 100, leader_epoch: int = 5) -> ShareState:
    """Return a share-partition that a leader has taken over."""
    state = applied(None, new(state_epoch, start_offset))
    update = read_by(state, leader_epoch)
    assert update is not None
    return applied(state, update)


def write(*batches: Batch, state_epoch: int = 2, leader_epoch: int = 5, start_offset: int = -1, done: int = 0) -> Write:
    return Write(
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=done,
        batches=batches,
    )


def refused(state: ShareState, asked: Write) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        written(state, asked, 500, NOW_MS)
    return error.value.code


def test_updates_add_up_and_the_nth_is_a_snapshot() -> None:
    state, kinds = begun(), []
    for number in range(6):
        batch = Batch(100 + number, 100 + number, ACKNOWLEDGED, 1)
        value = written(state, write(batch, start_offset=100, done=number + 1), 3, NOW_MS + number)
        kinds.append(type(value))
        state = applied(state, value)
    # The leader's take-over was an update too.
    assert kinds == [Update, Update, Snapshot, Update, Update, Update]
    assert state.snapshot == Snapshot(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=5,
        start_offset=100,
        delivery_complete_count=6,
        create_timestamp_ms=NOW_MS,
        write_timestamp_ms=NOW_MS + 2,
        batches=(Batch(100, 105, ACKNOWLEDGED, 1),),
    )


@pytest.mark.parametrize(("start_offset", "count"), [(-1, -1), (0, 0), (7, 0)])
def test_from_a_known_start_on_nothing_is_delivered(start_offset: int, count: int) -> None:
    """As in Kafka: an operator who has set the offset sees the lag at once."""
    assert new(start_offset=start_offset).delivery_complete_count == count


def test_a_start_offset_that_rises_drops_what_is_below() -> None:
    state = applied(begun(), written(begun(), write(Batch(100, 109, AVAILABLE, 1)), 500, NOW_MS))
    state = applied(state, written(state, write(start_offset=105), 500, NOW_MS))
    assert state.snapshot.batches == (Batch(105, 109, AVAILABLE, 1),)


def test_a_write_that_comes_late_brings_nothing_back() -> None:
    state = applied(begun(), written(begun(), write(start_offset=110, done=3), 500, NOW_MS))
    late = written(state, write(Batch(100, 112, AVAILABLE, 1), start_offset=100, done=9), 500, NOW_MS)
    after = applied(state, late).snapshot
    assert (after.start_offset, after.delivery_complete_count) == (110, 3)
    assert after.batches == (Batch(110, 112, AVAILABLE, 1),)


def test_older_leaders_and_epochs_are_fenced() -> None:
    state = begun()
    assert refused(state, write(leader_epoch=4)) is ErrorCode.fenced_leader_epoch
    assert refused(state, write(state_epoch=1)) is ErrorCode.fenced_state_epoch
    assert refused(state, write(state_epoch=3)) is ErrorCode.fenced_state_epoch
    assert refused(state, write(Batch(3, 2, 0, 1))) is ErrorCode.invalid_request
    assert refused(state, write(start_offset=-2)) is ErrorCode.invalid_request
    assert isinstance(written(state, write(leader_epoch=-1, state_epoch=-1), 500, NOW_MS), Update)


def test_a_reader_under_a_new_epoch_fences_the_leader_before_it() -> None:
    state = begun()
    assert read_by(state, 5) is None
    assert read_by(state, -1) is None
    newer = read_by(state, 6)
    assert newer is not None
    assert refused(applied(state, newer), write(leader_epoch=5)) is ErrorCode.fenced_leader_epoch
    with pytest.raises(KafkaError) as error:
        read_by(applied(state, newer), 5)
    assert error.value.code is ErrorCode.fenced_leader_epoch


def test_to_begin_again_drops_batches_and_keeps_the_fence() -> None:
    state = applied(begun(), written(begun(), write(Batch(100, 109, ACKNOWLEDGED, 1), done=10), 500, NOW_MS))
    again = initialized(state, 3, 7, NOW_MS + 1)
    assert again is not None
    assert (again.snapshot_epoch, again.leader_epoch, again.batches, again.delivery_complete_count) == (1, 5, (), 0)
    with pytest.raises(KafkaError) as error:
        initialized(applied(state, again), 2, 7, NOW_MS)
    assert error.value.code is ErrorCode.fenced_state_epoch


def test_to_begin_twice_in_one_epoch_drops_nothing() -> None:
    state = applied(begun(), written(begun(), write(Batch(100, 109, ACKNOWLEDGED, 1), done=10), 500, NOW_MS))
    assert initialized(state, 2, 100, NOW_MS + 1) is None


def test_a_fence_is_left_where_a_share_partition_is_deleted() -> None:
    state = begun(state_epoch=4)
    state = applied(state, written(state, write(start_offset=110, state_epoch=4), 500, NOW_MS))
    with pytest.raises(KafkaError, match="state epoch 3 is fenced: 4 is known"):
        deleted(state, 3, NOW_MS)
    left = deleted(state, 5, NOW_MS)
    assert left is not None
    fence = applied(state, left)
    assert is_fence(fence)
    assert deleted(fence, 5, NOW_MS) is None
    for epoch in (4, 5):
        with pytest.raises(KafkaError) as error:
            initialized(fence, epoch, 500, NOW_MS + FENCE_MS - 1)
        assert error.value.code is ErrorCode.fenced_state_epoch
    again = initialized(fence, 6, -1, NOW_MS)
    assert again is not None
    assert (again.state_epoch, again.leader_epoch, again.start_offset, again.batches) == (6, 0, -1, ())
    assert again.snapshot_epoch == left.snapshot_epoch + 1
    assert not is_fence(applied(fence, again))
    for epoch in (1, -1):
        assert initialized(fence, epoch, 7, NOW_MS + FENCE_MS) is not None, "nothing of it can be under way any longer"
    unknown = deleted(None, 5, NOW_MS)
    assert unknown is not None, "what would let it begin may be under way"
    assert is_fence(applied(None, unknown))


def test_only_what_a_deletion_leaves_is_a_fence() -> None:
    for value in (new(start_offset=-1), new()):
        state = applied(None, value)
        assert not is_fence(state)
        assert not is_fence(applied(state, written(state, write(leader_epoch=-1, state_epoch=-1), 500, NOW_MS)))
    lost = Update(snapshot_epoch=1, leader_epoch=-1, start_offset=-1)
    assert not is_fence(applied(None, lost)), "the snapshot before it was lost"


def test_a_fence_goes_once_it_no_longer_holds_also_one_that_was_snapshotted_again() -> None:
    shard, left = Shard(), deleted(None, 5, NOW_MS)
    assert left is not None
    shard.replay(ShareRecord(A, left), 0)
    shard.replay(ShareRecord(A, rewritten(shard.held[A].state, NOW_MS + FENCE_MS)), 1)
    fence = shard.latest(A)
    assert fence is not None
    assert not is_over(fence, NOW_MS + FENCE_MS - 1)
    assert is_over(fence, NOW_MS + FENCE_MS)
    shard.decided(ShareRecord(A, new(6)), object())
    begun_again = shard.latest(A)
    assert begun_again is not None
    assert not is_over(begun_again, NOW_MS + FENCE_MS)


@pytest.mark.parametrize("state_epoch", [2, 3, -1])
def test_to_begin_again_without_an_offset_drops_nothing_whatever_the_epoch(state_epoch: int) -> None:
    """A member that joined before the second try had raised the epoch: what was acknowledged between was dropped."""
    state = applied(begun(), written(begun(), write(Batch(100, 109, ACKNOWLEDGED, 1), done=10), 500, NOW_MS))
    assert initialized(state, state_epoch, -1, NOW_MS + 1) is None
    with pytest.raises(KafkaError):
        initialized(state, 1, -1, NOW_MS)
    reset = initialized(state, 3, 0, NOW_MS + 1)
    assert reset is not None, "an operator's reset wins"
    assert (reset.start_offset, reset.batches) == (0, ())
    assert initialized(state, -1, 100, NOW_MS + 1) is not None, "an epoch that is not given is not judged"


def test_a_share_partition_that_is_full_takes_what_does_not_add_ranges() -> None:
    state = applied(begun(), written(begun(), write(*(Batch(n, n, ARCHIVED, 1) for n in (100, 102, 104))), 500, NOW_MS))

    def check(*some: Batch, start_offset: int = -1) -> None:
        check_size(state, written(state, write(*some, start_offset=start_offset), 500, NOW_MS), 2)

    check(Batch(101, 101, ARCHIVED, 1))
    check(Batch(104, 104, ACKNOWLEDGED, 2))
    check(Batch(106, 106, ARCHIVED, 1), start_offset=103)
    with pytest.raises(KafkaError, match="4 ranges instead of 3, at most 2") as error:
        check(Batch(106, 106, ARCHIVED, 1))
    assert error.value.code is ErrorCode.invalid_request


# The shard.

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([A, B]), st.integers(0, 30), st.sampled_from([0, 2, 4])),
        st.tuples(st.just("init"), st.sampled_from([A, B]), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("read"), st.sampled_from([A, B]), st.integers(0, 5), st.just(0)),
        st.tuples(
            st.sampled_from(["commit", "lose", "delete", "fence", "rewrite"]),
            st.sampled_from([A, B]),
            st.just(0),
            st.just(0),
        ),
    ),
    max_size=40,
)


class Log:
    """A shard, and its log; records are decided, then committed in their order or lost."""

    def __init__(self) -> None:
        self.shard = Shard()
        self.records: list[ShareRecord] = []
        self.waiting: list[ShareRecord] = []

    def decide(self, key: ShareKey, value: Snapshot | Update | None) -> None:
        record = ShareRecord(key, value)
        self.shard.decided(record, record)
        self.waiting.append(record)

    def commit(self) -> None:
        if self.waiting:
            record = self.waiting.pop(0)
            self.shard.committed(record, len(self.records))
            self.records.append(record)

    def lose(self, key: ShareKey) -> None:
        lost = self.shard.lost(key)
        self.waiting = [each for each in self.waiting if not any(each is token for token in lost)]

    def step(self, kind: str, key: ShareKey, number: int, state_number: int) -> None:
        state = self.shard.latest(key)
        if kind == "commit":
            self.commit()
        elif kind == "lose":
            self.lose(key)
        elif kind in ("init", "fence"):
            self.begin_or_end(kind, key, number)
        elif state is not None and kind == "delete":
            self.decide(key, None)
        elif state is not None and not is_fence(state):
            self.lead(kind, key, state, number, state_number)

    def begin_or_end(self, kind: str, key: ShareKey, number: int) -> None:
        state = self.shard.latest(key)
        epoch = number if state is None else state.snapshot.state_epoch + number
        if kind == "init":
            begins_at = epoch if state is None else epoch + is_fence(state)
            value = initialized(state, begins_at, number, NOW_MS)
        else:
            value = deleted(state, epoch, NOW_MS)
        if value is not None:
            self.decide(key, value)

    def lead(self, kind: str, key: ShareKey, state: ShareState, number: int, state_number: int) -> None:
        if kind == "rewrite":
            self.decide(key, rewritten(state, NOW_MS))
        elif kind == "read":
            update = read_by(state, state.snapshot.leader_epoch + number)
            if update is not None:
                self.decide(key, update)
        else:
            batch = Batch(number, number + 3, state_number, 1)
            asked = write(batch, state_epoch=-1, leader_epoch=-1, start_offset=number // 2)
            self.decide(key, written(state, asked, 2, NOW_MS))


def test_a_commit_takes_the_state_that_was_decided() -> None:
    """Each record was applied twice, with all batches of its share-partition."""
    log = Log()
    log.decide(A, new())
    log.step("write", A, 3, ACKNOWLEDGED)
    decided = [each.state for each in log.shard.pending[A]]
    for state in decided:
        log.commit()
        assert log.shard.held[A].state is state


@given(steps)
def test_reading_the_log_gives_what_is_committed_from_the_needed_offset_on(
    run: list[tuple[str, ShareKey, int, int]],
) -> None:
    log = Log()
    for step in run:
        log.step(*step)
    for start in (0, run_to_end(log.shard.needed_offset(len(log.records)))):
        again = Shard()
        for offset, record in enumerate(log.records):
            decoded = decode_record(*record.encoded())
            assert decoded == record
            if offset >= start:
                again.replay(decoded, offset)
        assert again.held == log.shard.held
    # What is decided adds up as the log will.
    while log.waiting:
        log.commit()
    assert not log.shard.pending
    for key in (A, B):
        held = log.shard.held.get(key)
        assert log.shard.latest(key) == (None if held is None else held.state)


def test_an_update_needs_the_snapshot_before_it() -> None:
    log = Log()
    log.decide(A, new())
    log.step("write", A, 3, ACKNOWLEDGED)
    log.decide(B, new())
    while log.waiting:
        log.commit()
    assert run_to_end(log.shard.needed_offset(3)) == 0
    log.step("rewrite", A, 0, 0)
    log.commit()
    assert run_to_end(log.shard.needed_offset(4)) == 2


def test_what_is_lost_takes_all_that_was_decided_on_it() -> None:
    log = Log()
    log.decide(A, new())
    log.commit()
    before = log.shard.latest(A)
    assert before is not None
    for number in range(3):
        log.step("write", A, number, ARCHIVED)
    lost = log.shard.lost(A)
    assert [token is record for token, record in zip(lost, reversed(log.waiting), strict=True)] == [True] * 3
    assert log.shard.latest(A) == before
    assert log.shard.last_pending(A) is None


def test_one_that_is_written_no_more_is_snapshotted_again_once_it_holds_others_records() -> None:
    shard = Shard()
    first = new()
    shard.replay(ShareRecord(A, first), 0)
    for offset in range(1, HELD_RECORDS_MIN):
        shard.replay(ShareRecord(B, replace(first, write_timestamp_ms=NOW_MS + 500)), offset)
    assert run_to_end(shard.needed_offset(HELD_RECORDS_MIN)) == 0
    assert run_to_end(shard.cold(HELD_RECORDS_MIN, NOW_MS, 10)) == []
    assert run_to_end(shard.cold(HELD_RECORDS_MIN + 1, NOW_MS - 1, 10)) == [], "not before its time"
    assert run_to_end(shard.cold(HELD_RECORDS_MIN + 1, NOW_MS, 10)) == [A]
    shard.replay(ShareRecord(A, rewritten(shard.held[A].state, NOW_MS)), HELD_RECORDS_MIN)
    assert run_to_end(shard.needed_offset(HELD_RECORDS_MIN + 1)) == HELD_RECORDS_MIN - 1
    assert run_to_end(Shard().needed_offset(9)) == 9


def test_topics_that_are_absent_twice_are_deleted() -> None:
    shard = Shard()
    for offset, key in enumerate((A, B)):
        shard.replay(ShareRecord(key, new()), offset)
    assert run_to_end(shard.of_topics([B.topic_id])) == [B]
    assert run_to_end(shard.look_for(lambda: [A.topic_id])) == [], "perhaps it is new, and not known here yet"
    assert run_to_end(shard.look_for(lambda: [A.topic_id, B.topic_id])) == []
    assert run_to_end(shard.look_for(lambda: [A.topic_id])) == []
    assert run_to_end(shard.look_for(lambda: [A.topic_id])) == [B]


def test_what_is_committed_and_not_noted_yet_is_needed_where_nothing_else_is() -> None:
    shard, record = Shard(), ShareRecord(A, new())
    shard.decided(record, None)
    assert run_to_end(shard.needed_offset(1)) == 0
    shard.committed(record, 0)
    assert run_to_end(shard.needed_offset(1)) == 0


def test_the_coldest_come_first_and_no_more_of_them_than_are_wanted() -> None:
    shard = Shard()
    keys = [ShareKey("g", UUID(int=1), number) for number in range(2 * STEP_ITEMS)]
    for offset, key in enumerate(reversed(keys)):
        shard.replay(ShareRecord(key, new()), offset)
    assert run_to_end(shard.cold(10**6, NOW_MS, 3)) == keys[:-4:-1]


@pytest.mark.parametrize(
    "steps",
    [
        lambda shard: shard.look_for(lambda: ()),
        lambda shard: shard.of_topics([A.topic_id]),
        lambda shard: shard.needed_offset(0),
        lambda shard: shard.cold(10**6, NOW_MS, 10),
    ],
)
def test_D10_nothing_goes_through_all_share_partitions_in_one_step(steps: Callable[[Shard], Steps[object]]) -> None:
    shard, state = Shard(), applied(None, new())
    count = 20 * STEP_ITEMS
    shard.held.update({ShareKey("g", A.topic_id, number): Held(state, number) for number in range(count)})
    assert sum(1 for _ in steps(shard)) >= count // STEP_ITEMS


def test_so_many_share_partitions_are_there_as_have_begun_and_are_about_to() -> None:
    shard = Shard()
    for number in range(2):
        shard.replay(ShareRecord(ShareKey("g", A.topic_id, number), new()), number)
    shard.decided(ShareRecord(ShareKey("g", A.topic_id, 1), new()), object())
    shard.decided(ShareRecord(ShareKey("g", A.topic_id, 2), new()), object())
    assert len(shard) == 3
    assert [shard.has(count) for count in (2, 3, 4, 5)] == [True, True, False, False]
