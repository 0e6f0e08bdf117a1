"""A log whose last records alone are decoded gives what all of its records give, decoded one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.coordinator.core.last_records import LastRecords
from tierfetch.broker.coordinator.core.undecided import Undecided
from tierfetch.broker.groups.core.consumer.records import (
    ConsumerKey,
    ConsumerValue,
    Current,
    GroupEpoch,
    Kind,
    MemberState,
    Subscriber,
    Target,
    TargetEpoch,
)
from tierfetch.broker.groups.core.group_state import GroupSettings
from tierfetch.broker.groups.core.records import (
    GroupKey,
    GroupRecord,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_record,
    is_offset_key,
)
from tierfetch.broker.groups.core.shard import Shard
from tierfetch.protocol import CorruptRecordError
from tierfetch.protocol.records import (
    ControlType,
    EndTransactionMarker,
    Record,
    build_batch,
    build_end_transaction_batch,
    control_type,
    decompressed,
    parse_header,
)
from tierfetch.protocol.records.skim import SkimmedRecord, skim

Pair = tuple[bytes, bytes | None]
TOPIC_ID = UUID(int=1)
GROUPS = ("g", "h")
MEMBERS = ("a", "b")
ABORT = ControlType.ABORT
UNREADABLE = b"\x00\x63"
"""A value of a version that does not exist."""


@dataclass(frozen=True)
class Step:
    """A batch of records, or the marker that ends a producer's transaction."""

    pairs: tuple[Pair, ...] = ()
    producer_id: int = -1
    marker: ControlType | None = None

    def encoded(self) -> bytes:
        if self.marker is not None:
            marker = EndTransactionMarker(self.marker, 0)
            return build_end_transaction_batch(
                marker, base_offset=0, timestamp_ms=0, producer_id=self.producer_id, producer_epoch=0
            )
        records = [Record(at, 0, key, value) for at, (key, value) in enumerate(self.pairs)]
        if self.producer_id < 0:
            return build_batch(records, base_offset=0)
        return build_batch(
            records, base_offset=0, producer_id=self.producer_id, producer_epoch=0, is_transactional=True
        )


def records_of(batch: bytes) -> list[SkimmedRecord]:
    header = parse_header(batch)
    return list(skim(decompressed(batch, 0, header), header))


def one_by_one(steps: Iterable[Step]) -> Shard:
    """Decode every record, in the order of the log."""
    shard = Shard(GroupSettings())
    for step in steps:
        batch = step.encoded()
        for record in records_of(batch):
            if step.marker is not None:
                kind = control_type(record)
                shard.end_transaction(step.producer_id, is_committed=kind is ControlType.COMMIT)
                continue
            assert record.key is not None
            try:
                decoded = decode_record(record.key, record.value)
            except CorruptRecordError:
                continue
            if decoded is None:
                continue
            if step.producer_id >= 0:
                shard.replay_undecided(step.producer_id, decoded)
            else:
                shard.replay(decoded)
    return shard


def last_alone(steps: Iterable[Step]) -> Shard:
    """Decode the last records; all of them if one cannot be."""
    steps = list(steps)
    last = taken(steps, LastRecords(is_offset_key))
    try:
        return decoded_shard(last)
    except CorruptRecordError:
        return decoded_shard(taken(steps, LastRecords(is_offset_key, decode_record)))


def taken(steps: Iterable[Step], last: LastRecords) -> LastRecords:
    for step in steps:
        batch = step.encoded()
        last.take(parse_header(batch), records_of(batch))
    return last


def decoded_shard(last: LastRecords) -> Shard:
    shard = Shard(GroupSettings())
    for key, value in last.last.items():
        decoded = decode_record(key, value)
        if decoded is not None:
            shard.replay(decoded)
    for producer_id, key, value in last.undecided:
        decoded = decode_record(key, value)
        if decoded is not None:
            shard.replay_undecided(producer_id, decoded)
    return shard


def known(shard: Shard) -> dict[str, Any]:
    """What a shard knows. A group of which nothing is left but that it was there once is left out."""
    return {
        "offsets": shard.offsets,
        "undecided": by_key(shard.undecided),
        "groups": {
            group_id: group.as_value()
            for group_id, group in shard.groups.items()
            if group_id in shard.offsets or group.protocol_type is not None
        },
        "consumers": {group_id: sorted(map(repr, group.records())) for group_id, group in shard.consumers.items()},
        "owners": {group_id: group.owners for group_id, group in shard.consumers.items()},
    }


def by_key(undecided: Undecided[OffsetKey, OffsetValue]) -> dict[OffsetKey, list[tuple[int, OffsetValue]]]:
    """What waits for each key, in the order of the log."""
    waiting: dict[OffsetKey, list[tuple[int, OffsetValue]]] = {}
    for producer_id, key, value in undecided:
        waiting.setdefault(key, []).append((producer_id, value))
    return waiting


def pair(record: GroupRecord) -> Pair:
    return record.encoded()


def value_of(group_id: str, generation: int) -> GroupRecord:
    value = GroupValue(protocol_type="consumer", generation_id=generation, protocol_name="range", leader=None)
    return GroupRecord(GroupKey(group_id), value)


# What may be in a log.

offset_keys = st.builds(OffsetKey, st.sampled_from(GROUPS), st.sampled_from(("t", "u")), st.integers(0, 2))
offset_values = st.builds(
    OffsetValue,
    offset=st.integers(0, 9),
    leader_epoch=st.integers(-1, 3),
    metadata=st.sampled_from(("", "m\u00e9ta")),
    commit_timestamp_ms=st.integers(0, 9),
    expire_timestamp_ms=st.sampled_from((-1, 5)),
    topic_id=st.sampled_from((None, TOPIC_ID)),
)
offset_pairs = st.builds(GroupRecord, offset_keys, st.none() | offset_values).map(pair)
rotten_pairs = st.tuples(
    offset_keys.map(lambda key: GroupRecord(key, None).encoded()[0]) | st.sampled_from((b"", b"\x00", b"\x00\x01\x00")),
    st.none() | st.sampled_from((UNREADABLE, b"", b"\x00\x03\x00")),
)
foreign_pairs = st.tuples(st.just(b"\x00\x63\x00\x01g"), st.sampled_from((None, b"1", b"2")))
offsets = st.lists(offset_pairs | rotten_pairs | foreign_pairs, min_size=1, max_size=4).map(tuple)
producers = st.integers(0, 2)


@dataclass
class Groups:
    """Writes records of the groups themselves as a coordinator does: a group is of one protocol at a time."""

    shard: Shard = field(default_factory=lambda: Shard(GroupSettings()))
    epoch: int = 0

    def write(self, records: Iterable[GroupRecord]) -> Step:
        records = list(records)
        for record in records:
            self.shard.replay(record)
        return Step(tuple(map(pair, records)))

    def store_classic(self, group_id: str) -> Step:
        self.epoch += 1
        return self.write([*self._consumer_tombstones(group_id), value_of(group_id, self.epoch)])

    def delete(self, group_id: str) -> Step:
        return self.write([*self._consumer_tombstones(group_id), GroupRecord(GroupKey(group_id), None)])

    def join(self, group_id: str, member_id: str) -> Step:
        self.epoch += 1
        was = [GroupRecord(GroupKey(group_id), None)] if group_id in self.shard.groups else []
        owned = {TOPIC_ID: frozenset({MEMBERS.index(member_id), self.epoch * len(MEMBERS) + MEMBERS.index(member_id)})}
        current = Current(epoch=self.epoch, previous_epoch=0, state=MemberState.STABLE, assigned=owned)
        values: list[tuple[Kind, str, ConsumerValue]] = [
            (Kind.MEMBER, member_id, Subscriber(client_id="c", client_host="/h", topics=("t",))),
            (Kind.GROUP, "", GroupEpoch(self.epoch, 7)),
            (Kind.TARGET_MEMBER, member_id, Target(owned)),
            (Kind.TARGET, "", TargetEpoch(self.epoch)),
            (Kind.CURRENT, member_id, current),
        ]
        return self.write(
            [*was, *(GroupRecord(ConsumerKey(kind, group_id, name), value) for kind, name, value in values)]
        )

    def leave(self, group_id: str, member_id: str) -> Step:
        kinds = (Kind.CURRENT, Kind.TARGET_MEMBER, Kind.MEMBER)
        return self.write([GroupRecord(ConsumerKey(kind, group_id, member_id), None) for kind in kinds])

    def _consumer_tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        group = self.shard.consumers.get(group_id)
        yield from [] if group is None else group.tombstones()


@st.composite
def logs(draw: st.DrawFn) -> list[Step]:
    groups, steps = Groups(), []
    for _ in range(draw(st.integers(1, 14))):
        group_id, member_id = draw(st.sampled_from(GROUPS)), draw(st.sampled_from(MEMBERS))
        match draw(st.sampled_from(("plain", "plain", "transaction", "marker", "classic", "delete", "join", "leave"))):
            case "plain":
                steps.append(Step(draw(offsets)))
            case "transaction":
                steps.append(Step(draw(offsets), draw(producers)))
            case "marker":
                kind = draw(st.sampled_from((ControlType.COMMIT, ControlType.ABORT)))
                steps.append(Step(producer_id=draw(producers), marker=kind))
            case "classic":
                steps.append(groups.store_classic(group_id))
            case "delete":
                steps.append(groups.delete(group_id))
            case "join":
                steps.append(groups.join(group_id, member_id))
            case "leave" if group_id in groups.shard.consumers:
                steps.append(groups.leave(group_id, member_id))
    return steps


@given(logs())
def test_the_last_records_give_what_all_records_give(steps: list[Step]) -> None:
    assert known(last_alone(steps)) == known(one_by_one(steps))


held_pairs = st.builds(GroupRecord, offset_keys, offset_values).map(pair)
"""No coordinator deletes in a transaction."""
committed_offsets = st.lists(
    st.builds(Step, st.lists(offset_pairs, min_size=1, max_size=3).map(tuple))
    | st.builds(Step, st.lists(held_pairs, min_size=1, max_size=3).map(tuple), producers)
    | st.builds(Step, producer_id=producers, marker=st.sampled_from((ControlType.COMMIT, ControlType.ABORT))),
    max_size=12,
)


def cleaned(steps: list[Step]) -> list[Step]:
    """The log after its cleaner has run up to the last stable offset: of each key the last record that counts."""
    ends = {
        at: next((i for i in range(at, len(steps)) if is_end(steps[i], steps[at])), None) for at in range(len(steps))
    }
    plain = [at for at, step in enumerate(steps) if step.producer_id < 0]
    opened = [at for at in ends if at not in plain and steps[at].marker is None and ends[at] is None]
    stable = min(opened, default=len(steps))
    aborted = {at for at, end in ends.items() if at not in plain and end is not None and steps[end].marker is ABORT}
    last = {key: (at, i) for at in range(stable) if at not in aborted for i, (key, _) in enumerate(steps[at].pairs)}
    return [
        step
        if at >= stable or step.marker is not None
        else replace(step, pairs=tuple(each for i, each in enumerate(step.pairs) if last.get(each[0]) == (at, i)))
        for at, step in enumerate(steps)
    ]


def is_end(marker: Step, of: Step) -> bool:
    return marker.marker is not None and marker.producer_id == of.producer_id


@given(committed_offsets)
def test_what_a_log_says_does_not_depend_on_whether_its_cleaner_has_run(steps: list[Step]) -> None:
    after = [step for step in cleaned(steps) if step.pairs or step.marker is not None]
    assert known(last_alone(after)) == known(last_alone(steps))
    assert known(one_by_one(after)) == known(one_by_one(steps))


@given(logs())
def test_a_log_that_is_checked_rejects_what_cannot_be_decoded(steps: list[Step]) -> None:
    last = LastRecords(is_offset_key, decode_record)
    rejected = [each for step in steps for each in last.take(parse_header(step.encoded()), records_of(step.encoded()))]
    bad = [each for step in steps if step.marker is None for each in step.pairs if not is_readable(each)]
    assert len(rejected) == len(bad)
    assert known(decoded_shard(last)) == known(one_by_one(steps))


def is_readable(each: Pair) -> bool:
    try:
        decode_record(*each)
    except CorruptRecordError:
        return False
    return True


def offset(at: int, partition: int = 0) -> Pair:
    return pair(GroupRecord(OffsetKey("g", "t", partition), OffsetValue(offset=at, commit_timestamp_ms=0)))


def test_one_value_of_each_key_is_held_and_none_of_what_was_deleted() -> None:
    key = offset(0, 1)[0]
    last = taken([Step((offset(1), offset(2), offset(3, 1))), Step(((key, None), offset(4)))], LastRecords())
    assert last.last == dict([offset(4)])


def test_values_come_in_the_order_in_which_they_were_written_last() -> None:
    last = taken([Step((offset(1), offset(2, 1), offset(3)))], LastRecords())
    assert list(last.last) == [offset(0, 1)[0], offset(0)[0]]


def test_what_a_transaction_held_comes_where_its_marker_is() -> None:
    steps = [
        Step((offset(2),)),
        Step((offset(1),), producer_id=7),
        Step((offset(7, 2),)),
        Step((value_of("g", 1).encoded(),), producer_id=7),
        Step(producer_id=7, marker=ControlType.COMMIT),
        Step((offset(9),), producer_id=8),
        Step(producer_id=8, marker=ControlType.ABORT),
        Step((offset(5, 1),), producer_id=9),
    ]
    last = taken(steps, LastRecords(is_offset_key))
    assert list(last.last.items()) == [offset(7, 2), offset(1)]
    assert list(last.undecided) == [(9, *offset(5, 1))]


@pytest.mark.parametrize("later", [offset(2), (offset(0)[0], None)], ids=["commit", "tombstone"])
def test_a_marker_brings_back_no_offset_that_a_later_record_has_replaced(later: Pair) -> None:
    """The log's cleaner keeps the last record of a key, so a marker must not bring an earlier one back."""
    steps = [Step((offset(1),), producer_id=7), Step((later,)), Step(producer_id=7, marker=ControlType.COMMIT)]
    cleaned = steps[1:]
    for log in (steps, cleaned):
        assert known(one_by_one(log)) == known(last_alone(log)) == known(one_by_one([Step((later,))]))


@pytest.mark.parametrize("first", [7, 8])
def test_of_two_transactions_the_offset_that_was_written_last_counts(first: int) -> None:
    steps = [Step((offset(1),), producer_id=7), Step((offset(2),), producer_id=8)]
    ends = [Step(producer_id=each, marker=ControlType.COMMIT) for each in (first, 15 - first)]
    for log in ([*steps, *ends], [*steps, ends[first - 8]]):
        assert known(one_by_one(log)) == known(last_alone(log)) == known(one_by_one([Step((offset(2),))]))


def test_a_record_without_a_key_is_passed_over() -> None:
    batch = build_batch([Record(0, 0, None, b"v")], base_offset=0)
    for last in (LastRecords(), LastRecords(check=decode_record)):
        assert last.take(parse_header(batch), records_of(batch)) == []
        assert last.last == {}


def test_a_control_record_without_a_type_is_rejected() -> None:
    marker = Step(producer_id=7, marker=ControlType.COMMIT).encoded()
    (record,) = records_of(marker)
    last = LastRecords()
    ((rejected, _),) = last.take(parse_header(marker), [record._replace(key_size=1)])
    assert rejected == record.offset
